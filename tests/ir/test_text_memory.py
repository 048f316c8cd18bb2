"""A large text takes a few bytes a character, however its characters are distributed over tokens."""

import pytest
from tests.memory import peak_bytes

from haulout.ir.attributes import format_value, parse_attrs
from haulout.ir.text import parse_bir, print_bir
from haulout.support.diagnostics import HauloutError

SIZE = 1 << 17


def text(location: str = "", program: str = "") -> str:
    return (
        f'bir 1\nprogram "p" lnc=1{program}\nmodule @m core=0 {{\n func @f {{\n'
        f"  mloc %x sbuf size=64{location}\n  block ^e:\n }}\n}}\n"
    )


LARGE = {
    "constant": text(f' kind=const data="{"QUJD" * (SIZE // 4)}"'),
    "bare": text(f" kind=const data={'QUJD' * (SIZE // 4)}"),
    "escapes": text(' note="' + '\\"' * (SIZE // 2) + '"'),
    "comment": text(f" # {'x' * SIZE}"),
    "list": text(program=f" note=[{','.join(['17'] * (SIZE // 3))}]"),
    "nested list": text(program=f" note=[{','.join(['[1,2]'] * (SIZE // 6))}]"),
}


@pytest.mark.parametrize("kind", LARGE)
def test_a_large_text_is_read_in_a_few_bytes_a_character(kind: str) -> None:
    given = LARGE[kind]
    assert peak_bytes(lambda: parse_bir(given)) < 24 * len(given)


@pytest.mark.parametrize("kind", ["constant", "escapes"])
def test_and_is_printed_in_a_few_bytes_a_character(kind: str) -> None:
    program = parse_bir(LARGE[kind])
    assert peak_bytes(lambda: print_bir(program)) < 8 * SIZE
    assert print_bir(parse_bir(print_bir(program))) == print_bir(program)


def test_attributes_are_read_and_printed_in_a_few_bytes_a_character() -> None:
    note = [17] * (SIZE // 3)
    printed = f"note={format_value(note)}"
    assert parse_attrs(printed) == {"note": note}
    assert peak_bytes(lambda: format_value(note)) < 24 * SIZE
    assert peak_bytes(lambda: parse_attrs(printed)) < 8 * SIZE
    assert peak_bytes(lambda: parse_attrs(f'note="{"a" * SIZE}"')) < 8 * SIZE


@pytest.mark.parametrize(
    "broken",
    [
        text(' note="' + "A" * SIZE),
        text(' note="' + '\\"' * (SIZE // 2)),
        text(" note=" + "1" * SIZE),
        text(" note=" + "1" * SIZE + "a"),
        text("") + "}" * SIZE,
        text().replace("size=64", f'size="{"A" * SIZE}"'),
        text().replace("^e:\n", f"^e:\n %i = a @pe (%x[{'1' * SIZE}:4]) -> ()\n"),
        text().replace("^e:\n", f"^e:\n %i = a @pe (%x[0;{' ' * SIZE}x;4]) -> ()\n"),
    ],
    ids=range(8),
)
def test_a_large_broken_text_is_refused_in_few_bytes_and_few_words(broken: str) -> None:
    def read() -> None:
        with pytest.raises(HauloutError) as caught:
            parse_bir(broken)
        assert len(caught.value.diagnostics[0].message) < 300

    assert peak_bytes(read) < 8 * len(broken)
