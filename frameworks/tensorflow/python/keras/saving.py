# SPDX-License-Identifier: Apache-2.0
"""Loads models that were saved during training."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tensorflow import keras

from hipress.options.signatures import in_order, takes
from hipress.tensorflow.training.optimizer import DistributedOptimizer
from hipress.tensorflow.training.options import WORDS, OptimizerOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


@in_order("filepath custom_optimizers custom_objects compression legacy_opts")
@takes(OptimizerOptions, **WORDS)
def load_model(
    filepath: str | Path,
    custom_optimizers: Iterable[type] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    legacy_opts: bool = False,
    **options: Unpack[OptimizerOptions],
) -> keras.Model:
    """Calls tf.keras.models.load_model() and distributes the model's optimizer, which has the saved state.

    A saved model has the plain optimizer, so tf.keras.models.load_model() loads it, too.

    Arguments:
        custom_optimizers: classes of optimizers that Keras does not know.
        custom_objects: other classes and functions that Keras does not know.
        legacy_opts: Horovod's, for optimizers that Keras 3 no longer has; it changes nothing.
        {options}
    """
    known = {**{kind.__name__: kind for kind in custom_optimizers or ()}, **(custom_objects or {})}
    model = keras.models.load_model(filepath, custom_objects=known)
    if getattr(model, "optimizer", None) is not None:
        DistributedOptimizer(model.optimizer, **options)
    return model
