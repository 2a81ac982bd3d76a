# SPDX-License-Identifier: Apache-2.0
"""Arguments that Horovod's functions have for how Horovod works, and that change nothing here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Operators run on the CPU; small gradients travel in bundles anyway; names of tensors are no names of scopes.
WITHOUT_EFFECT = frozenset(
    {"device_dense", "device_sparse", "use_locking", "num_groups", "groups", "ignore_name_scope"}
)


def check(function: str, given: Mapping[str, Any]) -> None:
    """Raises TypeError for any other argument."""
    for name in given:
        if name not in WITHOUT_EFFECT:
            raise TypeError(f"{function}() got an unexpected keyword argument '{name}'")
