# SPDX-License-Identifier: Apache-2.0
"""If ranks disagree, all of them get the error, and they can go on."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from tests.frameworks.adapters.adapter import Adapter


def _raises_on_every_rank(adapter: Adapter, call: Callable[[], object]) -> None:
    if adapter.module.size() == 1:
        return
    with pytest.raises(adapter.module.Mismatch, match="rank"):
        call()
    adapter.module.barrier()


def _differs(adapter: Adapter) -> bool:
    return bool(adapter.module.rank() == adapter.module.size() - 1)


def check_shapes_that_differ(adapter: Adapter) -> None:
    values = np.zeros(4 if _differs(adapter) else 5, np.float32)
    _raises_on_every_rank(adapter, lambda: adapter.call("allreduce", values, name="shapes"))
    wide = np.zeros((2, 4 if _differs(adapter) else 5), np.float32)
    _raises_on_every_rank(adapter, lambda: adapter.call("allgather", wide, name="rows"))
    _raises_on_every_rank(adapter, lambda: adapter.call("broadcast", values, root_rank=0, name="values"))


def check_types_that_differ(adapter: Adapter) -> None:
    values = np.zeros(5, np.float64 if _differs(adapter) else np.float32)
    _raises_on_every_rank(adapter, lambda: adapter.call("allreduce", values, name="types"))
    _raises_on_every_rank(adapter, lambda: adapter.call("allgather", values, name="types"))


def check_options_that_differ(adapter: Adapter) -> None:
    hvd = adapter.module
    values, root = np.zeros(5, np.float32), 1 if _differs(adapter) else 0
    op = hvd.Sum if _differs(adapter) else hvd.Average
    _raises_on_every_rank(adapter, lambda: adapter.call("allreduce", values, op=op, name="ops"))
    _raises_on_every_rank(adapter, lambda: adapter.call("broadcast", values, root_rank=root, name="roots"))


def check_operations_without_names_are_for_one_thread(adapter: Adapter) -> None:
    raised: list[Exception] = []

    def elsewhere() -> None:
        try:
            adapter.call("allreduce", np.zeros(3, np.float32))
        except Exception as error:
            raised.append(error)

    adapter.call("allreduce", np.zeros(3, np.float32))
    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert isinstance(raised[0], adapter.module.InvalidArgument)
    assert "give the operation a name" in str(raised[0])
    adapter.module.barrier()


def check_what_is_not_there_is_said(adapter: Adapter) -> None:
    hvd = adapter.module
    values = np.zeros(5, np.float32)
    with pytest.raises(hvd.Unsupported, match="Adasum"):
        adapter.call("allreduce", values, op=hvd.Adasum, name="adasum")
    with pytest.raises(hvd.InvalidArgument, match="root"):
        adapter.call("broadcast", values, root_rank=hvd.size(), name="no root")
