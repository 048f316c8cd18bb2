"""With a capacity, `minimal` adds the fences that free storage, and none where it fits without."""

from __future__ import annotations

from random import Random

import pytest

import haulout
from haulout.ir.text import parse_bir, print_bir
from haulout.passes.fences.capacity import live_bytes
from haulout_generators.programs import random_program

HANDED_OVER = """bir 1
program "handed over" lnc=2
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=64 kind=input dtype=u8 shape=[64]
    mloc %s dram.shared size=4096
    mloc %t dram.local size=4096
    mloc %out dram.local size=64 kind=output dtype=u8 shape=[64]
    block ^entry:
      %put = fill @dma0 (%x) -> (%s) seq=0
      %work = fill @act () -> (%t) seq=8
      %last = mix @act (%t) -> (%out) seq=9
  }
}
module @nc1 core=1 {
  func @main {
    mloc %s dram.shared size=4096 remote=[s,0]
    mloc %out dram.local size=64 kind=output dtype=u8 shape=[64]
    block ^entry:
      %get = mix @act (%s) -> (%out) seq=2
  }
}
"""
"""Core 1 reads a buffer of core 0; nothing tells core 0 when it has, so its own %t cannot have the buffer's place."""


def compiled(text: str, capacity: int | None) -> haulout.CompileResult:
    return haulout.compile(parse_bir(text), capacity=capacity)


def test_fences_are_added_until_it_fits() -> None:
    free = compiled(HANDED_OVER, None)
    assert free.ok
    assert free.report.barriers == 1
    capacity = free.report.partition_totals["proportional"] - 4096
    tight = compiled(HANDED_OVER, capacity)
    assert tight.ok
    assert tight.report.total_peak_bytes <= capacity
    assert tight.report.barriers == 2
    (note,) = tight.diagnostics
    assert note.code == "capacity-fence"
    # Core 1 holds 64 bytes of its own; without the fence core 0 would hold both buffers.
    assert (
        note.message == "fence cb_sg0_free0 was added for the capacity: it frees 4096 bytes at the peaks of the cores"
    )
    assert [label.message for label in note.labels] == ["before %work on core 0", "at the end of core 1"]


def test_none_is_added_where_it_fits() -> None:
    free = compiled(HANDED_OVER, None)
    same = compiled(HANDED_OVER, free.report.total_peak_bytes)
    assert same.report.barriers == free.report.barriers
    assert same.diagnostics == []


def test_what_cannot_fit_says_so() -> None:
    with pytest.raises(haulout.HauloutError) as caught:
        compiled(HANDED_OVER, 1024)
    assert caught.value.diagnostics[0].code == "over-capacity"


PUSHED = """bir 1
program "pushed" lnc=2
module @nc0 core=0 {
  func @main {
    mloc %x dram.local size=64 kind=input dtype=u8 shape=[64]
    mloc %s dram.shared size=4096
    mloc %t dram.local size=4096
    mloc %out dram.local size=64 kind=output dtype=u8 shape=[64]
    block ^entry:
      %work = fill @act () -> (%t) seq=0
      %mid = mix @act (%t) -> (%out) seq=1
      %get = mix @act (%s, %out) -> (%out) seq=9
  }
}
module @nc1 core=1 {
  func @main {
    mloc %x dram.local size=64 kind=input dtype=u8 shape=[64]
    mloc %s dram.shared size=4096 remote=[s,0]
    block ^entry:
      %put = fill @dma0 (%x) -> (%s) seq=5
  }
}
"""
"""Core 1 may write into core 0's %s before core 0 has done with its %t: nothing holds that write back."""


def test_a_write_of_another_core_is_held_back_until_there_is_room() -> None:
    free = compiled(PUSHED, None)
    assert free.ok
    assert free.report.barriers == 1
    tight = compiled(PUSHED, free.report.total_peak_bytes - 4096)
    assert tight.ok
    assert tight.report.barriers == 2
    assert tight.report.total_peak_bytes == free.report.total_peak_bytes - 4096
    (note,) = tight.diagnostics
    assert "it frees 4096 bytes" in note.message
    assert [label.message for label in note.labels] == ["before %get on core 0", "before %put on core 1"]


def test_every_fence_added_is_needed_and_frees_what_it_says() -> None:
    source = staged(6)
    free = haulout.compile(source)
    for less in range(1, 5):
        capacity = free.report.total_peak_bytes - less * 1024
        tight = haulout.compile(source, capacity=capacity)
        assert tight.ok
        notes = [each for each in tight.diagnostics if each.code == "capacity-fence"]
        assert notes
        peaks = live_bytes(tight.program)[0]
        assert peaks <= capacity
        for note in notes:
            freed = int(note.message.partition("it frees ")[2].split()[0])
            # Without it the program does not fit, wherever the other fences stand.
            assert freed > 0
            assert peaks + freed > capacity


def staged(count: int) -> haulout.Program:
    """Buffers that core 0 fills and core 1 reads, one after the other, for one read by core 0 at the end."""
    fills = "\n".join(f"      %put{k} = fill @dma0 () -> (%s{k}) seq={3 * k}" for k in range(count))
    reads = "\n".join(f"      %get{k} = mix @act (%s{k}) -> (%out) seq={3 * k + 1}" for k in range(count))
    here = "\n".join(f"    mloc %s{k} dram.shared size=1024" for k in range(count))
    there = "\n".join(f"    mloc %s{k} dram.shared size=1024 remote=[s{k},0]" for k in range(count))
    return parse_bir(f"""bir 1
program "staged" lnc=2
module @nc0 core=0 {{
  func @main {{
{here}
    block ^entry:
{fills}
  }}
}}
module @nc1 core=1 {{
  func @main {{
{there}
    mloc %out dram.local size=64 kind=output dtype=u8 shape=[64]
    block ^entry:
{reads}
  }}
}}
""")


def conflict_of(source: haulout.Program, **options: object) -> haulout.Diagnostic:
    with pytest.raises(haulout.HauloutError) as caught:
        haulout.compile(source, **options)  # type: ignore[arg-type]
    (finding,) = caught.value.diagnostics
    assert finding.code == "over-capacity"
    return finding


def lives(ranges: list[tuple[int, int, int]], cores: int = 1) -> haulout.Program:
    """Local buffers (first instruction, last one, bytes), the same on every core."""
    length = max(last for _, last, _ in ranges) + 1
    body = []
    for at in range(length):
        reads = ",".join(f"%b{k}" for k, (first, last, _) in enumerate(ranges) if first < at <= last)
        writes = ",".join(f"%b{k}" for k, (first, _, _) in enumerate(ranges) if first == at)
        body.append(f"      %i{at} = mix @act ({reads}) -> ({writes}) seq={at}")
    buffers = "\n".join(f"    mloc %b{k} dram.local size={size}" for k, (_, _, size) in enumerate(ranges))
    text = f'bir 1\nprogram "lives" lnc={cores}\n'
    for core in range(cores):
        lines = "\n".join(body)
        text += f"module @nc{core} core={core} {{\n  func @main {{\n{buffers}\n    block ^entry:\n{lines}\n  }}\n}}\n"
    return parse_bir(text)


def test_the_fewest_buffers_that_cannot_fit_are_named_with_place_and_range() -> None:
    source = lives([(0, 3, 640), (1, 2, 128), (2, 3, 320), (0, 1, 960)])
    finding = conflict_of(source, capacity=1024)
    # At %i1 b0, b1 and b3 are live: 640 + 960 exceed 1024 already.
    assert [label.message for label in finding.labels] == [
        "%b3 on core 0: 960 bytes, live from %i0 to %i1",
        "%b0 on core 0: 640 bytes, live from %i0 to %i3",
    ]
    assert "core 0, at %i1 (epoch 0): 3 buffers of 1728 bytes are live" in finding.notes
    assert "these 2 buffers of 1600 bytes cannot fit into 1024 bytes together; no fewer" in finding.notes


def test_buffers_of_all_cores_add_up() -> None:
    source = lives([(0, 1, 640), (0, 1, 128)], cores=3)
    finding = conflict_of(source, capacity=2048)
    assert [label.message.split(":")[0] for label in finding.labels] == [
        *(f"%b0 on core {core}" for core in range(3)),
        "%b1 on core 0",
        "%b1 on core 1",
    ]
    assert any(note.startswith("these 5 buffers of 2176 bytes") for note in finding.notes)


def test_in_equal_partitions_one_core_is_too_large_for_its_part() -> None:
    finding = conflict_of(lives([(0, 1, 640), (0, 1, 128)], cores=3), capacity=2200, partitions="equal")
    assert [label.message.split(":")[0] for label in finding.labels] == ["%b0 on core 0", "%b1 on core 0"]
    assert any("cannot fit into the 733 bytes of one core together" in note for note in finding.notes)


def test_many_buffers_are_counted_with_their_exact_sum() -> None:
    finding = conflict_of(lives([(0, 1, 64)] * 40), capacity=64 * 30)
    assert len(finding.labels) == 11
    assert finding.labels[-1].message == f"and 21 more buffers of {21 * 64} bytes"
    assert any(note.startswith(f"these 31 buffers of {31 * 64} bytes") for note in finding.notes)


def test_buffers_that_fit_at_every_moment_but_in_no_placement() -> None:
    # 192 bytes each: at multiples of 128 and 256 they cannot stand closer than 128 apart; 576 bytes are live.
    text = print_bir(lives([(0, 1, 192), (0, 1, 192), (0, 1, 192), (2, 3, 64)]))
    for name, align in (("b0", 128), ("b1", 128), ("b2", 256)):
        text = text.replace(f"%{name} dram.local size=192", f"%{name} dram.local size=192 align={align}")
    source = parse_bir(text)
    assert haulout.compile(source).report.total_peak_bytes == 704
    finding = conflict_of(source, capacity=703 - 64)
    assert [label.message.split(":")[0] for label in finding.labels] == [f"%b{k} on core 0" for k in range(3)]
    assert any("these 3 buffers of 576 bytes" in note for note in finding.notes)
    assert "no placement fits" in finding.help[0]


@pytest.mark.thin(7, "12 s")
@pytest.mark.parametrize("seed", range(30))
def test_random_programs_stay_proved_and_never_grow(seed: int) -> None:
    source = random_program(Random(seed), steps=16)
    free = haulout.compile(source)
    try:
        tight = haulout.compile(source, capacity=max(free.report.total_peak_bytes - 64, 0))
    except haulout.HauloutError as error:
        assert error.diagnostics[0].code == "over-capacity"
        return
    assert tight.ok
    assert tight.report.total_peak_bytes < free.report.total_peak_bytes
    joint = tight.program.attrs.get("partitions") == "joint"
    assert joint or live_bytes(tight.program)[0] <= tight.report.total_peak_bytes
