# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer: any torch optimizer, with gradients synchronised while backward still runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from hipress.adapter import reduce_ops
from hipress.adapter.automatic_codec import with_automatic_codec
from hipress.adapter.compression import compressor_of
from hipress.adapter.gradient_options import GradientTravel, gradient_options
from hipress.adapter.lists.restarting import waits_for_world
from hipress.adapter.planned import automatic_planning, before_planning
from hipress.adapter.synchronizer import SynchronizationOptions
from hipress.adapter.warming_up import WarmingUp
from hipress.errors import DuplicateName, InvalidArgument
from hipress.options.declaration import declared, filled
from hipress.options.signatures import in_order, takes
from hipress.options.warmup import warmup_of
from hipress.torch.backward import BackwardSynchronization
from hipress.torch.distributed_optimizer import DistributedTorchOptimizer, made_distributed
from hipress.torch.optim.synchronizing import SynchronizingOptimizer
from hipress.torch.options import WORDS, TorchOptions
from hipress.torch.scaling.loss_scale import LossScale
from hipress.torch.synchronizer import GradientSynchronizer

if TYPE_CHECKING:
    from typing_extensions import Unpack


def _named(
    optimizer: torch.optim.Optimizer, named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None
) -> list[tuple[str, torch.nn.Parameter]]:
    """The optimizer's parameters with names, in the order given. Raises InvalidArgument."""
    of_optimizer = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    if named_parameters is None:
        # These are Horovod's names.
        return [
            (f"allreduce.noname.{group}.{index}", parameter)
            for group, options in enumerate(optimizer.param_groups)
            for index, parameter in enumerate(options["params"])
        ]
    pairs = list(named_parameters)
    if any(not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs):
        raise InvalidArgument("named_parameters takes (name, parameter) pairs, such as model.named_parameters()")
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    if twice:
        raise DuplicateName(f"two parameters are called '{twice[0]}'; give every parameter its own name")
    wanted = {id(parameter) for parameter in of_optimizer}
    named = [(name, parameter) for name, parameter in pairs if id(parameter) in wanted]
    missing = wanted - {id(parameter) for _, parameter in named}
    if missing:
        shapes = [tuple(parameter.shape) for parameter in of_optimizer if id(parameter) in missing]
        raise InvalidArgument(
            f"{len(missing)} of the optimizer's parameters have no name (the first has shape {shapes[0]}); "
            "pass the named_parameters() of the whole model"
        )
    return named


def _check_groups(groups: int | Sequence[Sequence[torch.Tensor]] | None) -> None:
    """Groups change nothing, but wrong ones are an error of the script, as in Horovod. Raises InvalidArgument."""
    if groups is None or isinstance(groups, int):
        return
    if isinstance(groups, str) or not isinstance(groups, Sequence):
        raise InvalidArgument(f"groups={groups!r}: give a number of groups, or lists of parameters")
    members = [member for group in groups for member in group]
    if not all(isinstance(member, torch.Tensor) for member in members):
        raise InvalidArgument("groups has lists of parameters, and one has something that is not a tensor")
    if len({id(member) for member in members}) < len(members):
        raise InvalidArgument("groups has a parameter twice: a parameter is in one group")


def _warming_up(given: Mapping[str, Any], combining: SynchronizationOptions) -> WarmingUp | None:
    warmup = warmup_of(given["warmup"])
    if warmup is None:
        return None
    if given["plan"] is not None or compressor_of(given["compression"]) is not None:
        raise InvalidArgument("a warm-up goes with codec and codec_for: give it without plan and compression")
    return WarmingUp(warmup, combining)


@in_order(
    "optimizer named_parameters compression backward_passes_per_step op gradient_predivide_factor num_groups groups "
    "sparse_as_dense process_set"
)
@takes(TorchOptions, **WORDS)
def DistributedOptimizer(  # noqa: N802  (Horovod's name)
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
    **options: Unpack[TorchOptions],
) -> DistributedTorchOptimizer:
    """Makes `optimizer` step on gradients combined over all ranks; returns it, now also of a distributed class.

    A hook submits each gradient as soon as backward has produced it, so synchronisation overlaps the rest of backward.
    When `backward()` returns, every `.grad` holds the combined gradient: clipping and GradScaler need no special recipe
    (Horovod's recipe with `synchronize()` and `skip_synchronize()` works, too). If a rank did not use a parameter in a
    step, its gradient counts as zeros; if no rank used it, its `.grad` stays as it is.

    Every rank calls it with the same arguments, and calls `backward()` the same number of times between steps.

    Arguments:
        optimizer: any torch optimizer.
        named_parameters: `model.named_parameters()`; the names appear in errors and traces, and codec states have them
            as keys.
        {options}

    Warns (CodecWarning) of a codec that does not fit the optimizer, such as a codec with error feedback for Adam, and
    says what to use instead; plan="auto" does not choose such codecs.

    Raises InvalidArgument, Unsupported, DuplicateName; Mismatch with the first difference if the ranks' parameters
    differ; Timeout if a rank does not call it; NotInitialized.
    """
    given = with_automatic_codec(filled(TorchOptions, options), optimizer)
    if isinstance(optimizer, DistributedTorchOptimizer):
        raise InvalidArgument("this optimizer is distributed already; wrap it once")
    if isinstance(optimizer, SynchronizingOptimizer):
        raise InvalidArgument(
            f"{type(optimizer).__name__} exchanges values with all ranks itself: use it without DistributedOptimizer"
        )
    named = _named(optimizer, named_parameters)
    _check_groups(given["groups"])
    combining = gradient_options(
        **{name: given[name] for name in declared(GradientTravel)},
        compression=given["compression"],
        op=reduce_ops.chosen(given["op"]),
        gradient_predivide_factor=given["gradient_predivide_factor"],
        optimizer=optimizer,
        process_set=given["process_set"],
    )
    warming_up = _warming_up(given, combining)
    scaling = LossScale(given["scaler"], "hipress.torch.DistributedOptimizer(optimizer, ..., scaler=scaler)")
    before = before_planning(given["plan"], combining)
    synchronizer = GradientSynchronizer(named, before, warming_up, scaler=scaling, waits=waits_for_world())
    synchronization = BackwardSynchronization(
        synchronizer,
        named,
        passes=given["backward_passes_per_step"],
        sparse_as_dense=given["sparse_as_dense"],
        compressor=compressor_of(given["compression"]),
        takes_sparse_only=isinstance(optimizer, torch.optim.SparseAdam),
    )
    synchronization.make_planning = partial(automatic_planning, given["plan"], synchronizer, combining)
    if not waits_for_world():
        synchronization.plan()
    return made_distributed(optimizer, synchronization)
