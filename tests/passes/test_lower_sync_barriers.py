"""The model of core_barrier on semaphores: every interleaving of two to four barriers in a row."""

from __future__ import annotations

import pytest

from haulout.passes.sync.barrier_model import SCHEMES, Step, barrier_lines, explore

SOUND = ("monotone", "alternating")
SIZES = [(2, 2, 0), (2, 3, 0), (2, 4, 0), (3, 2, 0), (3, 3, 0), (2, 2, 1), (2, 3, 1), (2, 2, 2)]
"""(cores, barriers in a row, engines beside the keeper)"""


@pytest.mark.parametrize("scheme", SOUND)
@pytest.mark.parametrize("cores, barriers, engines", SIZES)
def test_sound_schemes_survive_barriers_in_a_row(scheme: str, cores: int, barriers: int, engines: int) -> None:
    found = explore(barrier_lines(SCHEMES[scheme], cores, barriers, engines))
    assert found.sound, found


@pytest.mark.parametrize("cores, barriers, engines", SIZES)
def test_one_count_set_to_zero_loses_a_signal(cores: int, barriers: int, engines: int) -> None:
    assert explore(barrier_lines(SCHEMES["reset"], cores, barriers, engines)).hangs


@pytest.mark.parametrize("cores, barriers, engines", SIZES)
def test_up_and_down_hangs_when_a_quick_core_takes_its_one_away(cores: int, barriers: int, engines: int) -> None:
    assert explore(barrier_lines(SCHEMES["up and down"], cores, barriers, engines)).hangs


@pytest.mark.parametrize("cores, barriers, engines", SIZES)
def test_a_count_that_is_never_cleared_lets_a_core_pass_early(cores: int, barriers: int, engines: int) -> None:
    assert explore(barrier_lines(SCHEMES["stale"], cores, barriers, engines)).passes_early


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("cores", [2, 3])
def test_one_barrier_is_no_trouble_for_any(scheme: str, cores: int) -> None:
    """What breaks the others is the second barrier."""
    assert explore(barrier_lines(SCHEMES[scheme], cores, 1, 0)).sound


def test_a_barrier_that_does_not_wait_is_passed_early() -> None:
    def careless(core: int, cores: int, barrier: int) -> list[Step]:
        return []

    found = explore(barrier_lines(careless, 2, 1, 0))
    assert found.passes_early
    assert not found.hangs


def test_a_keeper_that_does_not_wait_for_its_engines_is_found() -> None:
    lines = [
        tuple(step for step in line if step.counter != "here" or step.does != "at_least")
        for line in barrier_lines(SCHEMES["monotone"], 2, 1, 1)
    ]
    assert explore(lines).passes_early


def test_a_wrong_constant_is_found() -> None:
    def short(core: int, cores: int, barrier: int) -> list[Step]:
        return [
            step._replace(value=step.value - 1) if step.does == "at_least" else step
            for step in SCHEMES["monotone"](core, cores, barrier)
        ]

    assert explore(barrier_lines(short, 3, 2, 0)).passes_early
