# SPDX-License-Identifier: Apache-2.0
"""GPU code of kernels: when NVRTC compiles it, what the cache keeps, and the error where it cannot be compiled."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hipress.compll.build import kernels, nvrtc
from hipress.compll.build.kernels import compile_kernels
from hipress.compll.build.nvrtc import Nvrtc, find_nvrtc
from hipress.errors import HipressError, InvalidArgument, Unsupported

KERNEL = """
#include "core/ops/cuda/execution.h"
struct Fill {
  int* to;
  HIPRESS_DEVICE void operator()(const hipress::cuda::Block& block) const {
    block.threads([&](unsigned t) { to[t] = 7; });
  }
};
HIPRESS_KERNEL(fill, Fill)
"""
ELF = b"\x7fELF"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The targets of all NVRTC calls, in their order."""
    targets: list[str] = []
    compile_ = Nvrtc.compile

    def recorded(self: Nvrtc, text: str, target: str, *rest: Sequence[Any]) -> tuple[bytes, str]:
        targets.append(target)
        return compile_(self, text, target, *rest)

    monkeypatch.setattr(Nvrtc, "compile", recorded)
    return targets


@pytest.fixture
def without_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_candidates", lambda version: iter([f"libabsent.so.{version}"]))
    monkeypatch.setattr(kernels, "find_nvrtc", find_nvrtc.__wrapped__)


def test_kernels_are_compiled_once(compiled: list[str], cache: Path) -> None:
    first = compile_kernels("fill", KERNEL, 9, 0)
    assert first.startswith(ELF)
    assert b"fill" in first
    assert compile_kernels("fill", KERNEL, 9, 0) == first
    assert compiled == ["sm_90"]
    assert [path.suffix for path in sorted(cache.glob("fill-*"))] == [".cubin", ".lock", ".sha256"]


def test_another_text_gpu_or_nvrtc_is_another_entry(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    compile_kernels("fill", KERNEL, 9, 0)
    assert compile_kernels("fill", KERNEL, 8, 0) != compile_kernels("fill", KERNEL.replace("7", "8"), 9, 0)
    ours = find_nvrtc()
    newer = Nvrtc(ours.library, (99, 0), ours.architectures)
    monkeypatch.setattr(kernels, "find_nvrtc", lambda: newer)
    compile_kernels("fill", KERNEL, 9, 0)
    assert compiled == ["sm_90", "sm_80", "sm_90", "sm_90"]


@pytest.mark.parametrize("damage", ["cut", "altered", "without checksum"])
def test_a_damaged_entry_is_made_again(damage: str, compiled: list[str], cache: Path) -> None:
    first = compile_kernels("fill", KERNEL, 9, 0)
    (entry,) = cache.glob("*.cubin")
    if damage == "cut":
        entry.write_bytes(first[:100])
    elif damage == "altered":
        entry.write_bytes(first[:-1] + bytes([first[-1] ^ 1]))
    else:
        entry.with_suffix(".sha256").unlink()
    assert compile_kernels("fill", KERNEL, 9, 0) == first
    assert compiled == ["sm_90", "sm_90"]


def test_a_cache_in_which_others_can_write_is_refused(cache: Path) -> None:
    compile_kernels("fill", KERNEL, 9, 0)
    cache.chmod(0o777)
    with pytest.raises(InvalidArgument, match="other users can write"):
        compile_kernels("fill", KERNEL, 9, 0)


def test_text_that_does_not_compile_is_reported_with_a_log(cache: Path) -> None:
    with pytest.raises(
        HipressError, match=r"kernels of codec x do not compile with NVRTC .*: .*error.*absent"
    ) as error:
        compile_kernels("codec x", KERNEL + "int y = absent;", 9, 0)
    (log,) = re.findall(r"report it with (\S+\.log)", str(error.value))
    text = Path(log).read_text()
    assert KERNEL in text
    assert "absent" in text
    assert not list(cache.glob("*.cubin"))


@pytest.mark.usefixtures("without_nvrtc")
def test_without_nvrtc_the_error_names_the_package() -> None:
    with pytest.raises(
        Unsupported, match=r"NVRTC, the compiler of kernels .* not found.* pip install nvidia-cuda-nvrtc"
    ):
        compile_kernels("fill", KERNEL, 9, 0)


@pytest.mark.usefixtures("without_nvrtc")
def test_the_package_is_the_one_of_the_drivers_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvrtc, "_driver_version", lambda: 12)
    with pytest.raises(Unsupported, match=r"not found for CUDA 12; install it: pip install nvidia-cuda-nvrtc-cu12"):
        compile_kernels("fill", KERNEL, 9, 0)


def test_a_driver_that_is_older_than_nvrtc_gets_an_older_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def candidates(version: int) -> list[str]:
        asked.append(version)
        return []

    monkeypatch.setattr(nvrtc, "_driver_version", lambda: 12)
    monkeypatch.setattr(nvrtc, "_candidates", candidates)
    with pytest.raises(Unsupported):
        find_nvrtc.__wrapped__()
    assert asked == [12]


def test_gpus_that_nvrtc_does_not_know() -> None:
    """NVRTC makes PTX for a GPU that is newer than NVRTC, and the driver translates it."""
    one = Nvrtc(ctypes.CDLL(None), (13, 0), (80, 90, 100))
    assert [one.target(number) for number in (80, 90, 100, 103, 120)] == [
        "sm_80",
        "sm_90",
        "sm_100",
        "compute_100",
        "compute_100",
    ]
    with pytest.raises(Unsupported, match=r"no code for GPUs of compute capability 7\.5, only for 80, 90, 100"):
        one.target(75)


def test_ptx_for_a_newer_gpu() -> None:
    code = compile_kernels("fill", KERNEL, 99, 0)
    assert b".visible .entry fill" in code
    assert code.endswith(b"\0")
