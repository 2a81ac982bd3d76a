# SPDX-License-Identifier: Apache-2.0
"""Objects of Python."""

from __future__ import annotations

from tests.frameworks.adapters.adapter import Adapter


def check_broadcast_object(adapter: Adapter) -> None:
    hvd = adapter.module
    for root in range(hvd.size()):
        assert hvd.broadcast_object({"from": hvd.rank(), "list": [1, None]}, root_rank=root) == {
            "from": root,
            "list": [1, None],
        }


def check_allgather_object(adapter: Adapter) -> None:
    hvd = adapter.module
    assert hvd.allgather_object("x" * hvd.rank(), name="texts") == ["x" * rank for rank in range(hvd.size())]
