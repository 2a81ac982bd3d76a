# SPDX-License-Identifier: Apache-2.0
"""All public functions are typed, and their signatures and docstrings show the declared options."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import pytest

from hipress.adapter.gradient_options import GradientOptions
from hipress.errors import InvalidArgument
from hipress.options.declaration import declared
from tests.frameworks.adapters import present

#: Framework → modules; the names in their __all__ are for users.
MODULES = {
    "torch": ["hipress.torch", "hipress.horovod.torch"],
    "tensorflow": [
        "hipress.tensorflow",
        "hipress.tensorflow.keras",
        "hipress.horovod.tensorflow",
        "hipress.horovod.tensorflow.keras",
        "hipress.horovod.keras",
    ],
    "mxnet": ["hipress.mxnet", "hipress.horovod.mxnet"],
}
HERE = [("hipress", "hipress"), *((framework, module) for framework in present() for module in MODULES[framework])]
#: Framework → modules with the callable that takes all options of gradients.
DISTRIBUTED = {
    "torch": [("hipress.torch", "DistributedOptimizer"), ("hipress.horovod.torch", "DistributedOptimizer")],
    "tensorflow": [
        ("hipress.tensorflow", "DistributedOptimizer"),
        ("hipress.tensorflow", "PartialDistributedOptimizer"),
        ("hipress.tensorflow", "DistributedGradientTape"),
        ("hipress.tensorflow", "PartialDistributedGradientTape"),
        ("hipress.tensorflow.keras", "load_model"),
        ("hipress.horovod.tensorflow.keras", "DistributedOptimizer"),
        ("hipress.horovod.keras", "DistributedOptimizer"),
        ("hipress.horovod.keras", "PartialDistributedOptimizer"),
    ],
    "mxnet": [("hipress.mxnet", "DistributedOptimizer"), ("hipress.mxnet", "DistributedTrainer")],
}
TAKING_OPTIONS = [pair for framework in present() for pair in DISTRIBUTED[framework]]


def functions(module: str) -> Iterator[tuple[str, Any]]:
    """The functions that a module exports, and the public methods of its exported classes."""
    found = importlib.import_module(module)
    for name in found.__all__:
        value = getattr(found, name)
        if inspect.isclass(value):
            methods = inspect.getmembers(value, inspect.isfunction)
            yield from ((f"{name}.{each}", method) for each, method in methods if _is_own(each, method))
        elif callable(value):
            yield name, value


def _is_own(name: str, method: Any) -> bool:
    return not name.startswith("_") and method.__module__.startswith("hipress")


@pytest.mark.parametrize(("_framework", "module"), HERE)
def test_nothing_returns_any_or_takes_any_keywords(_framework: str, module: str) -> None:
    untyped = []
    for name, function in functions(module):
        signature = inspect.signature(function)
        if signature.return_annotation in ("Any", Any, inspect.Signature.empty):
            untyped.append(f"{name}() -> {signature.return_annotation}")
        keywords = [each for each in signature.parameters.values() if each.kind is each.VAR_KEYWORD]
        untyped += [f"{name}(**{each.name})" for each in keywords]
    assert untyped == []


@pytest.mark.parametrize(("module", "name"), TAKING_OPTIONS)
def test_signature_and_docstring_show_every_option(module: str, name: str) -> None:
    function = getattr(importlib.import_module(module), name)
    parameters = inspect.signature(function).parameters
    for option, each in declared(GradientOptions).items():
        assert parameters[option].default == each.default
    wraps_another = name.startswith("Partial") or module == "hipress.horovod.torch"
    documented = inspect.getdoc(function) or ""
    assert wraps_another or all(f"{option}: " in documented for option in declared(GradientOptions))
    assert "{" not in documented.replace('{"', "")


@pytest.mark.parametrize(("module", "name"), TAKING_OPTIONS)
def test_type_checkers_see_the_options(module: str, name: str) -> None:
    """The source of the function has `**options: Unpack[...]`."""
    function = getattr(importlib.import_module(module), name)
    written = inspect.unwrap(function.__init__ if inspect.isclass(function) else function)
    assert any("Unpack[" in str(each) for each in written.__annotations__.values())


@pytest.mark.parametrize("framework", present())
def test_a_value_out_of_range_is_refused_with_the_range(framework: str) -> None:
    from hipress.adapter.gradient_options import gradient_options

    for option, value, message in [
        ("partitions", -1, "partitions=-1 is too small: expected at least 0"),
        ("min_compress_bytes", -1, "min_compress_bytes=-1 is too small: expected at least 0"),
        ("gradient_predivide_factor", 0.0, "gradient_predivide_factor=0.0 is too small: expected more than 0"),
    ]:
        refused = functools.partial(gradient_options, **{option: value})  # type: ignore[arg-type]
        with pytest.raises(InvalidArgument, match=message):
            refused()
