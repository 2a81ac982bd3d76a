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


def check_a_call_that_one_rank_refuses_is_an_error_on_all(adapter: Adapter) -> None:
    hvd = adapter.module
    if hvd.size() == 1:
        return
    mine = np.full((hvd.size(), 3), float(hvd.rank()), np.float32)
    mean = (hvd.size() - 1) / 2
    calls: list[tuple[str, dict[str, object], dict[str, object]]] = [
        ("allreduce", {}, {"op": hvd.Adasum}),
        ("allreduce", {}, {"op": "median"}),
        ("allreduce", {}, {"codec": "no codec", "name": "has a name anyhow"}),
        ("broadcast", {"root_rank": 0}, {"root_rank": 99}),
        ("reducescatter", {}, {"op": "median"}),
    ]
    for name in ("refused", None):
        for function, right, wrong in calls:
            options = {**right, **(wrong if _differs(adapter) else {})}
            if "name" in wrong:
                options["name"] = wrong["name"]
            elif name is not None:
                options["name"] = name
            refused = hvd.HipressError if _differs(adapter) else hvd.Mismatch
            with pytest.raises(refused, match=r"refused|choose|root rank|codec"):
                adapter.call(function, mine, **options)
            # The next calls of this name, and of none, are right on all ranks.
            for again in (name, None):
                result = adapter.call("allreduce", mine, name=again)
                np.testing.assert_allclose(result, np.full_like(mine, mean), rtol=1e-6)
    scalar = np.float32(1.0) if _differs(adapter) else mine
    with pytest.raises(hvd.InvalidArgument if _differs(adapter) else hvd.Mismatch):
        adapter.call("allgather", np.asarray(scalar), name="rows")
    with pytest.raises(hvd.InvalidArgument if _differs(adapter) else hvd.Mismatch):
        adapter.call("alltoall", mine[:-1] if _differs(adapter) else mine, name="moved")
    result = adapter.call("allreduce", mine, name="afterwards")
    np.testing.assert_allclose(result, np.full_like(mine, mean), rtol=1e-6)


def check_a_part_that_one_rank_refuses_is_an_error_on_all(adapter: Adapter) -> None:
    hvd = adapter.module
    if hvd.size() == 1:
        return
    # The second of three has no average on one rank. The others do not wait for the third.
    several = [np.ones(3, np.bool_ if part == 1 and _differs(adapter) else np.float32) for part in range(3)]
    with pytest.raises(hvd.Unsupported if _differs(adapter) else hvd.Mismatch):
        adapter.call_grouped("grouped_allreduce", several, name="several")
    result = adapter.call("allreduce", np.ones(3, np.float32), name="after the parts")
    np.testing.assert_array_equal(result, np.ones(3))


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
