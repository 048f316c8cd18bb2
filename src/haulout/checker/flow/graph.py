"""What the walk of `claims.py` needs, as columns: a text, what its events wait for, and what is asked of them."""

from __future__ import annotations

from typing import NamedTuple

from haulout.ir.schema import Bools, Column, Ids, Ints


class Graph(NamedTuple):
    """A text and what its events wait for, as columns for the kernel."""

    steps: Column
    loops: Column
    forks: Column
    places: Column
    schedule: Ids
    line: Ids
    position: Ids
    holder: Ids
    """Of each event: the row that knows what its line does; in a second arm that is walked in parts, its shadow."""
    kind: Ids
    """Of each event: 0 ordinary, 1 of a barrier, 2 a branch."""
    meet_starts: Ints
    meet_lines: Ids
    """Of each barrier: the rows of the lines that meet, ..."""
    meet_event: Ids
    """... the event of each one's core ..."""
    meet_note: Ids
    """... and the note that it leaves on each, -1."""
    meet_fork: Ids
    """Of each barrier: the fork of the steps in both arms of which cores meet there; -1: none."""
    meet_of: Ids
    """Of each event: its barrier, when it is the last of its events in the schedule; -1."""
    line_core: Ids
    core_lines: Ids
    """Lines are numbered core after core: core c has `core_lines[c]:core_lines[c + 1]`."""
    wait_starts: Ints
    wait_note: Ids
    """Events wait for notes ..."""
    carried_starts: Ints
    carried: Ids
    """... and for carried edges."""
    note: Ids
    """Of each event: the note that it leaves, -1."""
    notes: int
    left_starts: Ints
    left: Ids
    """Of each loop of the steps: notes of its header, which are read behind it."""
    edge_starts: Ints
    edge: Ids
    """Of each loop of the steps: the carried edges over its iterations."""
    edge_note: Ids
    edge_level: Ids
    """Of each carried edge: how many loops are around, its own included."""
    edge_low: Ids
    edge_high: Ids
    """Of each carried edge: the blocks whose events alone it may claim, when its producer is in an arm; -1: any."""
    edge_void: Bools
    """Of each carried edge: nothing is claimed."""
    depth: int
    row_core: Ids
    """Of each row that knows: the lines, those of semaphores (`counts.py`), then shadows of the lines."""
    shadow: int
    """The first of the shadows."""
    shift: Ids
    """Of each loop of the steps: from lines to the rows that know what they do inside."""
    read_starts: Ints
    read: Ids
    """Events wait for what rows of semaphores know ..."""
    write_starts: Ints
    write: Ids
    write_from: Ids
    """... and write them, with what another row knows, also that of a line."""
    written_starts: Ints
    written: Ids
    """Of each loop of the steps: the rows of semaphores that are written inside."""


class Queries(NamedTuple):
    """The accesses of events and which may touch the same bytes, under *keys*."""

    starts: Ints
    access: Ids
    """Event e has accesses `access[starts[e]:starts[e + 1]]`."""
    write: Bools
    """Of each access."""
    key_starts: Ints
    key: Ids
    """Of each access: the keys under which others are found."""
    any_starts: Ints
    any_line: Ids
    any_of: Ints
    any_position: Ids
    any_access: Ids
    """All accesses by (key, line): key k has groups `any_starts[k]:any_starts[k + 1]`, group g the line `any_line[g]`
    and the rows `any_of[g]:any_of[g + 1]` of the last two, ascending."""
    write_starts: Ints
    write_line: Ids
    write_of: Ints
    write_position: Ids
    write_access: Ids
    """The same of writes alone."""


class Open(NamedTuple):
    """Pairs that are not claimed to be ordered."""

    total: int
    first: Ids
    second: Ids
    level: Ids
    lag: Ids
    walks: int
