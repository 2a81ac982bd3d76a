# SPDX-License-Identifier: Apache-2.0
"""The operators of compressed collectives, with what torch.compile and torch.export need to trace them:

    hipress::all_reduce(Tensor input, str reduce_op, str group_name, str[] names, int[] counts, int[] dimensions)
    hipress::reduce_scatter(Tensor input, str reduce_op, int group_size, str group_name, str name)
    hipress::all_gather(Tensor input, int group_size, str group_name, str name)

Each leaves its input as it is, starts the work and returns the tensor that wait_tensor() of torch's functional
collectives completes. `names`, `counts`, `dimensions`: the gradients that the input consists of, one behind the other,
with their elements and numbers of dimensions. No operator has a derivative. A pass after functionalisation may use
`hipress::all_reduce_`, which averages in the memory of its input.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch

from hipress.errors import InvalidArgument, Unsupported
from hipress.torch.compiled.groups import running_group
from hipress.torch.process_groups.dtypes import TensorShape

_library = torch.library.Library("hipress", "FRAGMENT")


def _parts(
    given: torch.Tensor, names: Sequence[str], counts: Sequence[int], dimensions: Sequence[int]
) -> dict[str, TensorShape]:
    if not len(names) == len(counts) == len(dimensions) or sum(counts) != given.numel():
        raise InvalidArgument(
            f"hipress::all_reduce got {len(names)} names, {len(counts)} counts and {len(dimensions)} numbers of "
            f"dimensions for {given.numel()} elements: give one of each for every gradient, and counts that add up to "
            "the elements"
        )
    parts = {
        name: TensorShape(count, given.dtype, dimension)
        for name, count, dimension in zip(names, counts, dimensions, strict=True)
    }
    if len(parts) != len(names):
        raise InvalidArgument(f"hipress::all_reduce got a name twice: {', '.join(names)}; each gradient has its own")
    return parts


def _all_reduce(given: torch.Tensor, reduce_op: str, group_name: str, *parts: Any) -> torch.Tensor:
    return running_group(group_name).all_reduce(given, reduce_op, _parts(given, *parts))


def _all_reduce_in_place(given: torch.Tensor, reduce_op: str, group_name: str, *parts: Any) -> None:
    running_group(group_name).all_reduce_in_place(given, reduce_op, _parts(given, *parts))


def _reduce_scatter(given: torch.Tensor, reduce_op: str, group_size: int, group_name: str, name: str) -> torch.Tensor:
    return running_group(group_name).reduce_scatter(given, reduce_op, group_size, group_name, name)


def _all_gather(given: torch.Tensor, group_size: int, group_name: str, name: str) -> torch.Tensor:
    return running_group(group_name).all_gather(given, group_size, group_name, name)


def _reduced(given: torch.Tensor, *arguments: Any) -> torch.Tensor:
    return torch.empty_like(given, memory_format=torch.contiguous_format)


def _scattered(given: torch.Tensor, _op: str, group_size: int, *arguments: Any) -> torch.Tensor:
    return given.new_empty((given.shape[0] // group_size, *given.shape[1:]))


def _gathered(given: torch.Tensor, group_size: int, *arguments: Any) -> torch.Tensor:
    return given.new_empty((given.shape[0] * group_size, *given.shape[1:]))


def _nothing(*arguments: Any) -> None:
    return None


def _no_derivative(name: str) -> Callable[..., NoReturn]:
    def backward(_context: Any, *_gradients: Any) -> NoReturn:
        raise Unsupported(
            f"hipress::{name} has no derivative: it is for gradients, after backward, or for a graph whose backward "
            "pass is traced already, as compress_graph() takes it"
        )

    return backward


def _define(name: str, schema: str, kernel: Callable[..., Any], fake: Callable[..., Any]) -> None:
    _library.define(f"{name}{schema} -> Tensor", tags=[torch.Tag.pt2_compliant_tag])
    _library.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"hipress::{name}", fake, lib=_library)
    torch.library.register_autograd(f"hipress::{name}", _no_derivative(name), lib=_library)


_define(
    "all_reduce",
    "(Tensor input, str reduce_op, str group_name, str[] names, int[] counts, int[] dimensions)",
    _all_reduce,
    _reduced,
)
_define(
    "reduce_scatter",
    "(Tensor input, str reduce_op, int group_size, str group_name, str name)",
    _reduce_scatter,
    _scattered,
)
_define("all_gather", "(Tensor input, int group_size, str group_name, str name)", _all_gather, _gathered)

_library.define(
    "all_reduce_(Tensor(a!) input, str reduce_op, str group_name, str[] names, int[] counts, int[] dimensions) -> ()",
    tags=[torch.Tag.pt2_compliant_tag],
)
_library.impl("all_reduce_", _all_reduce_in_place, "CompositeExplicitAutograd")
torch.library.register_fake("hipress::all_reduce_", _nothing, lib=_library)
