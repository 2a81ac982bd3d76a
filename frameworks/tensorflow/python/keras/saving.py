# SPDX-License-Identifier: Apache-2.0
"""Models that were saved while they trained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import keras

from hipress.tensorflow.optimizer import DistributedOptimizer


def load_model(
    filepath: str | Path,
    custom_optimizers: Iterable[type] = (),
    custom_objects: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    """keras.models.load_model(), with the model's optimizer distributed, and its state as it was saved.

    A model is saved as if its optimizer were not distributed: keras.models.load_model() loads it, too.

    Arguments:
        custom_optimizers: classes of optimizers that Keras does not know.
        custom_objects: what else it does not know.
        options: of DistributedOptimizer.
    """
    known = {**{kind.__name__: kind for kind in custom_optimizers}, **(custom_objects or {})}
    model = keras.models.load_model(filepath, custom_objects=known)
    if getattr(model, "optimizer", None) is not None:
        DistributedOptimizer(model.optimizer, **options)
    return model
