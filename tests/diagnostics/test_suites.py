"""The suites of this folder, and that they say something about every finding there is."""

import ast
import re
from pathlib import Path

import pytest
from tests.diagnostics.suites import Case, cases, missing, run

import haulout

FOLDER = Path(__file__).parent
SUITES = sorted(FOLDER.glob("*.md"))
CASES = [(path, case) for path in SUITES for case in cases(path)]


@pytest.mark.parametrize(
    "case", [case for _, case in CASES], ids=[f"{path.stem}-{case.title}" for path, case in CASES]
)
def test_case(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert case.expected, f"{case.place} expects nothing"
    output = run(case, tmp_path, monkeypatch)
    line = missing(case.expected, output)
    assert line is None, f"{case.place}: {line!r} in\n{output}"


def test_the_runner_can_fail() -> None:
    assert missing(["one", "two"], "one\ntwo") is None
    assert missing(["two", "one"], "one\ntwo") == "one"
    assert missing(["one", "one"], "one\ntwo") == "one"
    assert missing(["a  b"], "x a b c") is None
    assert missing(["!two", "one"], "one\ntwo") == "!two"
    assert missing(["!three", "one"], "one\ntwo") is None


PACKAGES = ("ir", "analysis", "passes", "checker", "packing", "frontends/hlo")
NOT_HERE = {
    "internal-error": "a defect of ours; tests/cli",
    "misaligned-storage": "a program that is not sound is refused earlier, as `bad-input`; tests/packing",
    "capacity-fence": "needs a capacity fitted to the program; tests/passes/test_capacity.py",
    "kept-dependences": "lower_sync is no part of compile; tests/passes/test_lower_sync_order.py",
    "too-few-semaphores": "lower_sync is no part of compile; tests/passes/test_lower_sync_order.py",
    "kept-partitions": "needs programs of which one layout is larger; tests/passes/test_partitions.py",
    **dict.fromkeys(
        ("moved-pin", "crossed-segment", "split-alias", "unequal-offsets", "wrong-pool"),
        "the planner's own validator; tests/packing",
    ),
    **dict.fromkeys(
        ("event-count", "task-race", "unproved-task", "missing-edges", "redundant-edge"),
        "task graphs are JSON; tests/checker/test_check_tasks.py",
    ),
}


_CODE = re.compile(r"deadlock\Z|[a-z]+(-[a-z]+)+\Z")


def _codes() -> set[str]:
    """Codes in the source of what `check` and `compile` run: first arguments, `code=`, and tables of codes."""
    found = set()
    for folder in PACKAGES:
        for path in (Path(haulout.__file__).parent / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                texts: list[ast.expr] = []
                if isinstance(node, ast.Call):
                    name = getattr(node.func, "id", getattr(node.func, "attr", ""))
                    texts += node.args[:1] if name in ("Diagnostic", "fail", "add", "note", "report") else []
                    texts += [word.value for word in node.keywords if word.arg == "code"]
                if isinstance(node, ast.Tuple) and len(node.elts) == 2 and "Severity" in ast.dump(node.elts[1]):
                    texts += node.elts[:1]
                for text in texts:
                    value = text.value if isinstance(text, ast.Constant) else None
                    if isinstance(value, str) and _CODE.match(value):
                        found.add(value)
    return found


def test_every_code_has_a_case() -> None:
    text = "\n".join(line for _, case in CASES for line in case.expected)
    codes = _codes()
    assert {"bad-input", "cross-core-race", "over-capacity", "kept-fences", "unfaithful-order"} <= codes
    assert [code for code in sorted(codes - set(NOT_HERE)) if f"[{code}]" not in text] == []
