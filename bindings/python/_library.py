# SPDX-License-Identifier: Apache-2.0
"""Loads the compiled part of the package. If this fails, the error says what to do."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType

from hipress.errors import TransportError

#: Devices for which UCX remembers the memory that it has registered: RDMA adapters, memory of other processes that is
#: mapped, and GPUs. For these UCX rewrites the functions of libc that free memory, which takes 0.4 seconds of a core.
_REMEMBERING = ("sys/class/infiniband/*", "dev/xpmem", "dev/nvidiactl", "dev/kfd", "dev/dri/renderD*")


@functools.cache
def load_core() -> ModuleType:
    """The module `hipress._core`, loaded once. Raises `TransportError` if it or UCX cannot be loaded."""
    # Load UCX first, through its own package: the loader then does not search for UCX again, and the package honours
    # RAPIDS_LIBUCX_PREFER_SYSTEM_LIBRARY (a cluster's own UCX, built for its network).
    without_ucx: Exception | None = None
    wanted = ucx_variables(os.environ)
    os.environ.update(wanted)  # UCX reads the variables when it is loaded
    try:
        importlib.import_module("libucx").load_library()
    except (ImportError, OSError) as error:
        # Go on: the system's loader may find another UCX.
        without_ucx = error
    finally:
        for name in wanted:
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


def ucx_variables(environment: Mapping[str, str], root: Path = Path("/")) -> dict[str, str]:
    """The variables with which UCX is loaded; those of `environment` win. `root`: of the system's files."""
    # UCX warns about every request that a failed job gives up. The caller gets the relevant errors from HiPress.
    wanted = {"UCX_LOG_LEVEL": "error"}
    if not any(any(root.glob(device)) for device in _REMEMBERING):
        wanted["UCX_MEM_EVENTS"] = "n"
    return {name: value for name, value in wanted.items() if name not in environment}
