# SPDX-License-Identifier: Apache-2.0
"""Finds a codec by its name, by the file of a CompLL program, or by the module and name of a class in Python."""

from __future__ import annotations

import importlib
import os
import re
import sys
from pathlib import Path

from hipress._library import load_core
from hipress.codecs.loading import load_codec
from hipress.errors import InvalidArgument

_TEXT = re.compile(r"(?P<what>[^()]+)(?P<options>\(.*\))?")


def codec_named(text: str) -> str:
    """The text of a codec that this process then knows.

    `text`: "int8", "own.cll", "own.so" or "my_module:MyCodec", each also with options: "own.cll(ratio=0.1)". A module
    is found as Python finds it, and in the current folder. Raises InvalidArgument; and what load_codec() and
    register_codec() raise.
    """
    matched = _TEXT.fullmatch(text.strip())
    if matched is None:
        raise InvalidArgument(f"{text!r} is no codec: give a name, a .cll file or module:Class")
    what, options = matched["what"].strip(), matched["options"] or ""
    if what.endswith((".cll", ".so")):
        name: str = load_codec(Path(what))
    elif ":" in what:
        name = _registered(what)
    else:
        name = what
    load_core().create_codec(name + options)
    return name + options


def _registered(what: str) -> str:
    module, _, kind = what.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), kind)
    except (ImportError, AttributeError) as error:
        raise InvalidArgument(f"{what} is not there: {error}") from error
    # Only a class in Python needs torch.
    register = importlib.import_module("hipress.torch.python_codecs").register_codec
    name: str = register(found)
    return name
