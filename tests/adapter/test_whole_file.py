# SPDX-License-Identifier: Apache-2.0
"""whole_file() leaves the old file or the complete new file, never a part of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hipress import whole_file

_DIES = """
import os, signal, sys
from hipress import whole_file
with whole_file(sys.argv[1]) as new:
    new.write_bytes(b"half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_new_file_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "states.npz"
    for content in (b"first", b"second"):
        with whole_file(path) as new:
            assert new.suffix == ".npz"
            new.write_bytes(content)
        assert path.read_bytes() == content
        assert list(tmp_path.iterdir()) == [path]


def test_an_exception_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "states"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), whole_file(path) as new:  # noqa: PT012
        new.write_bytes(b"half")
        raise ZeroDivisionError
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_process_that_dies_leaves_the_old_file_and_the_next_one_writes(tmp_path: Path) -> None:
    path = tmp_path / "states"
    path.write_bytes(b"old")
    died = subprocess.run([sys.executable, "-c", _DIES, str(path)], timeout=60, check=False)
    assert died.returncode == -9
    assert path.read_bytes() == b"old"
    with whole_file(path) as new:
        new.write_bytes(b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_a_block_that_writes_nothing_raises_and_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "states"
    path.write_bytes(b"old")
    with pytest.raises(FileNotFoundError), whole_file(path):
        pass
    assert path.read_bytes() == b"old"
