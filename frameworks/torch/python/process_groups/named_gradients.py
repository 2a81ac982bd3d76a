# SPDX-License-Identifier: Apache-2.0
"""Which all-reduces of a program are gradients, and of which tensors: an all-reduce itself has no name."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextvars import ContextVar

import torch

from hipress.errors import InvalidArgument
from hipress.torch.process_groups.dtypes import TensorShape


class Named:
    """What the all-reduces within one context are."""

    def __init__(
        self,
        of: str | Mapping[str, TensorShape | Sequence[int]],
        before: Callable[[int], None] | None = None,
        step: Hashable = None,
    ) -> None:
        """`before`: called before their averages, with the number of earlier steps. `step`: what the averages of a step
        have in common; None: the backward pass that runs."""
        self.before = before
        self.step = step
        self._name = of if isinstance(of, str) else None
        self._parts = {} if isinstance(of, str) else dict(of)
        self._calls: dict[int, int] = {}

    def shapes(self, tensor: torch.Tensor, group: int, keeps_states: bool) -> dict[str, TensorShape]:
        """The tensors that this flat tensor consists of, for the next all-reduce of the group with this number.

        `keeps_states`: a codec of the group does. Raises InvalidArgument if they have another number of elements, or if
        nothing says whose state that is.
        """
        call = self._calls[group] = self._calls.get(group, 0) + 1
        if self._name is not None:
            if call > 1 and keeps_states:
                # In another order, tensors of one size would swap their residuals.
                raise InvalidArgument(
                    f"this is all-reduce {call} within gradients('{self._name}'), and error feedback keeps a residual "
                    "under a name, for one tensor: write `with gradients(NAME): dist.all_reduce(tensor, group=group)` "
                    f"for each tensor, with a NAME of its own, such as '{self._name}, bias'"
                )
            name = self._name if call == 1 else f"{self._name}, tensor {call}"
            # Two dimensions: a flat buffer is no vector of biases.
            return {name: TensorShape(tensor.numel(), tensor.dtype, 2)}
        if call > 1:
            raise InvalidArgument(
                f"gradients() has the shapes of the one all-reduce that {_listed(self._parts)} travel in, and this is "
                f"number {call} within it: give each all-reduce a gradients() of its own"
            )
        shapes = {name: _shape(part, tensor, 1) for name, part in self._parts.items()}
        if _is_of_pairs(tensor) and 2 * _count(shapes) == tensor.numel():
            shapes = {name: _shape(part, tensor, 2) for name, part in self._parts.items()}
        if _count(shapes) != tensor.numel():
            raise InvalidArgument(
                f"gradients() has shapes of {_count(shapes)} elements for {_listed(self._parts)}, and the all-reduce "
                f"has {tensor.numel()}: give the shapes of all parts of the tensor, in their order"
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
            this name. Then there is one all-reduce within the context (otherwise InvalidArgument); without error
            feedback there may be several. Or the shapes of the gradients that one flat tensor consists of, by name and
            in their order, for example `{"weight": weight.shape, "bias": bias.shape}`: vectors among them are exact, as
            with `hipress.torch.ddp.compress()`, and a residual follows its gradient into another flat tensor. The
            shapes of a complex tensor are its own.
    """
    return naming(of)


@contextlib.contextmanager
def naming(
    of: str | Mapping[str, TensorShape | Sequence[int]],
    before: Callable[[int], None] | None = None,
    step: Hashable = None,
) -> Iterator[None]:
    """As gradients(); `before`, `step`: as of Named."""
    token = _current.set(Named(of, before, step))
    try:
        yield
    finally:
        _current.reset(token)


def named() -> Named | None:
    """The context that this thread is in; None: its all-reduces are no gradients."""
    return _current.get()


def _shape(part: TensorShape | Sequence[int], tensor: torch.Tensor, reals: int) -> TensorShape:
    """`reals`: real numbers in one element."""
    if isinstance(part, TensorShape):
        return part
    return TensorShape(reals * math.prod(part), tensor.dtype, len(part))


def _is_of_pairs(tensor: torch.Tensor) -> bool:
    """Whether it may be a complex tensor: torch hands it to a group as pairs of real numbers."""
    return tensor.dim() > 0 and tensor.shape[-1] == 2


def _count(shapes: Mapping[str, TensorShape]) -> int:
    return sum(each.count for each in shapes.values())


def _listed(parts: Mapping[str, object]) -> str:
    names = list(parts)
    return f"'{names[0]}'" if len(names) == 1 else f"{len(names)} gradients" if names else "no gradient"
