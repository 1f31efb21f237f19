"""Files that are whole or absent, also where a system lacks what POSIX has."""

import errno
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from ucpo.errors import UsageError, shell
from ucpo.storage import files


@pytest.fixture
def windows(monkeypatch):
    """What Windows is documented to lack and to do otherwise, as far as files.py can notice."""
    for name in ("pwrite", "pread", "posix_fadvise", "O_DIRECTORY", "sched_getaffinity"):
        monkeypatch.delattr(os, name, raising=False)
    held: dict[tuple[int, int], int] = {}  # (inode, byte): descriptor

    def locking(descriptor, mode, count):
        key = os.fstat(descriptor).st_ino, os.lseek(descriptor, 0, os.SEEK_CUR)
        if key in held:
            raise OSError(errno.EACCES, "Permission denied")
        held[key] = descriptor

    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.setitem(sys.modules, "msvcrt", types.SimpleNamespace(locking=locking, LK_NBLCK=2))
    close, unlink, opened = os.close, Path.unlink, os.open

    def closing(descriptor):
        for key in [key for key, owner in held.items() if owner == descriptor]:
            del held[key]
        close(descriptor)

    def unlinking(path, missing_ok=False):
        if path.exists() and path.stat().st_ino in {inode for inode, _ in held}:
            raise PermissionError(errno.EACCES, "in use by another process", str(path))
        unlink(path, missing_ok)

    def opening(path, flags, mode=0o777):
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "close", closing)
    monkeypatch.setattr(os, "open", opening)
    monkeypatch.setattr(Path, "unlink", unlinking)


def test_files_are_replaced_appended_and_locked_as_windows_does_it(windows, tmp_path):
    assert files.replace(tmp_path / "a", b"one") == files.digest(b"one")
    files.replace(tmp_path / "a", b"two")
    files.append(tmp_path / "a", b"\nthree")
    assert (tmp_path / "a").read_bytes() == b"two\nthree"
    lock = files.Lock(tmp_path)
    assert f"process {os.getpid()}" in (tmp_path / files.LOCK_FILE).read_text()
    with pytest.raises(UsageError, match=f"in use by another process .process {os.getpid()}"):
        files.Lock(tmp_path)
    lock.release()
    assert not (tmp_path / files.LOCK_FILE).exists()
    files.Lock(tmp_path).release()


def test_a_run_trains_where_calls_are_those_of_windows(windows, tmp_path):
    from ucpo import UCP, load

    small = {"hidden": (8,), "quantiles": 4}
    agent = UCP("Courier-v0", networks=small, random_steps=80, num_envs=2)
    agent.learn(200, run=tmp_path / "run", show=False)
    assert load(tmp_path / "run").info.env_steps == 200
    assert not (tmp_path / "run" / files.LOCK_FILE).exists()


def test_the_module_is_imported_without_posix(tmp_path):
    code = (
        "import sys, os, errno\n"
        "for name in ('fcntl', 'resource', 'pwd', 'termios'): sys.modules[name] = None\n"
        "for name in ('pwrite', 'posix_fadvise', 'sched_getaffinity'): delattr(os, name)\n"
        "import ucpo.storage.files, ucpo.envs.threads\n"
        "assert ucpo.envs.threads.processors() >= 1"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_cannot_be_written_is_refused_before_it_is_needed(tmp_path, monkeypatch):
    files.must_be_writable(tmp_path / "new" / "file", "elsewhere")
    assert list((tmp_path / "new").iterdir()) == []
    (tmp_path / "here").write_bytes(b"kept")
    files.must_be_writable(tmp_path / "here", "elsewhere")
    assert (tmp_path / "here").read_bytes() == b"kept"
    with pytest.raises(UsageError, match=r"is a folder.*elsewhere"):
        files.must_be_writable(tmp_path, "elsewhere")

    def refuse(path, mode="r", *rest, **named):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(UsageError, match=r"Permission denied.*elsewhere"):
        files.must_be_writable(tmp_path / "x", "elsewhere")


def test_paths_in_advice_can_be_pasted():
    assert shell(Path("runs/a")) == "runs/a"
    assert shell(Path("my runs/it's")) == "'my runs/it'\"'\"'s'"
