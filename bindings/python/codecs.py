# SPDX-License-Identifier: Apache-2.0
"""Codecs from files, for use by name."""

from __future__ import annotations

import os
from pathlib import Path

from hipress._library import load_core
from hipress.errors import InvalidArgument


def load_codec(path: str | os.PathLike[str], *, timeout: float = 300.0) -> str:
    """Makes the codec of a CompLL program known to this process and returns its name, for `codec="name(option=1)"`.

    Every rank calls it, before it uses the name. The program is compiled by this machine's C++ compiler ($CXX, or
    else g++, c++ or clang++) when it is first seen, in a few seconds; what comes out is kept in $HIPRESS_CACHE,
    $XDG_CACHE_HOME/hipress or ~/.cache/hipress. Ranks that start together compile it once. `timeout` (seconds) limits
    the compiler. A kept library is used only if no other user can have written it.

    A library that `hipress compll build --library` wrote can be loaded, too, and needs no compiler. It is loaded as it
    is: who can write to it is for the caller to know.

    To load the same program again does nothing. Raises CompileError, with line and column, if the program is wrong;
    InvalidArgument if it cannot be read, if another codec has its name, or if another user can write to the cache;
    Unsupported without a compiler; Timeout; and HipressError with the path of a log, to be reported, if a right program
    does not compile.
    """
    file = Path(path)
    if file.suffix == ".so":
        return str(load_core().load_codec_library(str(file)))
    # Not needed by anyone who only uses codecs.
    from hipress.compll.build.cache import opened
    from hipress.compll.build.codec import library_of, read_codec

    library = library_of(read_codec(file), timeout)
    with opened(library) as name:
        try:
            return str(load_core().load_codec_library(name))
        except InvalidArgument as error:
            raise InvalidArgument(f"{file}: {error}".replace(name, str(library))) from None
