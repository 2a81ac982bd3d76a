# SPDX-License-Identifier: Apache-2.0
"""The cache of compiled codecs: processes wait for each other, and use its libraries again."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hipress.compll.build.cache import cache_folder, cached
from hipress.errors import InvalidArgument, Timeout


def make(folder: Path) -> Path:
    assert list(folder.iterdir()) == []
    made = folder / "made.so"
    made.write_bytes(b"a library")
    return made


def test_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for chosen, of_desktop, expected in (
        ("", "", tmp_path / ".cache" / "hipress"),
        ("", "not/absolute", tmp_path / ".cache" / "hipress"),
        ("", "/caches", Path("/caches/hipress")),
        ("/codecs", "/caches", Path("/codecs")),
        ("codecs", "", Path.cwd() / "codecs"),
    ):
        monkeypatch.setenv("HIPRESS_CACHE", chosen)
        monkeypatch.setenv("XDG_CACHE_HOME", of_desktop)
        assert cache_folder() == expected


def test_it_is_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path / "new" / "cache"))
    assert cached("key", make, 1.0).read_bytes() == b"a library"
    assert (tmp_path / "new" / "cache").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(InvalidArgument, match=r"cannot keep compiled .*Not a directory.*; set HIPRESS_CACHE"):
        cached("key", make, 1.0)


def test_what_is_not_made_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path))

    def fails(folder: Path) -> Path:
        make(folder)
        raise InvalidArgument("no")

    with pytest.raises(InvalidArgument, match=r"^no$"):
        cached("key", fails, 1.0)
    assert [path.name for path in tmp_path.iterdir()] == ["key.lock"]
    assert cached("key", make, 1.0).exists()


def test_waiting_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path))
    with open(tmp_path / "key.lock", "w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Timeout, match=r"another process that .* has held .*key\.lock for 0\.2 s"):
            cached("key", make, 0.2)
        assert cached("other", make, 0.2).exists()
    assert cached("key", make, 0.2).exists()


_DIES = """
import sys, time
from pathlib import Path
from hipress.compll.build.cache import cached

def make(folder):
    print(folder, flush=True)
    time.sleep(60)

cached("key", make, 1.0)
"""


def test_a_process_that_is_killed_does_not_stop_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", _DIES], stdout=subprocess.PIPE, env=dict(os.environ))
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert cached("key", make, 1.0).read_bytes() == b"a library"
