"""The problem matcher and the action of the repository do what docs/ci.md says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.cli.command import FIXED, RACE, ROOT, haulout

(MATCHER,) = json.loads((ROOT / ".github" / "haulout-matcher.json").read_text())["problemMatcher"]
(PATTERN,) = MATCHER["pattern"]


def _matched(line: str) -> dict[str, str | None]:
    found = re.match(PATTERN["regexp"], line)
    assert found is not None, line
    return {key: found[group] for key, group in PATTERN.items() if key != "regexp"}


def test_the_matcher_reads_concise_lines(tmp_path: Path) -> None:
    broken = tmp_path / "broken.bir"
    broken.write_text("bir 1\nprogram nonsense\n")
    lines = haulout("check", RACE, broken, tmp_path / "missing.bir", "--format", "concise").stdout.splitlines()
    race, syntax, missing = map(_matched, lines)
    assert race["file"] == str(RACE) and race["severity"] == "error" and race["code"] == "cross-core-race"
    source = RACE.read_text().splitlines()[int(race["line"] or 0) - 1]
    assert source[int(race["column"] or 0) - 1 :].startswith("%part")
    assert race["message"] and race["message"].startswith("%sum on core 0 reads")
    assert (syntax["file"], syntax["line"]) == (str(broken), "2")
    assert missing["code"] == "bad-input" and str(tmp_path) in (missing["message"] or "")
    assert re.match(PATTERN["regexp"], f"{FIXED}:2: note[assumed-trip]: a note") is None


def _check_step() -> str:
    """The script of the step that checks."""
    text = (ROOT / "action.yml").read_text()
    step = text[text.index("- name: Check") :]
    body = re.search(r"run: \|\n((?: {8}.*\n)+)", step)
    assert body is not None
    return re.sub(r"^ {8}", "", body[1], flags=re.MULTILINE)


def test_the_step_of_the_action(tmp_path: Path) -> None:
    (tmp_path / "one race.bir").write_text(RACE.read_text())
    (tmp_path / "fixed.bir").write_text(FIXED.read_text())
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "OPTIONS": "--lnc 2", "SARIF": "out.sarif"}
    env["PYTHONPATH"] = os.pathsep.join(sys.path)

    def run(files: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-e", "-o", "pipefail", "-c", _check_step()]
        return subprocess.run(
            command, cwd=tmp_path, env={**env, "FILES": files}, capture_output=True, text=True, check=False
        )

    found = run("*.bir\n")
    assert found.returncode == 1, found.stderr
    assert found.stdout.startswith("::error file=one race.bir,line=")
    (run_,) = json.loads((tmp_path / "out.sarif").read_text())["runs"]
    assert [each["ruleId"] for each in run_["results"]] == ["cross-core-race"]
    assert run("fixed.bir").returncode == 0
