# SPDX-License-Identifier: Apache-2.0
"""Models within the wrappers of torch.compile() and of Lightning Fabric."""

from __future__ import annotations

from torch import nn

from hipress.torch.installed.private_names import COMPILED, children_of

#: What Fabric's `setup()` calls the module that its strategy has wrapped.
_STRATEGYS = "_forward_module"


def unwrapped(model: nn.Module) -> nn.Module:
    """The model without the wrappers of torch.compile() and Fabric."""
    while True:
        children = children_of(model)
        inner = children.get(COMPILED, children.get(_STRATEGYS))
        if inner is None:
            return model
        model = inner


def without_wrappers(name: str) -> str:
    """The name of a parameter or module, as it is without torch.compile()."""
    return ".".join(part for part in name.split(".") if part != COMPILED)
