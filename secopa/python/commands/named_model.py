# SPDX-License-Identifier: Apache-2.0
"""The gradients of a model that a command line names as MODULE:NAME."""

from __future__ import annotations

import importlib
import os
import sys
from typing import Any

from hipress.errors import InvalidArgument
from hipress.secopa.profile.gradients import GradientSet

#: The adapter's module by the package of the model's class or of one of its base classes.
_ADAPTERS = {
    "torch": "hipress.torch.model_gradients",
    "tensorflow": "hipress.tensorflow.model_gradients",
    "keras": "hipress.tensorflow.model_gradients",
    "tf_keras": "hipress.tensorflow.model_gradients",
    "mxnet": "hipress.mxnet.model_gradients",
}


def gradients_of_named(target: str) -> GradientSet:
    """The gradients of a model, or of the model that a function or class returns when called without arguments.

    `target`: MODULE:NAME; the module is in the working folder or installed.

    Raises InvalidArgument if there is no such module, name or model. Exceptions of the module and the function pass.
    """
    model = _model(target)
    return _adapter(model, target).gradients_of(model)  # type: ignore[no-any-return]


def _model(target: str) -> Any:
    module_name, colon, name = target.partition(":")
    if not module_name or not colon or not name:
        raise InvalidArgument(f"{target}: expected MODULE:FUNCTION, such as my_module:make_model")
    # The working folder comes first, as with `python -m`.
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module exists, but one of its imports is missing
        raise InvalidArgument(f"{target}: there is no module {error.name} in {folder}, nor an installed one") from None
    found: Any = module
    for part in name.split("."):
        if not hasattr(found, part):
            raise InvalidArgument(f"{target}: {getattr(found, '__name__', found)} has no {part}")
        found = getattr(found, part)
    # A model is callable, too, so the check for a model comes first.
    return found if _package(found) is not None and not isinstance(found, type) else _made(found, target)


def _made(maker: Any, target: str) -> Any:
    if not callable(maker):
        raise InvalidArgument(f"{target} is a {type(maker).__name__}: expected a model, or a function that makes one")
    return maker()


def _package(model: Any) -> str | None:
    packages = (kind.__module__.partition(".")[0] for kind in type(model).__mro__)
    return next((package for package in packages if package in _ADAPTERS), None)


def _adapter(model: Any, target: str) -> Any:
    package = _package(model)
    if package is None:
        raise InvalidArgument(
            f"{target} gave a {type(model).__name__}: expected a model of PyTorch, TensorFlow or MXNet (Gluon)"
        )
    return importlib.import_module(_ADAPTERS[package])
