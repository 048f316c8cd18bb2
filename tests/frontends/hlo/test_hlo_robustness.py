"""Mutated input: words, numbers and lines changed. A diagnostic with a place, or a sound program; no traceback."""

import random
import re
from pathlib import Path

import pytest

from haulout.frontends.hlo import lower, parse_hlo
from haulout.ir.verify import verify
from haulout.support.diagnostics import HauloutError

SOURCES = [file.read_text() for file in sorted((Path(__file__).parent / "data").glob("*.hlo"))]
WORDS = r"""
{} {0} -1 0 99999999999999999999 { } ( ) [ ] , f32 bf16 pred s32 token c64 {...} nan " ' \ /* */ // % = -> <= T(1,0)
while tuple() f32[0] f32[] {1,0} {0,1} [2,2]<=[4] mesh['a'=4] {'a'} channel_id=1 dimensions={0} é
"""
WORD_LIST = [*WORDS.split(), "\n", "\x00"]
NUMBERS = ["0", "1", "2", "3", "5", "-1", "16", str(1 << 31), str(1 << 63), "1" + "0" * 30]


def mutate(text: str, generator: random.Random) -> str:
    at = generator.randrange(len(text) + 1)
    match generator.randrange(7):
        case 0:
            return text[:at] + generator.choice(WORD_LIST) + text[at:]
        case 1:
            return text[:at] + text[at + generator.randrange(1, 9) :]
        case 2 | 3:
            return _replace(text, r"(?<![\w.%])[0-9]+", generator.choice(NUMBERS), generator)
        case 4:
            other = generator.choice(re.findall(r"[a-z][a-z-]+(?=[(=\[])", text) or ["x"])
            return _replace(text, r"[a-z][a-z-]+(?=[(=\[])", other, generator)
        case 5:
            lines = text.split("\n")
            lines.insert(generator.randrange(len(lines)), lines.pop(generator.randrange(len(lines))))
            return "\n".join(lines)
    return text[:at] if generator.random() < 0.2 else text


def _replace(text: str, pattern: str, new: str, generator: random.Random) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    match = generator.choice(found)
    return text[: match.start()] + new + text[match.end() :]


@pytest.mark.parametrize("seed", range(8))
def test_mutations(seed: int) -> None:
    generator = random.Random(seed)
    outcomes = {"sound": 0, "refused": 0}
    for _ in range(150):
        text = generator.choice(SOURCES)
        for _ in range(generator.choice([1, 1, 2, 4])):
            text = mutate(text, generator)
        try:
            program = lower(parse_hlo(text, "mutated.hlo"))
        except HauloutError as error:
            assert error.diagnostics[0].span is not None
            outcomes["refused"] += 1
        else:
            assert verify(program) == []
            outcomes["sound"] += 1
    assert min(outcomes.values()) > 5
