# SPDX-License-Identifier: Apache-2.0
"""The test adapters, by framework."""

from __future__ import annotations

import importlib
import importlib.util
import os

from tests.frameworks.adapters.adapter import Adapter

#: Framework → module and class of its test adapter.
_ADAPTERS = {
    "torch": ("tests.frameworks.adapters.torch_adapter", "TorchAdapter"),
    "tensorflow": ("tests.frameworks.adapters.tensorflow_adapter", "TensorflowAdapter"),
    "mxnet": ("tests.frameworks.adapters.mxnet_adapter", "MxnetAdapter"),
}


def present() -> list[str]:
    """The frameworks to test: the names in HIPRESS_FRAMEWORKS, or else all installed frameworks that have an
    adapter."""
    named = os.environ.get("HIPRESS_FRAMEWORKS")
    if named is not None:
        return [name for name in named.split(",") if name]
    return [
        name
        for name, (module, _) in _ADAPTERS.items()
        if importlib.util.find_spec(name) is not None and importlib.util.find_spec(module) is not None
    ]


def adapter_class(framework: str) -> type[Adapter]:
    module, name = _ADAPTERS[framework]
    found: type[Adapter] = getattr(importlib.import_module(module), name)
    return found
