# SPDX-License-Identifier: Apache-2.0
"""Loads codecs from files; scripts then use them by name."""

from __future__ import annotations

import os
from pathlib import Path

from hipress._library import load_core
from hipress.codecs.typed import LoadedCodec
from hipress.errors import InvalidArgument


def load_codec(path: str | os.PathLike[str], *, timeout: float = 300.0) -> LoadedCodec:
    """Loads the codec of a CompLL program into this process and returns it: a text, its name, for `codec=`. A call
    gives it options: `load_codec("own.cll")(ratio=0.1)` is "own(ratio=0.1)".

    Every rank calls it before it uses the name. The first call for a program compiles it with this machine's C++
    compiler ($CXX, or else g++, c++ or clang++) in a few seconds, and keeps the library in $HIPRESS_CACHE,
    $XDG_CACHE_HOME/hipress or ~/.cache/hipress. Ranks that start together compile it once. `timeout`: deadline of the
    compiler in seconds. HiPress uses a kept library only if no other user can have written it.

    It also loads a library that `hipress compll build --library` wrote; this needs no compiler. HiPress does not check
    who can write to such a library: load only libraries that you trust.

    A second call for the same program does nothing. Raises CompileError, with line and column, if the program is wrong;
    InvalidArgument if it cannot be read, if another codec has its name, or if another user can write to the cache;
    Unsupported without a compiler; Timeout; and HipressError, with the path of a log to report, if a correct program
    does not compile.
    """
    file = Path(path)
    if file.suffix == ".so":
        return LoadedCodec(load_core().load_codec_library(str(file)))
    # Imported here, because a script that uses only built-in codecs does not need it.
    from hipress.compll.build.cache import opened
    from hipress.compll.build.codec import library_of, read_codec

    library = library_of(read_codec(file), timeout)
    with opened(library) as name:
        try:
            return LoadedCodec(load_core().load_codec_library(name))
        except InvalidArgument as error:
            raise InvalidArgument(f"{file}: {error}".replace(name, str(library))) from None
