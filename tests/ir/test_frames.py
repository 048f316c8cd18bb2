"""Tables as frames: decoded names and enums, nulls, cores; HTML for notebooks."""

from __future__ import annotations

import builtins
import re
from typing import Any

import numpy as np
import pytest
from tests.cli.command import HLO, RACE

import haulout
from haulout import HauloutError, api
from haulout.ir.enums import NONE, Engine, Kind, Space
from haulout.ir.program import Program
from haulout.ir.schema import TABLES


@pytest.fixture(scope="module")
def program() -> Program:
    return haulout.compile(HLO).program


def test_numpy_columns_are_decoded(program: Program) -> None:
    for name, table in TABLES.items():
        columns = program.frame(name, "numpy")
        assert set(table.specs()) <= set(columns)
        assert {len(each) for each in columns.values()} == {len(program.table(name))}
    rows, locations = program.frame("locations", "numpy"), program.locations
    for row in range(len(locations)):
        name, remote = int(locations.name[row]), int(locations.remote_name[row])
        assert rows["name"][row] == program.strings[name]
        assert rows["remote_name"][row] == (None if remote == NONE else program.strings[remote])
        assert rows["space"][row] == Space(locations.space[row]).text
        assert rows["kind"][row] == Kind(locations.kind[row]).text
        assert rows["core"][row] == program.location_core[row]
    engines = program.frame("instructions", "numpy")["engine"]
    assert engines.tolist() == [Engine(each).text for each in program.instructions.engine]
    assert any(each is None for each in rows["remote_name"]) and any(rows["remote_name"])


def test_refusals(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    for call in (
        lambda: program.frame("rows"),
        lambda: program.to_arrow("rows"),
        lambda: program.frame("blocks", "polars"),  # type: ignore[arg-type]
    ):
        with pytest.raises(HauloutError, match="bad-input"):
            call()
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name in ("pandas", "pyarrow"):
            raise ModuleNotFoundError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(HauloutError, match="pyarrow"):
        program.to_arrow("locations")
    with pytest.raises(HauloutError, match="pandas is not installed"):
        program.frame("locations", "pandas")
    monkeypatch.setattr("haulout.ir.frames.find_spec", lambda _: None)
    assert isinstance(program.frame("locations"), dict)


def _same(values: list[Any], column: np.ndarray[Any, Any], null: bool) -> None:
    wanted = [None if null and each == NONE else each for each in column.tolist()]
    assert values == wanted


@pytest.mark.parametrize("name", TABLES)
def test_pandas_has_the_same_values(name: str, program: Program) -> None:
    pandas = pytest.importorskip("pandas")
    frame, columns = program.frame(name), program.frame(name, "numpy")
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame) == list(columns)
    for key, spec in {**TABLES[name].specs(), **({"core": {"null": False}} if "core" in frame else {})}.items():
        values = [None if pandas.isna(each) else each for each in frame[key].tolist()]
        _same(values, columns[key], spec["null"] and columns[key].dtype != object)


@pytest.mark.parametrize("name", TABLES)
def test_arrow_has_the_same_values(name: str, program: Program) -> None:
    pytest.importorskip("pyarrow")
    table, columns = program.to_arrow(name), program.frame(name, "numpy")
    assert table.column_names == list(columns)
    for key, spec in TABLES[name].specs().items():
        _same(table[key].to_pylist(), columns[key], spec["null"] and columns[key].dtype != object)


def _cells(html: str) -> list[str]:
    assert html.count("<table>") == html.count("</table>") > 0
    return re.findall(r"<td>(.*?)</td>", html)


def test_results_in_notebooks(program: Program) -> None:
    result = haulout.compile(HLO)
    assert str(result.report.cores[0].barriers) in _cells(result._repr_html_())
    assert "proved;" in result._repr_html_() and "NOT proved" not in result._repr_html_()
    cells = _cells(program._repr_html_())
    assert [cells[0], cells[5]] == ["0", "1"]
    assert f"{np.sum(program.instruction_core == 0):,}" == cells[1]
    checked = api.check_source(RACE)
    assert "cross-core-race" in _cells(checked._repr_html_()) and "NOT proved" in _cells(checked._repr_html_())
    assert "NOT proved" not in _cells(api.check_source(program)._repr_html_())
    simulated = haulout.simulate(RACE)
    assert next(iter(simulated.outputs)) in _cells(simulated._repr_html_())
    assert "&lt;b&gt;" in program.replace(name="<b>")._repr_html_()
    assert "<b>x" not in program.replace(name="<b>x")._repr_html_()
