"""`--log-level debug`: the analysis of shared lifetimes in the reference's words, on stderr and only there."""

import logging
from pathlib import Path

from tests.cli.command import HLO, haulout

PROGRAM = """bir 1
program "one arm" lnc=2
module @nc0 core=0 subgraph=3 {
  func @main {
    mloc %x dram.local size=64 kind=input
    mloc %c dram.local size=1 kind=input
    mloc %a dram.shared size=64
    block ^entry -> ^then, ^join cond=c:
      %write_a = dma_copy @dma0 (%x) -> (%a) seq=0
    block ^then -> ^join:
      %again_a = dma_copy @dma0 (%x) -> (%a) seq=1
    block ^join:
  }
}
module @nc1 core=1 subgraph=3 {
  func @main {
    mloc %c dram.local size=1 kind=input
    mloc %a dram.shared size=64 remote=[a,0]
    mloc %y dram.local size=64 kind=output
    block ^entry -> ^then, ^join cond=c:
    block ^then -> ^join:
    block ^join:
      %read_a = dma_copy @dma0 (%a) -> (%y) seq=2
  }
}
"""


def test_the_reference_lines(tmp_path: Path) -> None:
    source = tmp_path / "one_arm.bir"
    source.write_text(PROGRAM)
    result = haulout("compile", source, "-o", tmp_path / "out", "--quiet", "--log-level", "debug")
    for line in (
        "haulout.analysis.liveness: Build Shared live-in/live-out with 1 iterations",
        "haulout.passes.fences.spans: First def blocks for mlocs (per core), core 0: a: ^entry",
        "haulout.passes.fences.spans: All accesses for mlocs (per core), core 1: a: ^join",
        "haulout.passes.fences.spans: Block spanning mlocs (all cores): a: ^entry ^then ^join",
        "haulout.passes.extend_shared_lifetimes: Inserted new CB cb_sg3_block0",
        "haulout.passes.extend_shared_lifetimes: Renumbering core barriers.",
    ):
        assert line in result.stderr.splitlines(), result.stderr
        assert line not in result.stdout
    log = logging.getLogger("haulout")
    assert log.handlers == []
    assert log.level == logging.NOTSET


def test_nothing_is_logged_without_it(tmp_path: Path) -> None:
    assert haulout("compile", HLO, "-o", tmp_path / "out", "--quiet").stderr == ""
    assert haulout("compile", HLO, "-o", tmp_path / "out", "--quiet", "--log-level", "info").stderr == ""
