import pytest

from haulout.ir.builder import ProgramBuilder
from haulout.ir.core_classes import claims, without_claims
from haulout.ir.enums import Kind, Space
from haulout.ir.text import parse_bir, print_bir
from haulout.ir.verify import verify
from haulout.support.diagnostics import HauloutError

CORE = """module @nc{core} core={core} {{
  func @main {{
    mloc %w dram.local size=4 kind={kind} same={same}
    block ^entry:
  }}
}}
"""


def text(same: str, kind: str = "input", other: str | None = None) -> str:
    cores = [CORE.format(core=core, kind=kind, same=each) for core, each in enumerate((same, other or same))]
    return 'bir 1\nprogram "same" lnc=2\n' + "".join(cores)


@pytest.mark.parametrize("kind", [each.text for each in Kind])
def test_text_and_columns(kind: str) -> None:
    program = parse_bir(text("[[0,1]]", kind))
    assert verify(program) == []
    assert print_bir(parse_bir(print_bir(program))) == print_bir(program)
    assert "same=[[0,1]]" in print_bir(program)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        (text("[[0,2]]"), "from 0 to 1"),
        (text("[[0],[0]]"), "at most once"),
        (text("[]"), "lists of cores"),
        (text("[0,1]"), "lists of cores"),
        (text("x"), "lists of cores"),
        (text("[[0,1]]", other="[[0],[1]]"), "differs"),
    ],
)
def test_what_is_refused(program: str, message: str) -> None:
    with pytest.raises(HauloutError, match=message):
        found = verify(parse_bir(program))
        assert found
        raise HauloutError(*found)


def test_the_builder_refuses_it_at_the_call() -> None:
    build = ProgramBuilder("p", lnc=2)
    function = build.function(build.module("nc0", 0), "main")
    with pytest.raises(HauloutError, match="from 0 to 1"):
        build.location(function, "w", Space.DRAM_LOCAL, 4, kind=Kind.INPUT, same=[[0, 7]])
    build.location(function, "w", Space.DRAM_LOCAL, 4, kind=Kind.INPUT, same=[[0, 1]])


def test_claims_are_what_is_on_no_input() -> None:
    contract, claim = parse_bir(text("[[0,1]]")), parse_bir(text("[[0,1]]", "internal"))
    assert claims(contract).tolist() == []
    assert claims(claim).tolist() == [0, 1]
    assert without_claims(contract) is contract
    assert print_bir(without_claims(claim)) == print_bir(claim).replace(" same=[[0,1]]", "")
