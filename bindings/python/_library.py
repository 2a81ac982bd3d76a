# SPDX-License-Identifier: Apache-2.0
"""Loads the compiled part of the package. If this fails, the error says what to do."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

from hipress.errors import TransportError


def load_core() -> ModuleType:
    """The module `hipress._core`. Raises `TransportError` with the reason if it, or UCX, cannot be loaded."""
    # Load UCX first, through its own package: the loader then does not search for UCX again, and the package honours
    # RAPIDS_LIBUCX_PREFER_SYSTEM_LIBRARY (a cluster's own UCX, built for its network).
    without_ucx: Exception | None = None
    # UCX warns about every request that a failed job gives up. The caller gets the relevant errors from HiPress.
    quiet = {} if "UCX_LOG_LEVEL" in os.environ else {"UCX_LOG_LEVEL": "error"}
    os.environ.update(quiet)  # UCX reads the variables when it is loaded
    try:
        importlib.import_module("libucx").load_library()
    except (ImportError, OSError) as error:
        # Go on: the system's loader may find another UCX.
        without_ucx = error
    finally:
        for name in quiet:
            os.environ.pop(name, None)  # another thread may have loaded the core meanwhile
    try:
        return importlib.import_module("hipress._core")
    except ModuleNotFoundError as error:
        if error.name != "hipress._core":
            raise TransportError(f"hipress._core cannot be loaded: {error}") from error
        raise TransportError(
            "hipress._core is not there: this is not a complete installation. Install a wheel of "
            "HiPress, or run pip install . in its source; do not run Python from within the source folder."
        ) from error
    except ImportError as error:
        advice = "Build it for this system: pip install --force-reinstall --no-cache-dir . in the source of HiPress"
        if without_ucx is not None:
            advice = f"UCX is missing too ({without_ucx}): pip install libucx-cu12"
        elif "libuc" in str(error):
            advice = "UCX is missing or does not fit: pip install --upgrade libucx-cu12"
        raise TransportError(f"hipress._core cannot be loaded: {error}. {advice}") from error
