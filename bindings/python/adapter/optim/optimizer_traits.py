# SPDX-License-Identifier: Apache-2.0
"""Finds out whether an optimizer divides by second moments and has momentum, which decides which codecs fit it.

It looks at the class and options of the object: an optimizer of PyTorch, Keras, TensorFlow or MXNet, or one of a
library or user that is derived from them or has the same options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Parts of the class names of optimizers with second moments, such as Adam, AdamW, Adamax, SparseAdam and FusedAdam.
_PARTS = ("adam", "adagrad", "adadelta", "adafactor", "adabelief", "rmsprop")
_NAMES = frozenset({"lamb", "fusedlamb", "lans", "ftrl", "ftml", "yogi", "novograd", "shampoo"})
#: Optimizers with two betas but without second moments: Lion takes the sign of its momentum.
_WITHOUT = frozenset({"lion"})

#: The modules with optimizers made for compression, by the framework's module. tf_keras has none.
_BELONGING = {
    "torch.optim.": "hipress.torch.optim",
    "keras.": "hipress.tensorflow.keras.optim",
    "mxnet.optimizer.": "hipress.mxnet.optim",
}


#: Second moments that are not used as Adam uses them: no training of Adam tells about these.
_NOT_LIKE_ADAM = frozenset({"ftrl", "ftml", "shampoo", "soap"})
#: Classes of plain stochastic gradient descent, with momentum or without.
_DESCENTS = frozenset({"sgd", "nag", "gradientdescent", "momentum"})


@dataclass(frozen=True)
class OptimizerTraits:
    """`second_moments`: whether it divides by a running mean, sum or maximum of squared gradients, as Adam does."""

    name: str
    second_moments: bool
    momentum: bool
    kind: str = "unknown"
    """As in hipress.secopa.evidence."""
    belonging: str = ""
    """The module with HiPress' optimizers made for compression that take these parameters; empty: there is none."""


def traits_of(optimizer: Any) -> OptimizerTraits:
    """The traits of an optimizer of any framework."""
    while (inner := getattr(optimizer, "inner_optimizer", None)) is not None:  # Keras' LossScaleOptimizer has one
        optimizer = inner
    classes = [kind.__name__.lower().removesuffix("optimizer") for kind in type(optimizer).__mro__]
    options = _options(optimizer)
    named = any(name in _NAMES or any(part in name for part in _PARTS) for name in classes)
    has_betas = any(_beta(each, 1) is not None for each in options)
    second_moments = not _WITHOUT.intersection(classes) and (named or has_betas)
    momentum = any(_is_positive(each.get("momentum", each.get("_momentum"))) for each in options)
    return OptimizerTraits(
        name=type(optimizer).__name__,
        second_moments=second_moments,
        momentum=momentum or any(_is_positive(_beta(each, 0)) for each in options),
        kind=_kind(classes, second_moments, momentum),
        belonging=_belonging(type(optimizer)) if _all_float32_on_cpu(optimizer) else "",
    )


def _kind(classes: list[str], second_moments: bool, momentum: bool) -> str:
    if _WITHOUT.intersection(classes):
        return "unknown"
    for kind, part in (("lamb", "lamb"), ("lamb", "lans"), ("muon", "muon")):
        if any(part in name for name in classes):
            return kind
    if second_moments:
        return "unknown" if _NOT_LIKE_ADAM.intersection(classes) else "adam"
    if not _DESCENTS.intersection(classes):
        return "unknown"
    return "momentum" if momentum else "sgd"


def _belonging(kind: type) -> str:
    modules = [each.__module__ for each in kind.__mro__]
    return next((ours for theirs, ours in _BELONGING.items() if any(each.startswith(theirs) for each in modules)), "")


def _all_float32_on_cpu(optimizer: Any) -> bool:
    """Whether HiPress' own optimizers take the parameters. Only PyTorch's optimizers know their parameters early."""
    parameters = [parameter for group in getattr(optimizer, "param_groups", ()) for parameter in group["params"]]
    return all(str(each.dtype) == "torch.float32" and each.device.type == "cpu" for each in parameters)


def _options(optimizer: Any) -> list[Mapping[str, Any]]:
    """The options: PyTorch keeps them by parameter group, the other frameworks as attributes."""
    groups = getattr(optimizer, "param_groups", None)
    return [vars(optimizer)] if groups is None else list(groups)


def _beta(options: Mapping[str, Any], index: int) -> Any:
    """The decay of the first (index 0) or second (index 1) moment; None if the optimizer has none."""
    betas = options.get("betas")
    if isinstance(betas, list | tuple):
        return betas[index] if index < len(betas) else None
    names = (f"beta_{index + 1}", f"beta{index + 1}", f"adam_beta_{index + 1}")
    return next((options[name] for name in names if options.get(name) is not None), None)


def _is_positive(value: Any) -> bool:
    if value is None:
        return False
    try:
        return float(value) > 0
    except (TypeError, ValueError):
        return True  # a schedule or a tensor has its value only during training
