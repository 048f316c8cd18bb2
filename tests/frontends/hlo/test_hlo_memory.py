"""Large constants, strings and comments take a few bytes a character."""

import numpy as np
import pytest
from tests.memory import peak_bytes

from haulout.frontends.hlo.parser import parse_hlo
from haulout.support.diagnostics import HauloutError

SIZE = 1 << 17
ROW = "{" + ", ".join(["1.5"] * 10) + "}"
ROWS = SIZE // len(ROW)
NUMBERS = SIZE // 5


def module(root: str, before: str = "") -> str:
    return f"HloModule m\n{before}\nENTRY e {{\n  ROOT c = {root}\n}}\n"


@pytest.mark.parametrize(
    "text",
    [
        module(f"f32[{NUMBERS}] constant({{{', '.join(['1.5'] * NUMBERS)}}})"),
        module(f"s32[{NUMBERS}] constant({{{', '.join(['123'] * NUMBERS)}}})"),
        module(f"f32[{NUMBERS}] constant({{{', '.join(['inf'] * NUMBERS)}}})"),
        module(f"f32[{ROWS},10] constant({{ {', '.join([ROW] * ROWS)} }})"),
        module(f'f32[] constant(1), metadata={{op_name="{"a" * SIZE}"}}'),
        module('f32[] constant(1), backend_config="' + 'a\\"' * (SIZE // 3) + '"'),
        module("f32[] constant(1)", f"/*{'a' * SIZE}*/"),
        module("f32[] constant(1)", "//a\n" * (SIZE // 4)),
    ],
    ids=range(8),
)
def test_a_large_text_is_read_in_a_few_bytes_a_character(text: str) -> None:
    assert peak_bytes(lambda: parse_hlo(text)) < 24 * len(text)


@pytest.mark.parametrize("tail", ['"', "/*", '"' + '\\"' * (SIZE // 2), "/*" * (SIZE // 2)], ids=range(4))
def test_a_large_text_that_does_not_close_is_refused_in_few_bytes(tail: str) -> None:
    text = module("f32[] constant(1), x={{" + tail + "a" * SIZE)

    def read() -> None:
        with pytest.raises(HauloutError):
            parse_hlo(text)

    assert peak_bytes(read) < 8 * len(text)


def test_a_wrong_value_in_a_large_constant_is_found_at_its_place() -> None:
    words = ["7"] * 10000
    words[6001] = "300"
    text = module(f"u8[10000] constant({{{', '.join(words)}}})")
    with pytest.raises(HauloutError, match="`300` is not a value of type u8") as caught:
        parse_hlo(text)
    span = caught.value.diagnostics[0].span
    assert span is not None
    assert text.splitlines()[3][span.column - 1 : span.end_column - 1] == "300"


def test_large_constants_are_those_written() -> None:
    rng = np.random.default_rng(3)
    values = rng.integers(-(2**31), 2**31, (100, 131)).astype(np.int32)
    rows = ", ".join("{ " + ", ".join(map(str, row)) + " }" for row in values.tolist())
    found = parse_hlo(module(f"s32[100,131] constant({{ {rows} }})")).entry.root.literal
    assert found is not None
    assert np.array_equal(found, values)
