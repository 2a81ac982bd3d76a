# SPDX-License-Identifier: Apache-2.0
"""The base class of the optimizers' steps: names, agreement, exchanges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress import runtime
from hipress._library import load_core
from hipress.adapter import collectives
from hipress.adapter.agreement import agree
from hipress.errors import InvalidArgument, Unsupported
from hipress.options.travel import MIN_COMPRESS_BYTES

Floats = NDArray[np.float32]
#: Arrays by parameter name.
Arrays = Mapping[str, Floats]


@dataclass(frozen=True)
class Rates:
    """The learning rate and weight decay of one parameter in one step."""

    lr: float
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Parameter:
    """One parameter in one step: float32, row-major. `state` is empty before the first step."""

    value: Floats
    gradient: Floats
    state: Arrays
    rates: Rates


@dataclass(frozen=True)
class Moved:
    """The parameter after the step; the arrays are new."""

    value: Floats
    state: dict[str, Floats]


class Steps:
    """The steps of one optimizer over parameters of these shapes. All ranks make the object at the same time.

    Raises NotInitialized, InvalidArgument; Mismatch, with the first difference, if the ranks' parameters or options
    differ; Timeout if a rank does not make it.
    """

    def __init__(self, kind: str, shapes: Mapping[str, Sequence[int]], described: Mapping[str, str]) -> None:
        self._name = runtime.current().numbered(f"optim.{kind}")
        if not shapes:
            raise InvalidArgument("there are no parameters with a gradient")
        for name, shape in shapes.items():
            if 0 in shape:
                raise InvalidArgument(f"parameter '{name}' has no elements: leave it out")
        self._shapes = {name: tuple(shape) for name, shape in shapes.items()}
        listed = {f"the shape of '{name}'": str(shape) for name, shape in self._shapes.items()}
        # Compare the names first: otherwise a rank that lacks a parameter would compare its shape with nothing.
        names = {"the parameters": str(list(shapes))}
        agree(lambda: {"the optimizer": kind, **names, **listed, **described})

    @property
    def world(self) -> int:
        """The world size."""
        return runtime.size()

    def _average(self, values: Mapping[str, Floats], codecs: Mapping[str, str] | None = None) -> None:
        """Averages in place. Compressed values have other names than exact ones, so exact averages get no residuals."""
        kind = "exact" if codecs is None else "compressed"
        operations = [
            collectives.allreduce(
                each, each, name=f"{self._name}.{kind}.{name}", codec="none" if codecs is None else codecs[name]
            )
            for name, each in values.items()
        ]
        for operation in operations:
            operation.wait()

    def _gather(self, message: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """All ranks' messages, of equal size, as an array of shape [ranks, bytes]."""
        return collectives.allgather(message.reshape(1, -1), name=f"{self._name}.gathered").wait()


def codec_of_each(
    shapes: Mapping[str, Sequence[int]], codec: str, codec_for: Mapping[str, str], min_compress_bytes: int
) -> dict[str, str]:
    """The codec of each parameter, by name; "none" for small parameters. Raises InvalidArgument for an unknown codec or
    parameter name, Unsupported for the codec powersgd, and for codecs whose encoded values ranks add.
    """
    if unknown := sorted(set(codec_for) - set(shapes)):
        raise InvalidArgument(f"codec_for names '{unknown[0]}', which is not one of the {len(shapes)} parameters")
    for text in (codec, *codec_for.values()):
        made = load_core().create_codec(text)
        if made.low_rank is not None or made.summed is not None:
            raise Unsupported(f"codec '{text}' averages gradients, and this optimizer sends other values: use another")
    small = {name for name, shape in shapes.items() if 4 * int(np.prod(shape)) < min_compress_bytes}
    return {name: "none" if name in small else codec_for.get(name, codec) for name in shapes}


def checked_number(name: str, value: Any, low: float, below: float = float("inf")) -> float:
    """Returns `value` as a float. Raises InvalidArgument unless it is a number from `low` to below `below`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value < below:
        top = "" if below == float("inf") else f" to below {below:g}"
        raise InvalidArgument(f"{name}={value!r}: give a number from {low:g}{top or ' on'}")
    return float(value)


__all__ = ["MIN_COMPRESS_BYTES", "Arrays", "Floats", "Moved", "Parameter", "Rates", "Steps", "checked_number"]
