# SPDX-License-Identifier: Apache-2.0
"""Loads the library of operators for the installed TensorFlow: the shipped library, or one built on this machine."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import tensorflow as tf

from hipress._library import load_core
from hipress.build_tensorflow import built_library
from hipress.compll.build.cache import opened
from hipress.errors import Unsupported


@cache  # TensorFlow finds no operators in a library that the process has loaded under another name
def load_operators() -> tuple[Any, ctypes.CDLL]:
    """TensorFlow's module of the operators, and the library. Raises Unsupported, which says how to build it."""
    load_core()  # libhipress, which the operators link to, is in the process from here on
    version = tf.__version__
    shipped = shipped_library(version)
    if shipped is not None:
        return _loaded(str(shipped), version)
    built = built_library(version)
    if built is None:
        raise Unsupported(
            f"HiPress has no operators for TensorFlow {version}; build them, which takes seconds: hipress build "
            "tensorflow"
        )
    with opened(built) as name:
        return _loaded(name, version)


def _loaded(library: str, version: str) -> tuple[Any, ctypes.CDLL]:
    try:
        return tf.load_op_library(library), with_types(ctypes.CDLL(library))
    except tf.errors.NotFoundError as error:
        raise Unsupported(
            f"HiPress' operators for TensorFlow {version} cannot be loaded: {error.message}. Build them anew for this "
            "TensorFlow: hipress build tensorflow"
        ) from error


def with_types(library: ctypes.CDLL) -> ctypes.CDLL:
    """The library, with the types of the results of the functions in operators/tensor_lists.cc."""
    for name in ("define", "forget"):
        getattr(library, f"hipress_{name}_tensor_list").restype = ctypes.c_bool
    for name in ("hold_back", "copy_held_back", "forget_held_back", "set_scale", "states_replaced"):
        getattr(library, f"hipress_{name}").restype = ctypes.c_bool
    for name in ("unfinished", "count_updates", "steps"):
        getattr(library, f"hipress_{name}").restype = ctypes.c_bool
    library.hipress_note_raised.restype = ctypes.c_bool
    return library


def shipped_library(version: str) -> Path | None:
    """The library for TensorFlow `version` that HiPress' wheel contains, or None."""
    library = Path(__file__).with_name(f"libhipress_tensorflow-{version}.so")
    return library if library.exists() else None
