# SPDX-License-Identifier: Apache-2.0
"""Whether an optimizer divides by second moments and whether it has momentum: that decides which codecs go with it.

Read from the object's class and options, alike for PyTorch's, Keras', TensorFlow's and MXNet's, and for optimizers of
libraries and users that are derived from them or have the same options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: In the names of classes of optimizers with second moments, such as Adam, AdamW, Adamax, SparseAdam and FusedAdam.
_PARTS = ("adam", "adagrad", "adadelta", "adafactor", "adabelief", "rmsprop")
_NAMES = frozenset({"lamb", "fusedlamb", "lans", "ftrl", "ftml", "yogi", "novograd", "shampoo"})
#: Has two betas, and takes the sign of its momentum.
_WITHOUT = frozenset({"lion"})

#: By the framework's module. tf_keras' optimizers have none.
_BELONGING = {
    "torch.optim.": "hipress.torch.optim",
    "keras.": "hipress.tensorflow.keras.optim",
    "mxnet.optimizer.": "hipress.mxnet.optim",
}


@dataclass(frozen=True)
class OptimizerTraits:
    """`second_moments`: it divides by a running mean (or sum, or maximum) of squared gradients, as Adam does."""

    name: str
    second_moments: bool
    momentum: bool
    belonging: str = ""
    """The module with optimizers that belong to codecs, for the framework whose optimizer it is or derives from."""


def traits_of(optimizer: Any) -> OptimizerTraits:
    """The traits of an optimizer of any framework."""
    while (inner := getattr(optimizer, "inner_optimizer", None)) is not None:  # of Keras' LossScaleOptimizer
        optimizer = inner
    classes = [kind.__name__.lower().removesuffix("optimizer") for kind in type(optimizer).__mro__]
    options = _options(optimizer)
    named = any(name in _NAMES or any(part in name for part in _PARTS) for name in classes)
    has_betas = any(_beta(each, 1) is not None for each in options)
    return OptimizerTraits(
        name=type(optimizer).__name__,
        second_moments=not _WITHOUT.intersection(classes) and (named or has_betas),
        momentum=any(_is_positive(each.get("momentum", each.get("_momentum"))) for each in options)
        or any(_is_positive(_beta(each, 0)) for each in options),
        belonging=_belonging(type(optimizer)),
    )


def _belonging(kind: type) -> str:
    modules = [each.__module__ for each in kind.__mro__]
    return next((ours for theirs, ours in _BELONGING.items() if any(each.startswith(theirs) for each in modules)), "")


def _options(optimizer: Any) -> list[Mapping[str, Any]]:
    """PyTorch keeps them by group of parameters, the others as attributes."""
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
        return True  # a schedule or a tensor: it computes the value while training
