# SPDX-License-Identifier: Apache-2.0
"""horovod.mxnet's names: `import hipress.horovod.mxnet as hvd`."""

from __future__ import annotations

from typing import Any

from hipress import mxnet
from hipress.adapter.process_sets import add_at_start
from hipress.horovod import absent
from hipress.horovod.names import HorovodInternalError, check_all_ranks
from hipress.mxnet import *  # noqa: F403


def init(comm: Any = None, process_sets: Any = None) -> None:  # type: ignore[no-redef]
    """Calls hipress.mxnet.init(), and adds the process sets; see hipress.horovod.torch.init()."""
    check_all_ranks(comm)
    mxnet.init()
    add_at_start(process_sets)


__getattr__ = absent.refusing("mxnet")

__all__ = [*mxnet.__all__, "HorovodInternalError"]
