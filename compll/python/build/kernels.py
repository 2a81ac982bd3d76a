# SPDX-License-Identifier: Apache-2.0
"""GPU code of kernels: compiled by NVRTC when a GPU first needs it, and kept in the cache of compiled libraries."""

from __future__ import annotations

import functools
import hashlib
import re
from pathlib import Path

from hipress.compll.build.cache import cache_folder, cached, opened
from hipress.compll.build.nvrtc import OPTIONS, KernelError, Nvrtc, find_nvrtc
from hipress.errors import HipressError

#: Seconds for which a process waits while another one compiles the same kernels.
WAIT = 330.0


def compile_kernels(title: str, text: str, major: int, minor: int) -> bytes:
    """The code of kernels for GPUs of compute capability major.minor.

    Arguments:
        title: for errors, "codec onebit".
        text: includes headers of HiPress only.

    Raises Unsupported without NVRTC; HipressError with the path of a log if the text does not compile; Timeout and
    InvalidArgument as the cache does.
    """
    nvrtc = find_nvrtc()
    target = nvrtc.target(10 * major + minor)
    key = f"{re.sub('[^A-Za-z0-9_]+', '-', title)}-{target}-{_fingerprint(nvrtc, text, target)}"

    def make(work: Path) -> Path:
        made = work / "kernels"
        try:
            made.write_bytes(nvrtc.compile(text, target, include_folders())[0])
        except KernelError as error:
            raise _reported(title, key, text, nvrtc, error) from None
        return made

    with opened(cached(key, make, WAIT, suffix=".cubin")) as name:
        return Path(name).read_bytes()


def include_folders() -> list[Path]:
    """The folders of the headers that kernels include."""
    import hipress

    include = Path(hipress.__path__[0]) / "include"
    return [include, include / "core" / "ops" / "cuda" / "standard"]


def _fingerprint(nvrtc: Nvrtc, text: str, target: str) -> str:
    parts = (text, str(nvrtc.version), target, *OPTIONS, _headers(include_folders()[0]))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


@functools.cache
def _headers(include: Path) -> str:
    """A checksum of the headers that kernels may include."""
    digest = hashlib.sha256()
    for file in sorted(path for path in (include / "core").rglob("*") if path.is_file()):
        digest.update(f"{file.relative_to(include)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()


def _reported(title: str, key: str, text: str, nvrtc: Nvrtc, error: KernelError) -> HipressError:
    log = cache_folder() / f"{key}.log"
    version = f"NVRTC {nvrtc.version[0]}.{nvrtc.version[1]}"
    log.write_text(f"{version}\n{error.log}\n{text}", encoding="utf-8")
    lines = error.log.strip().splitlines()
    first = next((line for line in lines if "error" in line.lower()), lines[0] if lines else "no reason given")
    return HipressError(
        f"the kernels of {title} do not compile with {version}: {first}. This is a defect of HiPress; please report it "
        f"with {log}. Until then synchronise the tensor on the CPU"
    )
