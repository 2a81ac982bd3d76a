# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow's names: `import hipress.horovod.tensorflow as hvd`."""

from __future__ import annotations

from typing import Any

from hipress import tensorflow
from hipress.horovod import absent, names
from hipress.horovod.names import HorovodInternalError
from hipress.tensorflow import *  # noqa: F403


def init(comm: Any = None, process_sets: Any = None) -> None:  # type: ignore[no-redef]
    """Joins the job; see hipress.init(). Raises Unsupported for another set than all ranks of the launcher."""
    names.init(comm, process_sets)


__getattr__ = absent.refusing("tensorflow")

__all__ = [*tensorflow.__all__, "HorovodInternalError"]
