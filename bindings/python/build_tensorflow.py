# SPDX-License-Identifier: Apache-2.0
"""`hipress build tensorflow`: builds the operators for the installed TensorFlow from the sources in HiPress' wheel.

The cache of compiled codecs (compll/python/build/cache.py) keeps them, by versions of TensorFlow and of the sources.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
from pathlib import Path

import hipress
from hipress.compll.build.cache import cache_folder, cached, found
from hipress.compll.build.compiler import compile_library, find_toolchain
from hipress.errors import Unsupported

#: Deadline of the compiler (seconds); it usually takes ten.
COMPILE_TIMEOUT = 600.0
_INCLUDE = Path(hipress.__path__[0]) / "include"
_SOURCES = _INCLUDE / "frameworks" / "tensorflow" / "operators"


def built_library(version: str) -> Path | None:
    """The library for TensorFlow `version` that build() has made from these sources, or None."""
    return found(_key(version))


def build() -> Path:
    """Builds the library unless the cache has it, and returns its path.

    Raises Unsupported without TensorFlow or a compiler, HipressError if the compiler finds an error, Timeout, and
    InvalidArgument if the cache cannot be written.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise Unsupported("TensorFlow is not installed here: pip install tensorflow, then build its operators")
    tensorflow = importlib.import_module("tensorflow")
    version = tensorflow.__version__
    # TensorFlow's headers cause warnings, so they are system headers here. HiPress' headers need C++20.
    flags = [flag.replace("-I", "-isystem", 1) for flag in tensorflow.sysconfig.get_compile_flags()]
    flags = [flag for flag in flags if "-std=" not in flag]
    toolchain = find_toolchain([*flags, "-DNDEBUG", *tensorflow.sysconfig.get_link_flags()])
    key = _key(version)

    def make(work: Path) -> Path:
        source, library = work / "operators.cc", work / "operators.so"
        # All sources become one file, because TensorFlow's headers take longer to compile than the operators.
        source.write_text("".join(f'#include "{file}"\n' for file in sorted(_SOURCES.glob("*.cc"))))
        log = cache_folder() / f"{key}.log"
        title = f"HiPress' operators for TensorFlow {version}"
        compile_library(toolchain, title, source, library, log, COMPILE_TIMEOUT)
        return library

    return cached(key, make, COMPILE_TIMEOUT + 30.0)


def _key(version: str) -> str:
    """The key of the library in the cache. It has no part for the compiler: built_library() must work without one."""
    digest = hashlib.sha256()
    for file in sorted(_INCLUDE.rglob("*")):
        if file.is_file():
            digest.update(f"{file.relative_to(_INCLUDE)}\0".encode() + file.read_bytes() + b"\0")
    return f"tensorflow-{version}-{digest.hexdigest()[:32]}"
