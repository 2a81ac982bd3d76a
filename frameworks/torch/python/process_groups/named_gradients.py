# SPDX-License-Identifier: Apache-2.0
"""Which all-reduces of a program are gradients, and of which tensors: an all-reduce itself has no name."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar

import torch

from hipress.errors import InvalidArgument
from hipress.torch.process_groups.dtypes import TensorShape


class Named:
    """What the all-reduces within one context are."""

    def __init__(
        self, of: str | Mapping[str, TensorShape | Sequence[int]], before: Callable[[int], None] | None = None
    ) -> None:
        """`before`: called before their averages, with the number of earlier steps."""
        self.before = before
        self._name = of if isinstance(of, str) else None
        self._parts = {} if isinstance(of, str) else dict(of)
        self._calls: dict[int, int] = {}

    def shapes(self, tensor: torch.Tensor, group: int) -> dict[str, TensorShape]:
        """The tensors that this flat tensor consists of, for the next all-reduce of the group with this number.

        Raises InvalidArgument if they have another number of elements.
        """
        call = self._calls[group] = self._calls.get(group, 0) + 1
        if self._name is not None:
            name = self._name if call == 1 else f"{self._name}, tensor {call}"
            # Two dimensions: a flat buffer is no vector of biases.
            return {name: TensorShape(tensor.numel(), tensor.dtype, 2)}
        if call > 1:
            raise InvalidArgument(
                f"gradients() has the shapes of the one all-reduce that {_listed(self._parts)} travel in, and this is "
                f"number {call} within it: give each all-reduce a gradients() of its own"
            )
        shapes = {name: _shape(part, tensor) for name, part in self._parts.items()}
        if sum(each.count for each in shapes.values()) != tensor.numel():
            raise InvalidArgument(
                f"gradients() has shapes of {sum(each.count for each in shapes.values())} elements for "
                f"{_listed(self._parts)}, and the all-reduce has {tensor.numel()}: give the shapes of all parts of the "
                "tensor, in their order"
            )
        return shapes


_current: ContextVar[Named | None] = ContextVar("hipress_gradients", default=None)


def gradients(
    of: str | Mapping[str, TensorShape | Sequence[int]],
) -> contextlib._GeneratorContextManager[None]:
    """Within it, all-reduces that this thread starts on groups of the backend "hipress" are gradients: the group
    compresses them. It averages all other tensors exactly.

        with gradients("fragment 3"):
            dist.all_reduce(tensor, group=group)

    Arguments:
        of: the name of the gradient, the same on all ranks and in all steps: error feedback keeps its residual under
            this name. If there are several all-reduces within the context, they are different tensors, and come in
            the same order each time. Or the shapes of the gradients that one flat tensor consists of, by name and in
            their order, for example `{"weight": weight.shape, "bias": bias.shape}`: vectors among them are exact, as
            with `hipress.torch.ddp.compress()`, and a residual follows its gradient into another flat tensor.
    """
    return naming(of)


@contextlib.contextmanager
def naming(
    of: str | Mapping[str, TensorShape | Sequence[int]], before: Callable[[int], None] | None = None
) -> Iterator[None]:
    """As gradients(); `before`: as of Named."""
    token = _current.set(Named(of, before))
    try:
        yield
    finally:
        _current.reset(token)


def named() -> Named | None:
    """The context that this thread is in; None: its all-reduces are no gradients."""
    return _current.get()


def _shape(part: TensorShape | Sequence[int], tensor: torch.Tensor) -> TensorShape:
    if isinstance(part, TensorShape):
        return part
    return TensorShape(math.prod(part), tensor.dtype, len(part))


def _listed(parts: Mapping[str, object]) -> str:
    names = list(parts)
    return f"'{names[0]}'" if len(names) == 1 else f"{len(names)} gradients" if names else "no gradient"
