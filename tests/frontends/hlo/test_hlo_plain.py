"""The patterns for plain lines read what the cursor reads: the same module, or the same messages, without them."""

import random
import re
from pathlib import Path

import pytest

from haulout.frontends.hlo import parse_hlo, plain, types
from haulout.frontends.hlo.model import Instruction
from haulout.frontends.hlo.types import AnyShape, Shape
from haulout.support.diagnostics import HauloutError
from haulout_generators.llama import Llama, llama_step

DATA = [file.read_text() for file in sorted((Path(__file__).parent / "data").glob("*.hlo"))]
STEP = llama_step(Llama(1, 2, 1, 8, 8, 8, 2, 4, 8))
WRITTEN = """HloModule m, num_partitions=2

add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(f32[] a, f32[] b)
}

ENTRY main {
  %p = f32[2,3]{1,0:T(8,128)S(1)} parameter(0), sharding={replicated}
  c = f32[] constant(-1.5e3), metadata={op_name="jit(f)/x[a=\\"b\\"]" source_file="a b.py" source_line=3}
  n = f32[] constant(nan)
  w = f32[]{:T(128)} constant(0x1)
  i = s8[] constant(300)
  b.1 = f32[2,3]{1,0} broadcast(f32[] c), dimensions={}
  s = f32[2,3]{0,1} add(f32[2,3]{1,0:T(8,128)S(1)} %p, f32[2,3]{1,0} b.1)
  t = (f32[2,3]{1,0}, f32[]) tuple(s, n)
  e = f32[2,3]{1,0} get-tuple-element((f32[2,3]{1,0}, f32[]) t), index=0
  v = f32[2,3] {1,0} negate(t#0), frontend_attributes={a="{[,",b='x'}
  r = f32[2,3]{1,0} all-reduce(e), replica_groups={{0},{1}}, to_apply=add, channel_id=1
  x = f32[2,3]{1,0} all-reduce(r), replica_groups=mesh['x'=2], device_ids=([2]T(0)) {'x'}, to_apply=add
  ROOT ROOT.1 = f32[2,3]{1,0} add(r, x)
  , metadata={op_name="below"}
}
"""
GOOD = WRITTEN.replace("300", "3").replace("0x1", "1")
NAMES = ("HEAD", "SCALAR", "_OPERANDS", "_ATTRIBUTE", "_NEXT_LINE")
PIECES = [
    *("ROOT ", "ROOT", "%", " ", "\n", "\t", "\r", ",", ", ", "{", "}", "(", ")", "[", "]", "/*c*/", "/", "//", "="),
    *('"', "'", "\\", "#0", "1", "0", "-", ".", "é", "\x00", "f32[] ", "{0,1}", "{:S(1)}", "[<=2]", "nan", "mesh["),
]


def seen(text: str) -> object:
    """All that a reader of the module sees, with places, or the messages."""
    try:
        module = parse_hlo(text, "text.hlo")
    except HauloutError as error:
        return error.diagnostics
    return module.entry.name, [
        (each.name, each.root.name, [_of(one) for one in each.instructions]) for each in module.computations.values()
    ]


def is_module(found: object) -> bool:
    return isinstance(found, tuple) and isinstance(found[0], str)


def _of(made: Instruction) -> tuple[object, ...]:
    literal = None if made.literal is None else (made.literal.dtype, made.literal.shape, made.literal.tobytes())
    values = [(key, value.start, value.end) for key, value in made.attributes.items()]
    where = made.where.start, made.where.end
    return made.name, _shape(made.shape), made.opcode, made.operands, values, where, made.number, literal, made.place


def _shape(shape: AnyShape) -> object:
    if isinstance(shape, Shape):
        return shape.dtype, shape.dims, shape.layout, shape.suffix, shape.is_dynamic
    return [_shape(each) for each in shape.elements]


def without_patterns(text: str) -> object:
    never = re.compile(r"(?!)")
    with pytest.MonkeyPatch.context() as patched:
        for name in NAMES:
            patched.setattr(plain, name, never)
        patched.setattr(types, "_ALONE", never)
        return seen(text)


@pytest.mark.parametrize("text", [*DATA, STEP, WRITTEN, WRITTEN.replace("300", "3"), GOOD])
def test_same_module_or_messages(text: str) -> None:
    assert seen(text) == without_patterns(text)


def test_the_written_text_is_read() -> None:
    assert is_module(seen(GOOD)) and not is_module(seen(WRITTEN))


def test_plain_lines_are_read_by_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the cursor reads a plain line")

    monkeypatch.setattr("haulout.frontends.hlo.parser._parse_operands", refuse)
    monkeypatch.setattr("haulout.frontends.hlo.parser._parse_value", refuse)
    body = STEP[STEP.index("ENTRY") : STEP.index("  ROOT %results")]
    parse_hlo("HloModule m\n%add {\n  a = f32[] parameter(0)\n}\n%max {\n  a = f32[] parameter(0)\n}\n" + body + "}")


@pytest.mark.parametrize("seed", range(4))
def test_same_after_mutations(seed: int) -> None:
    generator = random.Random(seed)
    texts = [GOOD, GOOD, *DATA]
    refused = 0
    for _ in range(200):
        text = generator.choice(texts)
        for _ in range(generator.choice([1, 1, 1, 2])):
            at = generator.randrange(len(text))
            text = text[:at] + generator.choice(PIECES) + text[at + generator.choice([0, 0, 1, 2, 5]) :]
        found = seen(text)
        refused += not is_module(found)
        assert found == without_patterns(text), text
    assert 20 < refused < 200
