# SPDX-License-Identifier: Apache-2.0
"""The gradients of a model in memory, and the file with them that `hipress plan --input` reads, for all frameworks."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hipress.errors import InvalidArgument
from hipress.secopa.profile.document import first_fault, write_text
from hipress.secopa.profile.gradients import Gradient, GradientSet


def gradients_of_tensors(model: str, tensors: Iterable[tuple[str, Any]]) -> GradientSet:
    """The gradient set of `(name, tensor)` pairs, given in the order of forward. A tensor needs `shape` and `dtype`.

    Raises InvalidArgument if there are no tensors, two tensors have the same name, a shape is not known yet, or
    gradients cannot have an element type.
    """
    named = list(tensors)
    for name, tensor in named:
        if any(size is None or size < 0 for size in tensor.shape):
            raise InvalidArgument(
                f"parameter '{name}' has the shape {tuple(tensor.shape)}: let the model see a batch first, so that its "
                "shapes are known"
            )
    if not named:
        raise InvalidArgument(f"{model} has no parameters to train; if they come with the first batch, show it one")
    try:
        return GradientSet(
            model=model,
            gradients=tuple(
                Gradient(
                    name=name,
                    elements=math.prod(tensor.shape),
                    dtype=_dtype_name(tensor.dtype),
                    shape=tuple(int(size) for size in tensor.shape),
                )
                for name, tensor in named
            ),
        )
    except ValidationError as error:
        raise InvalidArgument(f"{model}: {first_fault(error)}") from None


def write_gradient_set(gradients: GradientSet, path: str | os.PathLike[str]) -> None:
    """Writes JSON if `path` ends with .json, else the original's lines `name,number_of_float32`.

    Raises InvalidArgument if the file cannot be written, or if a gradient is not float32 and the file is not JSON.
    """
    if Path(path).suffix == ".json":
        gradients.write(Path(path))
        return
    other = next((one for one in gradients.gradients if one.dtype != "float32"), None)
    if other is not None:
        raise InvalidArgument(
            f"lines name,number_of_float32 cannot say that '{other.name}' is {other.dtype}: write a .json file"
        )
    write_text(Path(path), "".join(f"{one.name},{one.elements}\n" for one in gradients.gradients))


def _dtype_name(dtype: Any) -> str:
    """The name of a dtype of torch ("torch.float32"), TensorFlow (`.name`), or NumPy and MXNet (a type)."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]
