# SPDX-License-Identifier: Apache-2.0
"""Shared memory of killed ranks is removed, and no other."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

from hipress.launch.left_memory import remove_left_memory


def test_only_segments_that_no_process_has_open_are_removed(tmp_path: Path) -> None:
    since = time.time()
    for name in ("ucx_shm_posix_1", "ucx_shm_posix_2", "ucx_shm_posix_3", "others"):
        (tmp_path / name).write_bytes(b"0" * 4096)
    with (tmp_path / "ucx_shm_posix_2").open("rb"):
        assert sorted(remove_left_memory(since, tmp_path)) == ["ucx_shm_posix_1", "ucx_shm_posix_3"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["others", "ucx_shm_posix_2"]
    assert remove_left_memory(time.time() + 10, tmp_path) == []
    assert remove_left_memory(since, tmp_path) == ["ucx_shm_posix_2"]


def test_a_mapped_segment_of_another_process_stays(tmp_path: Path) -> None:
    since, segment = time.time(), tmp_path / "ucx_shm_posix_1"
    segment.write_bytes(b"0" * 4096)
    body = (
        f"import mmap,os\nfd = os.open({str(segment)!r}, os.O_RDWR)\nkept = mmap.mmap(fd, 4096)\nos.close(fd)\n"
        "print('mapped', flush=True)\ninput()"
    )
    with subprocess.Popen(["python3", "-c", body], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "mapped\n"
        assert remove_left_memory(since, tmp_path) == []
        other.communicate("\n")
    assert remove_left_memory(since, tmp_path) == ["ucx_shm_posix_1"]


def test_a_job_with_a_killed_rank_leaves_nothing(run: Callable[..., tuple[int, bytes, bytes]]) -> None:
    name = f"ucx_shm_posix_of_a_test_{os.getpid()}"
    code, _, _ = run("-np", "1", "sh", "-c", f"echo 0 > /dev/shm/{name}; kill -9 $$")
    assert code == 128 + 9
    assert not Path("/dev/shm", name).exists()
