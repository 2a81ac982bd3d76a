# SPDX-License-Identifier: Apache-2.0
"""Makes copies of distributed optimizers an error, in all frameworks."""

from __future__ import annotations

from typing import Any

from hipress.errors import Unsupported


class NotCopied:
    """copy.copy() and copy.deepcopy() raise Unsupported: a copy would step on gradients that no other rank has."""

    def __copy__(self) -> Any:
        raise _refusal()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        raise _refusal()


def _refusal() -> Unsupported:
    return Unsupported(
        "a distributed optimizer cannot be copied: a copy would step on gradients that no other rank has. Copy its "
        "state, or make a plain optimizer for the copied parameters and wrap it with DistributedOptimizer on all ranks"
    )
