# SPDX-License-Identifier: Apache-2.0
"""UCX is loaded once, and rewrites functions of libc only where a device needs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hipress import _library
from hipress._library import load_core, ucx_variables


@pytest.mark.parametrize("device", ["sys/class/infiniband/mlx5_0", "dev/xpmem", "dev/nvidiactl", "dev/dri/renderD128"])
def test_a_device_that_needs_them_has_them(tmp_path: Path, device: str) -> None:
    (tmp_path / "sys/class/infiniband").mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    assert ucx_variables({}, tmp_path) == {"UCX_LOG_LEVEL": "error", "UCX_MEM_EVENTS": "n"}
    (tmp_path / device).parent.mkdir(exist_ok=True)
    (tmp_path / device).touch()
    assert ucx_variables({}, tmp_path) == {"UCX_LOG_LEVEL": "error"}


def test_the_users_variables_win(tmp_path: Path) -> None:
    assert ucx_variables({"UCX_MEM_EVENTS": "y", "UCX_LOG_LEVEL": "info"}, tmp_path) == {}


def test_who_has_loaded_it_asks_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planner and collectives ask for the core at each step of their work."""
    core = load_core()
    monkeypatch.setattr(_library, "importlib", None)
    assert load_core() is core


_PROGRAM = """
import ctypes
munmap = ctypes.cast(ctypes.CDLL(None).munmap, ctypes.c_void_p).value
before = ctypes.string_at(munmap, 16)
from hipress._library import load_core, ucx_variables
load_core()
print("UCX_MEM_EVENTS" in ucx_variables({}), ctypes.string_at(munmap, 16) == before)
"""


def test_code_of_libc_stays_as_it_is() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    unneeded, unchanged = done.stdout.split()
    if unneeded != "True":
        pytest.skip("a device of this machine needs UCX's memory hooks")
    assert unchanged == "True"
