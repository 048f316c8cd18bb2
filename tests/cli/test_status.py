"""Exit statuses: 0 clean (notes do not count), 1 found something, 2 usage or bad input, 3 a defect of ours."""

import re
from pathlib import Path

import pytest
from tests.cli.command import FIXED, HLO, RACE, haulout


def test_clean(tmp_path: Path) -> None:
    assert haulout("check", FIXED).status == 0
    assert haulout("compile", FIXED, "-o", tmp_path / "out").status == 0
    assert haulout("simulate", FIXED).status == 0
    assert haulout("opt", FIXED).status == 0


def test_notes_do_not_count(tmp_path: Path) -> None:
    source = tmp_path / "noseq.bir"
    source.write_text(re.sub(r" seq=\d+", "", FIXED.read_text()))
    result = haulout("compile", source, "-o", tmp_path / "out")
    assert "note[kept-fences]" in result.stdout
    assert result.status == 0


def test_found(tmp_path: Path) -> None:
    result = haulout("check", RACE)
    assert result.status == 1
    assert result.stdout.startswith("error[cross-core-race]: ")
    # The compiler mends it: a common time says what was meant.
    assert haulout("compile", RACE, "-o", tmp_path / "out").status == 0
    assert haulout("check", tmp_path / "out" / "program.bir").status == 0


def test_over_capacity(tmp_path: Path) -> None:
    result = haulout("compile", HLO, "-o", tmp_path / "out", "--capacity", "1000")
    assert result.status == 1
    assert "error[over-capacity]" in result.stdout
    assert "1000" in result.stdout
    # A program that was not made is not written.
    assert not (tmp_path / "out" / "program.bir").exists()
    enough = re.search(r"needs (\d+) bytes", result.stdout)
    assert enough is not None
    assert haulout("compile", HLO, "-o", tmp_path / "out", "--capacity", enough.group(1)).status == 0
    assert haulout("compile", HLO, "-o", tmp_path / "out", "--capacity", int(enough.group(1)) - 1).status == 1  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("check",),
        ("check", str(FIXED), "more"),
        ("check", str(FIXED), "--format", "yaml"),
        ("chek", str(FIXED)),
        ("compile", str(FIXED), "--fences", "none"),
        ("compile", str(FIXED), "--capacity", "-1"),
        ("compile", str(FIXED), "--capacity", "much"),
        ("compile", str(FIXED), "--lnc", "0"),
        ("simulate", str(FIXED), "--seed", "-1"),
        ("opt", str(FIXED), "--passes", "nonsense"),
        ("simulate", str(FIXED), "--schedule", "nonsense"),
        ("compile", str(FIXED), "--lnc", "3"),
    ],
    ids=" ".join,
)
def test_usage(arguments: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    result = haulout(*arguments)
    assert result.status == 2
    assert result.stdout + result.stderr
    assert list(tmp_path.iterdir()) == []


def test_usage_that_a_command_finds_itself(tmp_path: Path) -> None:
    problem = _write(tmp_path / "p.csv", b"id,lower,upper,size\na,0,1,16\n")
    result = haulout("plan", problem, "--pool", "SRAM=1K", "--pool", "DRAM", "--capacity", "64")
    assert result.status == 2 and "--pool is not combined with" in result.stderr


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


GARBAGE = bytes(range(256)) * 3
INPUTS: dict[str, tuple[str, bytes, str]] = {
    "empty .bir": ("x.bir", b"", "expected 'bir'"),
    "empty .hlo": ("x.hlo", b"", "HloModule"),
    "empty .npz": ("x.npz", b"", "not a stored program"),
    "blank .bir": ("x.bir", b"\n  \n# nothing\n", "expected 'bir'"),
    "garbage .bir": ("x.bir", GARBAGE, "not UTF-8"),
    "garbage .hlo": ("x.hlo", GARBAGE, "not UTF-8"),
    "garbage .npz": ("x.npz", GARBAGE, "not a stored program"),
    "zeros .bir": ("x.bir", bytes(99), "token"),
    "unknown suffix": ("x.txt", b"hello\n", "no reader for .txt"),
    "MLIR": ("x.hlo", b"module @jit_f {\n  func.func public @main() {\n", "is MLIR text"),
    "MLIR with locations": ("x.mlir", b"#loc1 = loc(unknown)\nmodule @jit_f {\n", "is MLIR text"),
    "MLIR bytecode": ("x.hlo", b"ML\xefR" + GARBAGE, "is MLIR as bytecode"),
    "a protobuf": ("x.hlo.pb", GARBAGE, "is binary"),
    "a kernel's file": ("x.py", b"", "a kernel is FILE.py::FUNCTION"),
    "no suffix": ("x", b"hello\n", "no reader for"),
    "other version": ("x.bir", b"bir 2\n", "version 1"),
    "cut off": ("x.bir", FIXED.read_bytes()[:700], "expected"),
}


@pytest.mark.parametrize("command", ["check", "compile", "simulate", "opt"])
@pytest.mark.parametrize("name", INPUTS)
def test_bad_input(command: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, data, message = INPUTS[name]
    path = _write(tmp_path / file, data)
    monkeypatch.chdir(tmp_path)
    result = haulout(command, path)
    assert result.status == 2, result
    # The stdout of opt is for a program.
    said, other = (result.stderr, result.stdout) if command == "opt" else (result.stdout, result.stderr)
    assert said.startswith("error[bad-input]: ")
    assert message in said
    assert other == ""
    assert "Traceback" not in result.stdout + result.stderr
    # Whatever a terminal would obey is not passed on.
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", said)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("command", ["check", "compile", "simulate", "opt"])
@pytest.mark.parametrize("suffix", [".bir", ".hlo", ".npz"])
def test_no_file(command: str, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    missing = haulout(command, tmp_path / f"missing{suffix}")
    assert missing.status == 2
    assert "No such file" in missing.stdout + missing.stderr
    folder = tmp_path / f"folder{suffix}"
    folder.mkdir()
    result = haulout(command, folder)
    assert result.status == 2
    assert "directory" in result.stdout + result.stderr
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.replace(b"\n", b"\r\n"),
        lambda data: b"\xef\xbb\xbf" + data,
        lambda data: data.replace(b"  ", b"\t"),
        lambda data: data.rstrip(b"\n"),
        lambda data: b"\n# a comment: \xc3\xa9\n\n" + data,
    ],
    ids=["CRLF", "byte-order mark", "tabs", "no last line break", "comment first"],
)
def test_text_as_editors_leave_it(change: object, tmp_path: Path) -> None:
    path = _write(tmp_path / "x.bir", change(FIXED.read_bytes()))  # type: ignore[operator]
    assert haulout("check", path).status == 0
    plain = haulout("opt", FIXED, "--passes", "", "--quiet")
    assert haulout("opt", path, "--passes", "", "--quiet").stdout == plain.stdout


def test_crash_outside_of_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 3 and a file with the traceback, which a user can send."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def crash(*_: object) -> None:
        raise ZeroDivisionError("of no use")

    monkeypatch.setattr("haulout.ir.text.parse_bir", crash)
    result = haulout("check", FIXED)
    assert result.status == 3
    assert result.stdout.startswith("error[internal-error]: ZeroDivisionError: of no use")
    assert "Traceback" not in result.stdout + result.stderr
    (path,) = tmp_path.glob("haulout-crash-*.txt")
    assert str(path) in result.stdout.replace("\n", "")
    assert "Traceback" in path.read_text()


def test_crash_in_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status 3 and the program that the pass got."""

    def crash(*_: object) -> None:
        raise ZeroDivisionError("of no use")

    monkeypatch.setattr("haulout.passes.build_fdeps.BuildFdeps.run", crash)
    result = haulout("compile", FIXED, "-o", tmp_path / "out")
    assert result.status == 3
    reproducer = tmp_path / "out" / "reproducer.build_fdeps.bir"
    assert str(reproducer) in result.stdout.replace("\n", "")
    monkeypatch.undo()
    assert haulout("check", reproducer).status == 0
    assert haulout("opt", reproducer, "--passes", "build_fdeps").status == 0


def test_too_little_memory_in_a_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a defect: no reproducer, and nothing half-written."""

    def exhaust(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr("haulout.passes.build_fdeps.BuildFdeps.run", exhaust)
    result = haulout("compile", FIXED, "-o", tmp_path / "out")
    assert result.status == 1
    assert result.stdout.startswith("error[out-of-memory]: ")
    assert not (tmp_path / "out").exists()


def test_a_crash_whose_reproducer_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: object) -> None:
        raise ZeroDivisionError("of no use")

    monkeypatch.setattr("haulout.passes.build_fdeps.BuildFdeps.run", crash)
    taken = tmp_path / "taken"
    taken.write_text("a file, not a folder")
    result = haulout("compile", FIXED, "-o", taken)
    assert result.status == 3
    assert "build_fdeps crashed: ZeroDivisionError: of no use" in result.stdout
    assert "is not written" in result.stdout


def test_a_crash_whose_traceback_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")

    def crash(*_: object) -> None:
        raise type("Mute", (Exception,), {"__str__": lambda _: 1 / 0})

    monkeypatch.setattr("haulout.ir.text.parse_bir", crash)
    result = haulout("check", FIXED)
    assert result.status == 3
    assert result.stdout.startswith("error[internal-error]: Mute: <Mute without text>")


def test_too_little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhaust(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("haulout.ir.text.parse_bir", exhaust)
    result = haulout("check", FIXED)
    assert result.status == 1
    assert result.stdout.startswith("error[out-of-memory]: ")
