# SPDX-License-Identifier: Apache-2.0
"""Ranks of one host whose shared memory is small, missing or read-only, as in containers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hipress import _core
from tests.launch.conftest import HIPRESS, clean_environment

_MIB = 1 << 20
_ROOT = Path(__file__).parents[2]
_SMALL = "mount -t tmpfs -o size={}m tmpfs /dev/shm"
_READ_ONLY = "mount -t tmpfs -o ro tmpfs /dev/shm"
#: Another /dev, without /dev/shm.
_MISSING = (
    "mount -t tmpfs tmpfs /dev && mknod -m 666 /dev/null c 1 3 && mknod -m 666 /dev/zero c 1 5 && "
    "mknod -m 666 /dev/random c 1 8 && mknod -m 666 /dev/urandom c 1 9 && ln -s /proc/self/fd /dev/fd"
)
_NO_SYSTEM_V = "echo 0 > /proc/sys/kernel/shmmni"


def _kind(ranks: int, mib: int, *, system_v: bool) -> str:
    found = _core.shared_memory(ranks, mib * _MIB, system_v)
    return str(found.get("kind", found.get("problem")))


@pytest.mark.parametrize("ranks", [2, 4, 8, 16])
@pytest.mark.parametrize("mib", [0, 1, 16, 64, 128, 300])
def test_ranks_never_take_more_than_the_host_has(ranks: int, mib: int) -> None:
    assert _kind(ranks, mib, system_v=True) == "system_v"
    kind = _kind(ranks, mib, system_v=False)
    expected = "tight_posix" if mib >= 34 * ranks else "tiniest_posix" if mib >= 10 * ranks else ""
    if expected:
        assert kind == expected
        return
    needed = 272 * ranks
    assert kind.startswith(f"{ranks} ranks need {needed} MiB of shared memory")
    assert f"docker run --shm-size={needed}m" in kind
    assert f"sizeLimit: {needed}Mi at /dev/shm" in kind


def test_ample_memory_and_ranks_that_are_alone() -> None:
    assert _kind(4, 4 * 272, system_v=True) == "posix"
    assert _kind(1, 0, system_v=False) == "none"
    assert _core.shared_memory(4)["needed"] == 4 * 272 * _MIB


def _run(ranks: int, prepare: str, *arguments: int) -> subprocess.CompletedProcess[str]:
    """Runs the ranks in a mount and IPC namespace of their own, after the shell command `prepare`."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "-i", "true"], capture_output=True).returncode != 0:
        pytest.skip("mounts need root and namespaces")
    rank = [sys.executable, str(_ROOT / "tests/launch/shared_memory_rank.py"), *map(str, arguments)]
    command = [*HIPRESS, "run", "--no-prefix", "-np", str(ranks), *rank]
    environment = {**clean_environment(), "PYTHONPATH": os.pathsep.join([str(_ROOT), *sys.path])}
    shell = ["unshare", "-m", "-i", "sh", "-c", f'{prepare} && exec "$@"', "sh", *command]
    return subprocess.run(shell, env=environment, capture_output=True, text=True, timeout=90)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "prepare", "arguments"),
    [
        (4, _SMALL.format(64), (8, 0)),
        (2, _SMALL.format(1), (1, 1500)),
        (2, _READ_ONLY, (1, 0)),
        (2, _MISSING, (1, 0)),
        (2, f"{_NO_SYSTEM_V} && {_SMALL.format(128)}", (4, 1500)),
        (4, f"{_NO_SYSTEM_V} && {_SMALL.format(64)}", (4, 700)),
        (8, _SMALL.format(64), (1, 0)),
    ],
    ids=["docker", "1 MiB", "read-only", "missing", "128 MiB, no System V", "64 MiB, no System V", "8 ranks"],
)
def test_ranks_train_in_little_shared_memory(ranks: int, prepare: str, arguments: tuple[int, int]) -> None:
    done = _run(ranks, prepare, *arguments)
    assert done.returncode == 0, done.stderr
    ends = [line for line in done.stdout.splitlines() if line.startswith("summed")]
    assert len(ends) == ranks
    if _NO_SYSTEM_V in prepare:
        assert all(line.split()[2] == "0" for line in ends)
    else:
        assert all(line.split()[1] == "0" for line in ends)


@pytest.mark.slow
def test_too_little_shared_memory_is_one_sentence_on_every_rank() -> None:
    done = _run(3, f"{_NO_SYSTEM_V} && {_SMALL.format(16)}", 1, 0)
    assert done.returncode != 0
    sentence = (
        "TransportError: ranks 0, 1 and 2 need 816 MiB of shared memory for their messages, and /dev/shm has only"
    )
    assert done.stderr.count(sentence) >= 1
    assert "docker run --shm-size=816m" in done.stderr
    assert "PeerLost" not in done.stderr.split(sentence)[0]
