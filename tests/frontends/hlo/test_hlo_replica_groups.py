"""Replica groups: every form against a grouping written out by hand or made from coordinates one device at a time."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from haulout.frontends.hlo.parser import parse_hlo
from haulout.frontends.hlo.replica_groups import Groups, core_groups, core_pairs, device_groups
from haulout.frontends.hlo.source import Excerpt, Source
from haulout.support.diagnostics import HauloutError


def groups(text: str, count: int) -> Groups:
    return device_groups(Excerpt(Source("g.hlo", text), 0, len(text)), count)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{0,1},{2,3}}", ((0, 1), (2, 3))),
        ("{{3,1},{2,0}}", ((3, 1), (2, 0))),
        ("{{0},{1,2,3}}", ((0,), (1, 2, 3))),
        ("{}", ()),
        ("[2,2]<=[4]", ((0, 1), (2, 3))),
        ("[2,2]<=[2,2]T(1,0)", ((0, 2), (1, 3))),
        ("[1,4]<=[2,2]T(1,0)", ((0, 2, 1, 3),)),
        ("mesh['a'=2,'b'=2] {'a'}", ((0, 2), (1, 3))),
        ("mesh['a'=2,'b'=2] {'b'}", ((0, 1), (2, 3))),
        ("mesh['a'=2,'b'=2] {'a','b'}", ((0, 1, 2, 3),)),
        ("mesh['a'=2,'b'=2] {'b','a'}", ((0, 2, 1, 3),)),
        ("mesh['a'=2,'c'=1,'b'=2], device_ids=([2,2]T(1,0)) {'a'}", ((0, 1), (2, 3))),
        ("mesh['a'=2,'b'=2], device_ids=(3,1,0,2) {'a'}", ((3, 0), (1, 2))),
        ("mesh['a'=2,'b'=2], device_ids=(3,1,0,2) {'b'}", ((3, 1), (0, 2))),
        ("mesh['a'=4] {'a':(2)2,'a':(1)2}", ((0, 2, 1, 3),)),
        ("mesh['a'=4] {'a':(1)2}", ((0, 2), (1, 3))),
        ("mesh['a'=4] {'a':(2)2}", ((0, 1), (2, 3))),
    ],
)
def test_forms(text: str, expected: Groups) -> None:
    assert groups(text, 4) == expected


@pytest.mark.parametrize(
    ("mesh", "iota"),
    [
        ("{'a':(1)2}", "[4,2]<=[2,4]T(1,0)"),
        ("{'a':(1)4}", "[2,4]<=[4,2]T(1,0)"),
        ("{'a':(2)2}", "[4,2]<=[2,2,2]T(0,2,1)"),
        ("{'a':(2)4}", "[2,4]<=[8]"),
        ("{'a':(1)2,'a':(4)2}", "[2,4]<=[2,2,2]T(1,0,2)"),
        ("{'a':(4)2,'a':(1)2}", "[2,4]<=[2,2,2]T(1,2,0)"),
    ],
)
def test_sub_axes_equal_their_iota_form(mesh: str, iota: str) -> None:
    assert groups("mesh['a'=8] " + mesh, 8) == groups(iota, 8)


@given(st.data())
def test_mesh_against_coordinates(data: st.DataObject) -> None:
    """Each mesh axis is one or two named pieces; devices are grouped by their coordinates, one by one."""
    axis_pieces = st.integers(1, 3).map(lambda size: [size]) | st.lists(st.integers(2, 3), min_size=2, max_size=2)
    pieces = data.draw(st.lists(axis_pieces, min_size=1, max_size=3))
    sizes = [math.prod(parts) for parts in pieces]
    flat = [(axis, at) for axis, parts in enumerate(pieces) for at in range(len(parts))]
    chosen = data.draw(st.lists(st.sampled_from(flat), unique=True, min_size=1))
    count = math.prod(sizes)
    ids = data.draw(st.permutations(range(count)))
    coordinates = list(itertools.product(*(range(size) for parts in pieces for size in parts)))
    expected: dict[tuple[int, ...], list[tuple[tuple[int, ...], int]]] = {}
    for device, where in zip(ids, coordinates, strict=True):
        rest = tuple(index for name, index in zip(flat, where, strict=True) if name not in chosen)
        member = tuple(where[flat.index(name)] for name in chosen)
        expected.setdefault(rest, []).append((member, device))
    axes = []
    for axis, at in chosen:
        parts = pieces[axis]
        whole = len(parts) == 1
        axes.append(f"'x{axis}'" if whole else f"'x{axis}':({math.prod(parts[:at])}){parts[at]}")
    mesh = ",".join(f"'x{axis}'={size}" for axis, size in enumerate(sizes))
    text = f"mesh[{mesh}], device_ids=({','.join(map(str, ids))}) {{{','.join(axes)}}}"
    assert sorted(groups(text, count)) == sorted(
        tuple(device for _, device in sorted(group)) for group in expected.values()
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("all", "expected replica groups"),
        ("", "expected replica groups"),
        ("{{0,1},{2,4}}", "expected an id below 4, found 4"),
        ("{{0,1},{1,3}}", "id 1 occurs twice as a member"),
        ("{{0,1},{2}}", "must name every core once"),
        ("{{0,1,2,3},{}}", "must name every core once"),
        ("{0,1,2,3}", "expected `{`"),
        ("[2,2]<=[8]", "these groups have 8 ids, the program has 4"),
        ("[1000000,1000000]<=[1000000,1000000]", "the program has 4"),
        ("[3,2]<=[4]", "4 ids do not fill [3, 2]"),
        ("[4]<=[4]", "expected [groups, members]"),
        ("[2,2]<=[2,2]T(0,0)", "is not a permutation"),
        ("[2,2]<=[2,2]T(1,0) x", "expected the end of the replica groups"),
        ("mesh['a'=2,'b'=4] {'a'}", "the mesh has 8 devices"),
        ("mesh['a'=2,'a'=2] {'a'}", "two axes 'a'"),
        ("mesh['a'=2,'b'=2] {'c'}", "no axis 'c'"),
        ("mesh['a'=2,'b'=2] {'a','a'}", "overlap"),
        ("mesh['a'=4] {'a','a':(1)2}", "overlap"),
        ("mesh['a'=4] {'a':(1)2,'a':(1)4}", "overlap"),
        ("mesh['a'=4] {'a':(1)3}", "does not divide"),
        ("mesh['a'=4] {'a':(1)1}", "must be at least 2"),
        ("mesh['a'=4] {a}", "in quotes"),
        ("mesh[a=4] {'a'}", "in quotes"),
        ("mesh['a'=4]", "the axes of a group"),
        ("mesh['a'=4], device_ids=(0,1,2) {'a'}", "3 ids do not fill [4]"),
        ("mesh['a'=4], device_ids=(0,1,2,2) {'a'}", "twice"),
        ("mesh['a'=4], device_ids=([2,3]T(1,0)) {'a'}", "6 ids"),
        ("@mesh<a=4> {a}", "expected replica groups"),
    ],
)
def test_what_is_not_understood_is_an_error(text: str, message: str) -> None:
    with pytest.raises(HauloutError) as caught:
        groups(text, 4)
    assert message in str(caught.value)


def collective(attributes: str, opcode: str = "all-reduce", header: str = "num_partitions=4") -> Groups:
    hlo = parse_hlo(
        f"HloModule m, {header}\nENTRY e {{\n  x = f32[] parameter(0)\n  y = f32[] {opcode}(x){attributes}\n}}\n"
    )
    read = core_pairs if opcode == "collective-permute" else core_groups
    return read(hlo.entry.root, hlo)


def test_modes() -> None:
    """Partition ids with use_global_device_ids; without it ids are replicas, of which there is one."""
    everyone, alone = ((0, 1, 2, 3),), ((0,), (1,), (2,), (3,))
    assert collective(", channel_id=1, replica_groups=[2,2]<=[4], use_global_device_ids=true") == ((0, 1), (2, 3))
    assert collective(", channel_id=1, replica_groups={{0}}") == everyone
    assert collective(", channel_id=1, replica_groups={}") == everyone
    assert collective(", replica_groups={{0}}") == alone
    assert collective(", replica_groups={}") == alone
    assert collective(", channel_id=1, replica_groups={{0,2},{1,3}}", "all-to-all") == ((0, 2), (1, 3))
    assert collective(", channel_id=1, replica_groups={}", "all-to-all") == everyone


def test_permutes() -> None:
    pairs = ", source_target_pairs={{0,2},{3,1}}"
    assert collective(", channel_id=1" + pairs, "collective-permute") == ((0, 2), (3, 1))
    assert collective(", channel_id=1, source_target_pairs={}", "collective-permute") == ()
    assert collective(", source_target_pairs={{0,0}}", "collective-permute") == ((0, 0), (1, 1), (2, 2), (3, 3))


@pytest.mark.parametrize(
    ("opcode", "attributes", "message"),
    [
        ("all-reduce", ", replica_groups={{0,1},{2,3}}", "expected an id below 1"),
        ("all-reduce", ", channel_id=1, replica_groups={{0,1},{2,3}}", "expected an id below 1"),
        ("all-reduce", ", replica_groups={{0,1,2,3}}, use_global_device_ids=true", "without `channel_id`"),
        ("all-reduce", ", channel_id=1, replica_groups={}, use_global_device_ids=true", "must be written out"),
        ("all-reduce", ", channel_id=1, use_global_device_ids=true", "must be written out"),
        ("all-to-all", ", replica_groups={{0,1,2,3}}", "expected an id below 1"),
        ("collective-permute", ", channel_id=1", "needs `source_target_pairs`"),
        ("collective-permute", ", channel_id=1, source_target_pairs={{0,4}}", "expected an id below 4, found 4"),
        ("collective-permute", ", channel_id=1, source_target_pairs={{0,1},{0,2}}", "id 0 occurs twice as a source"),
        ("collective-permute", ", channel_id=1, source_target_pairs={{0,1},{2,1}}", "id 1 occurs twice as a target"),
        ("collective-permute", ", source_target_pairs={{0,1}}", "expected an id below 1"),
    ],
)
def test_modes_that_cannot_mean_cores(opcode: str, attributes: str, message: str) -> None:
    with pytest.raises(HauloutError) as caught:
        collective(attributes, opcode)
    assert message in str(caught.value)


def test_replicas_are_refused() -> None:
    with pytest.raises(HauloutError, match="replica_count=2"):
        collective(", channel_id=1, replica_groups={{0,1}}", header="num_partitions=4, replica_count=2")
