# SPDX-License-Identifier: Apache-2.0
"""The gradients that a step synchronises: their names, sizes and release times."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import FailFast, Field, model_validator
from typing_extensions import Self

from hipress.secopa.profile.document import Document, MalformedFile, Part, read_json, read_text, shown

#: Bytes of an element, for every type that a gradient may have.
ELEMENT_BYTES = {"float32": 4, "float64": 8, "float16": 2, "bfloat16": 2}
#: Most elements of one gradient, more than any memory holds.
MOST_ELEMENTS = 1 << 48
#: Most gradients of one model.
MOST_GRADIENTS = 100_000
#: Longest backward: eleven days.
_MOST_SECONDS = 1e6
_NUMBER = re.compile(r"[0-9]{1,18}")


class Gradient(Part):
    """The gradient of one parameter."""

    name: str
    elements: int = Field(ge=0, le=MOST_ELEMENTS)
    dtype: str = "float32"
    shape: tuple[Annotated[int, Field(ge=0)], ...] | None = Field(default=None, max_length=64)
    """The dimensions; None if they are not known. Codecs with factors need them."""
    release_s: float | None = Field(default=None, ge=0, le=_MOST_SECONDS)
    """Seconds from the start of backward until the gradient is complete; None if this was not measured."""

    @model_validator(mode="after")
    def _has_a_size(self) -> Self:
        if self.dtype not in ELEMENT_BYTES:
            raise ValueError(f"gradient {shown(self.name)}: dtype {self.dtype} is none of {', '.join(ELEMENT_BYTES)}")
        if self.shape is not None and math.prod(self.shape) != self.elements:
            raise ValueError(
                f"gradient {shown(self.name)}: the shape {list(self.shape)} has not {self.elements} elements"
            )
        return self

    @property
    def bytes(self) -> int:
        """Bytes of the uncompressed values."""
        return self.elements * ELEMENT_BYTES[self.dtype]


class GradientSet(Document):
    """All gradients of a model, in the order of the model: the gradients of the first layer of forward come first."""

    model: str = ""
    measured: str = ""
    """How the times were measured; empty: there are no measured times."""
    backward_s: float = Field(default=0.0, ge=0, le=_MOST_SECONDS)
    """Duration of the whole backward."""
    gradients: Annotated[tuple[Gradient, ...], FailFast(), Field(max_length=MOST_GRADIENTS)]

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        seen: set[str] = set()
        for gradient in self.gradients:
            if gradient.name in seen:
                raise ValueError(f"two gradients are called {shown(gradient.name)}")
            seen.add(gradient.name)
        return self

    @property
    def elements(self) -> int:
        return sum(gradient.elements for gradient in self.gradients)

    @property
    def bytes(self) -> int:
        return sum(gradient.bytes for gradient in self.gradients)

    def with_backward(self, backward_s: float) -> GradientSet:
        """The same gradients with a backward of `backward_s` seconds; release times are scaled to it."""
        scale = backward_s / self.backward_s if self.backward_s else 0.0
        scaled = (
            one if one.release_s is None else one.model_copy(update={"release_s": one.release_s * scale})
            for one in self.gradients
        )
        return self.model_copy(update={"backward_s": backward_s, "gradients": tuple(scaled)})

    def releases_s(self) -> list[float]:
        """The time at which each gradient is complete; the end of backward for a gradient without measured release."""
        return [self.backward_s if one.release_s is None else one.release_s for one in self.gradients]


def read_gradients(path: str | Path) -> GradientSet:
    """Reads a file: the JSON of this module, the JSON of benchmarks/models, or the original's lines `name,elements`.

    Raises InvalidArgument if the file cannot be read, MalformedFile with the first wrong line or field.
    """
    return parse_gradients(read_text(path), path)


def parse_gradients(text: str, path: str | Path) -> GradientSet:
    """The gradients in the content of a file. Raises MalformedFile, which names `path`."""
    found = _of_json(text, path) if text.lstrip().startswith("{") else _of_lines(text, path)
    if not found.elements:
        raise MalformedFile(f"{path} has no gradient with elements: there is nothing to plan")
    return found


def _of_json(text: str, path: str | Path) -> GradientSet:
    content = read_json(text, str(path))
    return GradientSet.of(_of_shapes(content, path) if "tensors" in content else content, str(path))


def _of_lines(text: str, path: str | Path) -> GradientSet:
    gradients: list[dict[str, str | int]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        name, comma, elements = (word.strip() for word in line.rpartition(","))
        if not comma or not name or not _NUMBER.fullmatch(elements):
            raise MalformedFile(f"{path}, line {number}: expected name,number_of_float32, found {shown(line.strip())}")
        if len(gradients) == MOST_GRADIENTS:
            raise MalformedFile(f"{path}, line {number}: more than {MOST_GRADIENTS} gradients")
        gradients.append({"name": name, "elements": int(elements)})
    content = {"model": Path(path).stem, "gradients": gradients}
    return GradientSet.of(content, str(path))


def _of_shapes(content: dict[str, Any], path: str | Path) -> dict[str, Any]:
    try:
        gradients = [
            {
                "name": name,
                "elements": _elements(shape),
                "shape": shape,
                "release_s": ready_s if content.get("measured") else None,
            }
            for name, shape, ready_s in content["tensors"]
        ]
    except (TypeError, ValueError):
        raise MalformedFile(f"{path}: expected tensors to be [name, shape, seconds] each") from None
    kept = {key: value for key, value in content.items() if key != "tensors"}
    return {**kept, "gradients": gradients}


def _elements(shape: list[int]) -> int:
    if len(shape) > 64 or not all(isinstance(size, int) and 0 <= size <= MOST_ELEMENTS for size in shape):
        raise ValueError("no shape")
    return math.prod(shape)
