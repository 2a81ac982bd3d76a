# SPDX-License-Identifier: Apache-2.0
"""How a tensor of a list travels: by its plan, or by the list's options."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hipress.adapter.synchronizer import SynchronizationOptions
    from hipress.secopa.plan.choice import Choice


def way_of(name: str, options: SynchronizationOptions, choice: Choice | None) -> dict[str, Any]:
    """The tensor's codec, topology and partitions: the plan's choice, or only the plan's topology, or the options'."""
    if choice is not None:
        return {
            "codec": choice.codec,
            "topology": choice.topology,
            "partitions": choice.partitions,
            "group": choice.group or "",
        }
    if options.plan is not None:
        return {"topology": options.plan.topology}
    left_out = name in options.left_out and name not in options.codec_for
    return {
        "codec": options.codec_for.get(name, options.codec),
        "topology": options.topology,
        "partitions": options.partitions,
        # Not codec "none": the engine counts what travels without its codec.
        "min_compress_bytes": sys.maxsize if left_out else options.min_compress_bytes,
    }
