"""Partitions of the cores: laws of the lattice, and transfers against what collectives compute."""

from __future__ import annotations

from itertools import product
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from haulout.ir.partitions import (
    Partition,
    alone,
    by_key,
    from_classes,
    gathered,
    is_finer,
    meet,
    one_class,
    permuted,
    scattered,
    to_classes,
)

CORES = 4
PARTITIONS = sorted({by_key(keys) for keys in product(range(CORES), repeat=CORES)})
partitions = st.sampled_from(PARTITIONS)


def test_all_partitions_of_four_cores() -> None:
    assert len(PARTITIONS) == 15
    assert one_class(CORES) in PARTITIONS and alone(CORES) in PARTITIONS
    for each in PARTITIONS:
        assert from_classes(to_classes(each), CORES) == each
    assert from_classes([[1, 3]], CORES) == (0, 1, 2, 1)


def test_meet_is_the_coarsest_refinement_of_both() -> None:
    for one, other in product(PARTITIONS, repeat=2):
        found = meet(one, other)
        below = [each for each in PARTITIONS if is_finer(each, one) and is_finer(each, other)]
        assert found in below
        assert all(is_finer(each, found) for each in below)
        equal = [[one[i] == one[j] and other[i] == other[j] for j in range(CORES)] for i in range(CORES)]
        assert equal == [[found[i] == found[j] for j in range(CORES)] for i in range(CORES)]


def _values(rng: Random, partition: Partition) -> list[int]:
    """Of each core a value; cores of other classes have other ones."""
    drawn = rng.sample(range(100), CORES)
    return [drawn[first] for first in partition]


def _groups(rng: Random) -> tuple[tuple[int, ...], ...]:
    order, found = rng.sample(range(CORES), CORES), []
    while order:
        size = rng.randint(1, len(order))
        found.append(tuple(order[:size]))
        order = order[size:]
    return tuple(found[: rng.randint(1, len(found))])


@given(st.integers(0, 10**9), partitions)
def test_transfers_against_values(seed: int, partition: Partition) -> None:
    """With values that differ wherever they may, results are equal exactly where a transfer says so."""
    rng = Random(seed)
    values, groups = _values(rng, partition), _groups(rng)
    concatenated: list[object] = [("own", core) for core in range(CORES)]
    pieces = list(concatenated)
    for members in groups:
        for place, core in enumerate(members):
            concatenated[core] = [values[each] for each in members]
            pieces[core] = [(values[each], place) for each in members]
    targets = rng.sample(range(CORES), rng.randint(0, CORES))
    pairs = tuple(zip(rng.sample(range(CORES), len(targets)), targets, strict=True))
    received: list[object] = ["zeros"] * CORES
    for source, target in pairs:
        received[target] = values[source]
    for found, results in (
        (gathered(partition, groups), concatenated),
        (scattered(partition, groups), pieces),
        (permuted(partition, pairs), received),
    ):
        assert found == by_key(map(repr, results))


@given(st.integers(0, 10**9), partitions, partitions)
def test_transfers_keep_the_order(seed: int, one: Partition, other: Partition) -> None:
    """What is finer stays finer: so refinement reaches the greatest fixpoint."""
    groups, fine = _groups(Random(seed)), meet(one, other)
    assert is_finer(gathered(fine, groups), gathered(one, groups))
    assert is_finer(scattered(fine, groups), scattered(one, groups))
    pairs = tuple((members[0], members[-1]) for members in groups)
    assert is_finer(permuted(fine, pairs), permuted(one, pairs))
