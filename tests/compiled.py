# SPDX-License-Identifier: Apache-2.0
"""Compiles C++ programs and libraries of the tests into build/tests, and only when their preprocessed text has
changed."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

_KEPT = Path(__file__).parents[1] / "build" / "tests"


def compiled(name: str, compile_options: Sequence[str], link_options: Sequence[str] = ()) -> Path:
    """The path of the file that the compiler makes with these options.

    Arguments:
        compile_options: the compiler, its options and the sources, without -o.
        link_options: options that only the linker needs.
    """
    text = subprocess.run([*compile_options, "-E", "-P"], check=True, capture_output=True).stdout
    options = [word for word in (*compile_options, *link_options) if not Path(word).is_file()]
    key = hashlib.sha256(b"\0".join([text, *map(os.fsencode, options)]))
    folder = _KEPT / f"{Path(name).stem}-{key.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / name
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another test process may compile the same file
        if not target.exists():
            unfinished = folder / f"unfinished-{name}"
            subprocess.run([*compile_options, "-o", str(unfinished), *link_options], check=True)
            unfinished.rename(target)
    return target
