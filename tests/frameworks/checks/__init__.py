# SPDX-License-Identifier: Apache-2.0
"""All checks, in the order in which a world runs them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

from tests.frameworks.adapters.adapter import Adapter
from tests.frameworks.checks import (
    collectives,
    compression,
    derivatives,
    errors,
    objects,
    plans,
    process_sets,
    training,
    wire,
)


def _of(module: ModuleType) -> dict[str, Callable[[Adapter], None]]:
    return {name: value for name, value in vars(module).items() if name.startswith("check_")}


#: All checks, by name. The checks of `wire` come first, because messages depend on the operations before them.
CHECKS = {
    name: check
    for module in (wire, collectives, compression, derivatives, objects, training, plans, process_sets, errors)
    for name, check in _of(module).items()
}
