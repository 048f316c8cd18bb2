"""The cores of a module: its partitions, its replicas where there is one partition, or as many as the caller says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.frontends.hlo.executor import Executor

import haulout
from haulout.frontends.hlo import lower, parse_hlo
from haulout.ir.enums import NONE
from haulout.ir.program import Program
from haulout.ir.schema import MAX_CORES
from haulout.ir.verify import verify
from haulout.support.diagnostics import HauloutError

SUM = "sum {\n  p = f32[] parameter(0)\n  q = f32[] parameter(1)\n  ROOT r = f32[] add(p, q)\n}\n"
ADD_NUMBER = (
    "i = u32[] {}()\nc = f32[] convert(i)\nb = f32[2] broadcast(c), dimensions={{}}\nROOT y = f32[2] add(x, b)"
)
FLAT = "channel_id=1, use_global_device_ids=true, "


def text(body: str, header: str = "") -> str:
    return f"HloModule m{header}\n{SUM}ENTRY e {{\nx = f32[2] parameter(0)\n{body}\n}}\n"


def reduced(groups: str, extra: str = "") -> str:
    return f"ROOT r = f32[2] all-reduce(x), {extra}replica_groups={groups}, to_apply=sum"


def program(body: str, header: str = "", cores: int | None = None) -> Program:
    found = lower(parse_hlo(text(body, header), "m.hlo"), cores=cores)
    assert verify(found) == []
    return found


def outputs(found: Program) -> list[list[float]]:
    """Of each core, when core c gets [c + 1, 10 * (c + 1)]."""
    inputs = [[np.array([core + 1, 10 * (core + 1)], np.float32)] for core in range(found.lnc)]
    return [np.ravel(values[0]).tolist() for values in Executor(found).run(inputs)]


@pytest.mark.parametrize("groups", ["{}", "{{0,1,2,3}}", "[1,4]<=[4]", "{{3,1,0,2}}"])
@pytest.mark.parametrize("extra", ["", "channel_id=1, ", FLAT])
@pytest.mark.parametrize("header", ["", ", replica_count=4", ", replica_count=4, num_partitions=1"])
def test_replicas_are_cores(groups: str, extra: str, header: str) -> None:
    found = program(reduced(groups, extra), header, None if header else 4)
    assert found.lnc == 4
    assert outputs(found) == [[10.0, 100.0]] * 4


def test_groups_of_replicas() -> None:
    found = program(reduced("{{0,2},{1,3}}"), ", replica_count=4")
    assert outputs(found) == [[4.0, 40.0], [6.0, 60.0]] * 2


def test_replica_id_is_the_number_of_the_core() -> None:
    body = ADD_NUMBER.format("replica-id")
    assert outputs(program(body, ", replica_count=3")) == [[1.0, 10.0], [3.0, 21.0], [5.0, 32.0]]
    assert outputs(program(body.replace("replica-id", "partition-id"), ", replica_count=2")) == [
        [1.0, 10.0],
        [2.0, 20.0],
    ]


def test_replicas_exchange_by_replica() -> None:
    body = "ROOT y = f32[2] collective-permute(x), source_target_pairs={{0,1},{1,2},{2,0}}"
    assert outputs(program(body, cores=3)) == [[3.0, 30.0], [1.0, 10.0], [2.0, 20.0]]
    each = program("ROOT y = f32[2] all-to-all(x), replica_groups={{0,1}}, dimensions={0}", cores=2)
    assert outputs(each) == [[1.0, 2.0], [10.0, 20.0]]


def test_cores_are_partitions_where_the_program_counts_them() -> None:
    body = "ROOT y = f32[2] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}"
    assert outputs(program(body, cores=2)) == [[2.0, 20.0], [1.0, 10.0]]
    body = ADD_NUMBER.format("partition-id")
    assert outputs(program(body, cores=2)) == [[1.0, 10.0], [3.0, 21.0]]


def same(found: Program) -> set[str]:
    """Parameters that are equal on several cores."""
    rows = found.locations
    return {found.strings[name] for name, classes in zip(rows.name, rows.same, strict=True) if classes != NONE}


def test_shardings_promise_nothing_of_replicas() -> None:
    body = "y = f32[2] parameter(1), sharding={replicated}\nz = f32[2] add(x, y)\n"
    of_replicas = body + reduced("{{0,1}}").replace("(x)", "(z)")
    assert same(program(of_replicas)) == same(program(of_replicas, ", replica_count=2")) == set()
    of_devices = body + reduced("{{0,1}}", FLAT).replace("(x)", "(z)")
    assert same(program(of_devices)) == same(program(of_devices, ", num_partitions=2")) == {"y"}
    assert same(program(of_devices, ", replica_count=2")) == set()


def test_one_partition_exchanges_nothing_by_partition() -> None:
    body = "ROOT y = f32[2] collective-permute(x), channel_id=1, source_target_pairs={{0,0}}"
    assert outputs(program(body, ", replica_count=2")) == [[1.0, 10.0], [2.0, 20.0]]


@pytest.mark.parametrize("header", [", num_partitions=2", ", replica_count=2"])
def test_the_file_says_how_many(header: str) -> None:
    assert program("ROOT y = f32[2] negate(x)", header, 2).lnc == 2
    with pytest.raises(HauloutError, match="so it is not for 4 cores"):
        program("ROOT y = f32[2] negate(x)", header, 4)


@pytest.mark.parametrize("groups", ["{{0,1,2,3}}", "[1,4]<=[4]", "[1,4]<=[2,2]T(1,0)", "{{2,3},{0,1}}"])
@pytest.mark.parametrize("extra", ["", FLAT])
def test_groups_say_how_many_where_the_header_does_not(groups: str, extra: str) -> None:
    found = program(reduced(groups, extra))
    assert found.lnc == 4
    expected = [[3.0, 30.0]] * 2 + [[7.0, 70.0]] * 2 if groups == "{{2,3},{0,1}}" else [[10.0, 100.0]] * 4
    assert outputs(found) == expected
    pairs = program("ROOT y = f32[2] collective-permute(x), source_target_pairs={{0,2},{2,1}}")
    assert outputs(pairs) == [[0.0, 0.0], [3.0, 30.0], [1.0, 10.0]]


def test_a_header_that_says_one_is_one() -> None:
    with pytest.raises(HauloutError, match="expected an id below 1"):
        program(reduced("{{0,1}}"), ", replica_count=1")
    with pytest.raises(HauloutError, match="expected an id below 2"):
        program(reduced("{{0,1,2}}", FLAT), cores=2)


def test_too_many_cores() -> None:
    with pytest.raises(HauloutError, match=f"replica_count=2000: at most {MAX_CORES} cores"):
        program("ROOT y = f32[2] negate(x)", ", replica_count=2000")


def test_replicas_of_partitions_do_not_communicate() -> None:
    assert program("ROOT y = f32[2] negate(x)", ", replica_count=2, num_partitions=2").lnc == 2
    with pytest.raises(HauloutError, match="collectives over replicas are not supported"):
        program(reduced("{{0,1}}"), ", replica_count=2, num_partitions=2")


def test_collectives_that_exchange_nothing_are_one_finding(tmp_path: Path) -> None:
    path = tmp_path / "dump.hlo"
    body = "\n".join(f"a{at} = f32[2] all-reduce(x), replica_groups={{}}, to_apply=sum" for at in range(12))
    path.write_text(text(f"{body}\nROOT y = f32[2] add(a0, a11)").replace("add(a0, a11)", "add(a0, a1)"))
    (found,) = haulout.compile(path).diagnostics
    assert found.message == (
        "2 collectives exchange nothing: each of their groups has one member (groups=[[0]]): %a0, %a1"
    )


def test_the_command_takes_cores(tmp_path: Path) -> None:
    """Any suffix will do: a file is known by its contents."""
    path = tmp_path / "dump.txt"
    path.write_text("// a comment first\n" + text(reduced("{}")))
    assert haulout.load(path, cores=4).lnc == 4
    result = haulout.compile(path, cores=4)
    assert result.ok and result.proved
    values = {f"nc{core}/x": np.full(2, core + 1, np.float32) for core in range(4)}
    found = haulout.simulate(result.program, values).outputs
    assert all(np.array_equal(value, [10.0, 10.0]) for value in found.values())
    idle = haulout.compile(path)
    assert [each.code for each in idle.diagnostics] == ["one-member-collective"]
    assert "--cores" in idle.diagnostics[0].help[0]


def test_a_program_of_replicas_is_not_divided(tmp_path: Path) -> None:
    path = tmp_path / "m.hlo"
    path.write_text(text(reduced("{}")))
    with pytest.raises(HauloutError, match="it is no program of one device") as caught:
        haulout.compile(path, lnc=4)
    assert "--cores N" in caught.value.diagnostics[0].help[0]


def test_cores_of_a_program_that_is_no_hlo(tmp_path: Path) -> None:
    with pytest.raises(HauloutError, match="cores is the number of cores of HLO text"):
        haulout.load(program("ROOT y = f32[2] negate(x)"), cores=2)  # type: ignore[arg-type]
