# SPDX-License-Identifier: Apache-2.0
"""`hipress build tensorflow`: the operators for the TensorFlow that is installed, from the sources that HiPress has.

They are kept like compiled codecs (compll/python/build/cache.py), for each version of TensorFlow and of the sources.
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

#: Seconds for the compiler; it takes ten.
COMPILE_TIMEOUT = 600.0
_INCLUDE = Path(hipress.__path__[0]) / "include"
_SOURCES = _INCLUDE / "frameworks" / "tensorflow" / "operators"


def built_library(version: str) -> Path | None:
    """The library for TensorFlow `version` that build() has made of these sources; None: it has not."""
    return found(_key(version))


def build() -> Path:
    """Makes it, if it has not been made.

    Raises Unsupported without TensorFlow or a compiler, HipressError if the compiler finds an error, Timeout, and
    InvalidArgument if the cache cannot be written.
    """
    if importlib.util.find_spec("tensorflow") is None:
        raise Unsupported("TensorFlow is not installed here: pip install tensorflow, then build its operators")
    tensorflow = importlib.import_module("tensorflow")
    version = tensorflow.__version__
    # Its headers are not free of warnings, and C++20 is what HiPress' own are.
    flags = [flag.replace("-I", "-isystem", 1) for flag in tensorflow.sysconfig.get_compile_flags()]
    flags = [flag for flag in flags if "-std=" not in flag]
    toolchain = find_toolchain([*flags, "-DNDEBUG", *tensorflow.sysconfig.get_link_flags()])
    key = _key(version)

    def make(work: Path) -> Path:
        source, library = work / "operators.cc", work / "operators.so"
        # One file: TensorFlow's headers take longer to compile than the operators.
        source.write_text("".join(f'#include "{file}"\n' for file in sorted(_SOURCES.glob("*.cc"))))
        log = cache_folder() / f"{key}.log"
        title = f"HiPress' operators for TensorFlow {version}"
        compile_library(toolchain, title, source, library, log, COMPILE_TIMEOUT)
        return library

    return cached(key, make, COMPILE_TIMEOUT + 30.0)


def _key(version: str) -> str:
    """Of what the library depends on, but for the compiler: it is looked for where there may be none."""
    digest = hashlib.sha256()
    for file in sorted(_INCLUDE.rglob("*")):
        if file.is_file():
            digest.update(f"{file.relative_to(_INCLUDE)}\0".encode() + file.read_bytes() + b"\0")
    return f"tensorflow-{version}-{digest.hexdigest()[:32]}"
