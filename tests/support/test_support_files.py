"""Where a path leads, and files that come together or not at all."""

from __future__ import annotations

import fcntl
import os
import signal
import stat
import threading
from pathlib import Path

import pytest

from haulout import HauloutError
from haulout.support import staging
from haulout.support.files import is_stdout, write_bytes, write_files, write_text

ROOT = os.geteuid() == 0


@pytest.fixture(params=["unnamed", "named"], autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test twice: with files that have no name until they are renamed, and where the system has none."""
    if request.param == "named":
        monkeypatch.setattr(staging, "_open_unnamed", lambda folder: None)
    return str(request.param)


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def refused(error: pytest.ExceptionInfo[HauloutError]) -> str:
    (finding,) = error.value.diagnostics
    assert finding.code == "bad-input"
    return finding.message


# -- links -----------------------------------------------------------------------------------------------------------


def test_a_link_stays_and_its_target_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    target = tmp_path / "real" / "x"
    target.write_text("before")
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to(Path("real") / "x")
    write_text(tmp_path / "one", "after")
    assert target.read_text() == "after"
    assert (tmp_path / "one").is_symlink() and (tmp_path / "two").is_symlink() and not target.is_symlink()
    assert names(tmp_path) == ["one", "real", "two"]
    assert names(tmp_path / "real") == ["x"]


def test_a_link_that_leads_to_nothing_yet(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "new" / "x")
    write_text(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "new" / "x").read_text() == "after"


def test_a_folder_behind_a_link(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("real", target_is_directory=True)
    write_files({tmp_path / "link" / "a": b"1", tmp_path / "link" / "b": b"2"})
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "real") == ["a", "b"]


def test_links_in_a_circle(tmp_path: Path) -> None:
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(HauloutError) as error:
        write_text(tmp_path / "one", "after")
    assert refused(error) == f"cannot write {tmp_path / 'one'}: Too many levels of symbolic links"
    assert names(tmp_path) == ["one", "two"]


# -- what is no regular file -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("linked", [False, True])
def test_a_device_is_written_into(linked: bool, tmp_path: Path) -> None:
    null = Path("/dev/null")
    if linked:
        (tmp_path / "null").symlink_to(null)
    before = null.lstat()
    write_text(tmp_path / "null" if linked else null, "after")
    assert stat.S_ISCHR(null.lstat().st_mode)
    assert (null.lstat().st_ino, null.lstat().st_mode) == (before.st_ino, before.st_mode)
    assert null.read_bytes() == b""


@pytest.mark.skipif(not ROOT, reason="only root can make a device")
def test_a_device_in_a_folder_where_it_could_be_replaced(tmp_path: Path) -> None:
    device = tmp_path / "program.bir"
    try:
        os.mknod(device, stat.S_IFCHR | 0o666, Path("/dev/null").stat().st_rdev)
    except OSError:
        pytest.skip("no devices can be made here")
    write_files({device: b"after", tmp_path / "report.json": b"{}"})
    assert stat.S_ISCHR(device.lstat().st_mode)
    assert names(tmp_path) == ["program.bir", "report.json"]


def test_a_device_that_is_full(tmp_path: Path) -> None:
    """What goes with it is not written either."""
    with pytest.raises(HauloutError) as error:
        write_files({tmp_path / "a": b"1", Path("/dev/full"): b"2"})
    assert refused(error) == "cannot write /dev/full: No space left on device"
    assert stat.S_ISCHR(Path("/dev/full").lstat().st_mode)
    assert names(tmp_path) == []


def test_a_named_pipe_is_written_into(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_bytes(pipe, b"x" * 300_000)
    reader.join()
    assert got == [b"x" * 300_000]
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert names(tmp_path) == ["pipe"]


def test_an_open_descriptor(tmp_path: Path) -> None:
    """As in `-o >(gzip)`, and a file that the shell opened: it is not replaced behind the shell's back."""
    reading, writing = os.pipe()
    write_text(f"/dev/fd/{writing}", "through a pipe")
    os.close(writing)
    assert os.read(reading, 100) == b"through a pipe"
    os.close(reading)
    with (tmp_path / "log").open("wb") as file:
        file.write(b"first ")
        file.flush()
        write_text(f"/proc/self/fd/{file.fileno()}", "second ")
        file.seek(0, os.SEEK_END)
        file.write(b"third")
    assert (tmp_path / "log").read_text() == "first second third"
    with pytest.raises(HauloutError) as error:
        write_text("/dev/fd/987654", "x")
    assert refused(error) == "cannot write /dev/fd/987654: Bad file descriptor"


def test_a_folder_and_a_path_that_is_none(tmp_path: Path) -> None:
    for path, told in ((tmp_path, "Is a directory"), (tmp_path / "a\0b", "null"), ("", "Is a directory")):
        with pytest.raises(HauloutError) as error:
            write_text(path, "x")
        assert refused(error).startswith("cannot write ") and told in refused(error)
    assert names(tmp_path) == []


# -- stdout ----------------------------------------------------------------------------------------------------------


def test_a_dash_is_stdout_and_a_path_of_it_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    monkeypatch.chdir(tmp_path)
    print("first")
    write_bytes("-", b"\xff\x00")
    assert capsysbinary.readouterr().out == b"first\n\xff\x00"
    assert names(tmp_path) == []
    write_bytes(Path("-"), b"1")
    assert names(tmp_path) == ["-"]
    assert not is_stdout("./-") and not is_stdout(tmp_path / "-")


# -- mode and owner --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o606])
def test_a_file_keeps_its_mode(mode: int, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("before")
    path.chmod(mode)
    write_text(path, "after")
    assert path.read_text() == "after"
    assert stat.S_IMODE(path.stat().st_mode) == mode


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o002])
def test_a_new_file_has_the_mode_of_the_umask(umask: int, tmp_path: Path) -> None:
    before = os.umask(umask)
    try:
        write_text(tmp_path / "x", "new")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "x").stat().st_mode) == 0o666 & ~umask


@pytest.mark.skipif(not ROOT, reason="only root can give a file away")
def test_root_leaves_a_file_to_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("before")
    os.chown(path, 12345, 54321)
    path.chmod(0o640)
    write_text(path, "after")
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 54321, 0o640)


@pytest.mark.skipif(ROOT, reason="root may write everywhere")
def test_a_write_protected_file(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("before")
    path.chmod(0o444)
    with pytest.raises(HauloutError) as error:
        write_text(path, "after")
    assert refused(error) == f"cannot write {path}: Permission denied"
    assert path.read_text() == "before"


def test_a_name_as_long_as_there_are(tmp_path: Path) -> None:
    write_text(tmp_path / ("x" * 255), "after")
    assert (tmp_path / ("x" * 255)).read_text() == "after"


# -- together or not at all ------------------------------------------------------------------------------------------


def three(folder: Path, text: str) -> dict[Path, bytes]:
    return {folder / name: text.encode() for name in ("a", "b", "c")}


@pytest.mark.parametrize("links", [True, False])
def test_a_rename_that_fails_undoes_the_others(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`a` was there and `b` was not; `c` cannot be renamed."""
    (tmp_path / "a").write_text("before")
    if not links:
        monkeypatch.setattr(staging, "_kept", _without_links(staging._kept, monkeypatch))
    put = staging.Staged.put

    def fail(self: staging.Staged) -> None:
        if self.target.name == "c":
            assert (tmp_path / "a").read_text() == "after"
            raise OSError(5, "Input/output error")
        put(self)

    monkeypatch.setattr(staging.Staged, "put", fail)
    with pytest.raises(HauloutError) as error:
        write_files(three(tmp_path, "after"))
    assert refused(error) == f"cannot write {tmp_path / 'c'}: Input/output error"
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "before"


def _without_links(kept, monkeypatch: pytest.MonkeyPatch):  # type: ignore[no-untyped-def]
    def refuse(*_: object, **__: object) -> None:
        raise OSError(1, "Operation not permitted")

    def copied(target: Path) -> Path | None:
        with monkeypatch.context() as patch:
            patch.setattr(os, "link", refuse)
            return kept(target)  # type: ignore[no-any-return]

    return copied


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_between_two_renames_comes_after_the_last(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Stopped(BaseException):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    put = staging.Staged.put

    def interrupted(self: staging.Staged) -> None:
        os.kill(os.getpid(), number)
        put(self)

    monkeypatch.setattr(staging.Staged, "put", interrupted)
    before = signal.signal(number, stop)
    try:
        with pytest.raises(Stopped):
            write_files(three(tmp_path, "after"))
        assert signal.getsignal(number) is stop
    finally:
        signal.signal(number, before)
    assert names(tmp_path) == ["a", "b", "c"]
    assert {each.read_text() for each in tmp_path.iterdir()} == {"after"}


def test_an_interrupt_while_data_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_text("before")

    def interrupted(descriptor: int, target: Path) -> None:
        if target.name == "c":
            raise KeyboardInterrupt

    monkeypatch.setattr(staging, "_keep_mode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_files(three(tmp_path, "after"))
    assert names(tmp_path) == ["a"]
    assert (tmp_path / "a").read_text() == "before"


def test_the_folder_is_locked_while_files_are_renamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put = staging.Staged.put
    seen: list[str] = []

    def locked(self: staging.Staged) -> None:
        descriptor = os.open(tmp_path, os.O_RDONLY)
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(descriptor)
        seen.append(self.target.name)
        put(self)

    monkeypatch.setattr(staging.Staged, "put", locked)
    write_files(three(tmp_path, "after"))
    assert seen == ["a", "b", "c"]
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)


def test_a_folder_that_stays_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "_PATIENCE", 0.0)
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with pytest.raises(HauloutError) as error:
        write_text(tmp_path / "x", "after")
    os.close(descriptor)
    assert refused(error) == f"cannot write {tmp_path}: another process holds a lock on this folder"
    assert names(tmp_path) == []
