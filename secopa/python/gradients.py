# SPDX-License-Identifier: Apache-2.0
"""The gradients that a step synchronises: names, sizes, and when backward has each of them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator
from typing_extensions import Self

from hipress.errors import InvalidArgument
from hipress.secopa.document import Document, Part, read_text

#: Bytes of an element, for every type that a gradient may have.
ELEMENT_BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}


class Gradient(Part):
    """One gradient."""

    name: str
    elements: int = Field(ge=0)
    dtype: str = "float32"
    release_s: float | None = Field(default=None, ge=0)
    """Seconds from the start of backward until the gradient is complete; None: not measured."""

    @model_validator(mode="after")
    def _has_a_size(self) -> Self:
        if self.dtype not in ELEMENT_BYTES:
            raise ValueError(f"gradient '{self.name}': dtype {self.dtype} is none of {', '.join(ELEMENT_BYTES)}")
        return self

    @property
    def bytes(self) -> int:
        """As it is, not compressed."""
        return self.elements * ELEMENT_BYTES[self.dtype]


class GradientSet(Document):
    """All gradients of a model in the order of the model: those of the layer that forward begins with come first."""

    model: str = ""
    measured: str = ""
    """How times were measured; empty: they were not."""
    backward_s: float = Field(default=0.0, ge=0)
    """What backward takes in all."""
    gradients: tuple[Gradient, ...]

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        seen: set[str] = set()
        for gradient in self.gradients:
            if gradient.name in seen:
                raise ValueError(f"two gradients are called '{gradient.name}'")
            seen.add(gradient.name)
        return self

    @property
    def elements(self) -> int:
        return sum(gradient.elements for gradient in self.gradients)

    @property
    def bytes(self) -> int:
        return sum(gradient.bytes for gradient in self.gradients)

    def hurried(self, factor: float) -> GradientSet:
        """The same with a backward that takes `factor` times as long."""
        ones = (
            one if one.release_s is None else one.model_copy(update={"release_s": one.release_s * factor})
            for one in self.gradients
        )
        return self.model_copy(update={"backward_s": self.backward_s * factor, "gradients": tuple(ones)})

    def releases_s(self) -> list[float]:
        """When each gradient is complete. One that was not measured counts as complete when backward has ended."""
        return [self.backward_s if one.release_s is None else one.release_s for one in self.gradients]


def of_tensors(model: str, tensors: Iterable[tuple[str, Any]]) -> GradientSet:
    """Of a model in memory: `(name, tensor)` pairs, such as torch's `named_parameters()`. Needs `shape` and `dtype`."""
    return GradientSet(
        model=model,
        gradients=tuple(
            Gradient(name=name, elements=math.prod(tensor.shape), dtype=_dtype_name(tensor.dtype))
            for name, tensor in tensors
        ),
    )


def read_gradients(path: str | Path) -> GradientSet:
    """From a file: this module's JSON, the JSON of benchmarks/models, or the original's lines `name,elements`.

    Raises InvalidArgument with the first line, or field, that is wrong.
    """
    text = read_text(path)
    if not text.lstrip().startswith("{"):
        return _of_lines(text, path)
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise InvalidArgument(f"{path}: {error}") from None
    if "tensors" in content:
        text = json.dumps(_of_shapes(content, path))
    return GradientSet.parse(text, str(path))


def _of_lines(text: str, path: str | Path) -> GradientSet:
    gradients = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, comma, elements = (word.strip() for word in line.rpartition(","))
        if not comma or not name or not elements.isdecimal():
            raise InvalidArgument(f"{path}, line {number}: expected name,number_of_float32, found '{line.strip()}'")
        gradients.append({"name": name, "elements": int(elements)})
    content = {"model": Path(path).stem, "gradients": gradients}
    return GradientSet.parse(json.dumps(content), str(path))


def _of_shapes(content: dict[str, Any], path: str | Path) -> dict[str, Any]:
    try:
        gradients = [
            {"name": name, "elements": math.prod(shape), "release_s": ready_s if content.get("measured") else None}
            for name, shape, ready_s in content["tensors"]
        ]
    except (TypeError, ValueError):
        raise InvalidArgument(f"{path}: expected tensors to be [name, shape, seconds] each") from None
    kept = {key: value for key, value in content.items() if key != "tensors"}
    return {**kept, "gradients": gradients}


def _dtype_name(dtype: Any) -> str:
    """Of torch's ("torch.float32"), TensorFlow's (its `name`) and NumPy's, which are MXNet's (a type)."""
    name = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype)
    return str(name).rpartition(".")[2]
