"""The table of opcodes: how operands are counted, and that its rows agree with each other."""

import pytest

from haulout.ir.opcodes import COMMUTING, FETCH, OPCODES, REDUCTIONS, UNKNOWN, Flow, Operands, lookup


@pytest.mark.parametrize(
    ("text", "n", "counts"),
    [
        ("-> y", 1, (0, 1)),
        ("x, y -> z", 1, (2, 1)),
        ("x, start* -> y", 0, (1, 1)),
        ("x, start* -> y", 3, (4, 1)),
        ("x+, init+ -> y+", 2, (4, 2)),
        ("x+, indices, update+ -> y+", 3, (7, 3)),
    ],
)
def test_operands_are_counted(text: str, n: int, counts: tuple[int, int]) -> None:
    operands = Operands.parse(text)
    assert operands.text == text
    assert operands.counts(n) == counts
    assert operands.repeats(counts[0]) == n


@pytest.mark.parametrize(
    ("text", "reads"), [("-> y", 1), ("x, y -> z", 3), ("x, start* -> y", 0), ("x+, init+ -> y+", 3), ("x+ -> y", 0)]
)
def test_a_number_of_operands_that_does_not_fit(text: str, reads: int) -> None:
    assert Operands.parse(text).repeats(reads) is None


@pytest.mark.parametrize(
    ("opcode", "reads", "indices"),
    [
        ("gather", 2, [1]),
        ("dynamic_slice", 3, [1, 2]),
        ("dynamic_update_slice", 4, [2, 3]),
        ("scatter", 5, [2]),
        ("add", 2, []),
        ("nki.local_gather", 2, [0, 1]),
        ("scatter", 4, [0, 1, 2, 3]),  # as many operands as no scatter has: each may be the one
    ],
)
def test_indices_are_found_by_the_names_of_operands(opcode: str, reads: int, indices: list[int]) -> None:
    assert [at for at in range(reads) if lookup(opcode).is_index(at, reads)] == indices


def test_what_is_not_in_the_table_may_do_anything() -> None:
    for row in (lookup("frobnicate"), lookup(""), UNKNOWN):
        assert not row.function and not row.commutes and not row.collective and row.flow is Flow.WHOLE


@pytest.mark.parametrize(
    ("opcode", "collective", "function"),
    [
        ("nki.tensor_tensor", False, True),
        ("nki.new_instruction", False, True),
        ("nki.rng", False, False),
        ("nki.all_reduce", True, True),
        ("nki.all_gather", True, True),
        ("nki.all_gather_v2", True, False),
        ("nki.reduce_scatter", True, False),
        ("nki.collective_permute_implicit", True, False),
    ],
)
def test_families_of_nki(opcode: str, collective: bool, function: bool) -> None:
    row = lookup(opcode)
    assert (row.name, row.is_nki, row.collective, row.function) == (opcode, True, collective, function)


def test_rows_agree() -> None:
    assert set(REDUCTIONS) < COMMUTING and FETCH not in COMMUTING
    for row in OPCODES.values():
        names = {name.rstrip("+*") for name in row.operands.reads} if row.operands is not None else {"*"}
        assert row.indices <= names, row.name
        assert not row.commutes or (row.operands is not None and row.operands.counts() == (2, 1)), row.name
        assert row.is_nki or bool(row.does) or row.section == "element-wise", row.name
        assert row.section != "element-wise" or row.types, row.name
