# SPDX-License-Identifier: Apache-2.0
"""The argument `plan` of every distributed optimizer."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from hipress import runtime
from hipress._library import load_core
from hipress.errors import InvalidArgument, Unsupported

if TYPE_CHECKING:
    from hipress.adapter.automatic_codec import AutomaticCodec, AutomaticCodecs
    from hipress.adapter.lists.description import TensorDescription
    from hipress.adapter.synchronizer import SynchronizationOptions, TensorList
    from hipress.secopa.online.automatic import AutomaticOptions, AutomaticPlanning
    from hipress.secopa.plan.plan import Plan

#: A plan or its file; or "auto" or options for automatic plans, which ranks make during training; None: no plan.
#: AutomaticCodecs is for codec="auto".
PlanArgument: TypeAlias = "Plan | str | os.PathLike[str] | AutomaticOptions | AutomaticCodecs | None"

_AUTO = "auto"


def plan_of(argument: PlanArgument, codec: str = "none", topology: str = "ps", world: int | None = None) -> Plan | None:
    """The plan; None if there is none or if it is automatic. Files in the original's format do not have `codec`,
    `topology` and `world`, the number of ranks; None: the engine's.

    Raises InvalidArgument if the file cannot be read or is no plan.
    """
    if argument is None or is_automatic(argument):
        return None
    from hipress.secopa.plan.plan import Plan
    from hipress.secopa.plan.text_format import TextPlanOptions, read_plan

    if isinstance(argument, Plan):
        return argument
    if not isinstance(argument, str | os.PathLike):
        raise InvalidArgument(
            f'plan={argument!r}: give "auto", a file that `hipress plan` has written, or a hipress.secopa Plan'
        )
    ranks = runtime.size() if codec != "none" and world is None else world
    said = TextPlanOptions(codec, ranks, topology) if codec != "none" and ranks is not None else None
    return read_plan(os.fspath(argument), said)


def is_automatic(argument: PlanArgument) -> bool:
    """Whether the argument asks for automatic plans, which ranks make during training."""
    if argument == _AUTO:
        return True
    if argument is None or isinstance(argument, str | os.PathLike):
        return False
    from hipress.adapter.automatic_codec import AutomaticCodecs
    from hipress.secopa.online.automatic import AutomaticOptions

    return isinstance(argument, AutomaticOptions | AutomaticCodecs)


def plan_to_set(argument: PlanArgument) -> Plan | None:
    """The plan of a call of set_plan(). Raises InvalidArgument for an automatic one."""
    if is_automatic(argument):
        raise InvalidArgument('set_plan() takes a plan; give plan="auto" to the distributed optimizer')
    return plan_of(argument)


def before_planning(argument: PlanArgument, options: SynchronizationOptions) -> SynchronizationOptions:
    """The options with which a list of tensors begins. Before an automatic plan tensors travel raw."""
    return replace(options, codec="none", codec_for={}) if argument is not None and _plans(argument) else options


def warn_of_codecs(argument: PlanArgument, options: SynchronizationOptions) -> None:
    """Warns of the codecs that do not fit the optimizer; automatic plans leave these codecs out."""
    if argument is not None and _plans(argument):
        asked = _asked(argument, options)
        for_some = [codec for _, codecs in asked.codecs_for for codec in codecs]
        options.advice.warn([*asked.codecs, *for_some], left_out=True)
    else:
        options.advice.warn(options.codecs())


def automatic_planning(
    argument: PlanArgument,
    tensors: TensorList,
    options: SynchronizationOptions,
    may_group: Callable[[], bool] = lambda: True,
    settle: Callable[[], None] = lambda: None,
) -> AutomaticPlanning | AutomaticCodec | None:
    """The automatic planning for `tensors`; None if `argument` asks for none. With "auto" it chooses among the codecs
    of `options`. It leaves out codecs that do not fit the optimizer, because a plan must do no harm. With
    AutomaticCodecs there is one codec for all.

    `may_group`, `settle`: as for AutomaticPlanning.

    Raises Unsupported for tensors on GPUs, and for a codec that these ranks cannot have.
    """
    if argument is None or not is_automatic(argument):
        return None
    from hipress.adapter.automatic_codec import AutomaticCodec, AutomaticCodecs
    from hipress.secopa.online.automatic import AutomaticPlanning

    if isinstance(argument, AutomaticCodecs):
        return AutomaticCodec(tensors, argument, settle)

    asked, advice = _asked(argument, options), options.advice
    _check_devices(tensors.tensors)
    _check_ranks(asked)
    asked = replace(
        asked,
        codecs=advice.without_objection(asked.codecs),
        codecs_for=tuple((names, advice.without_objection(codecs)) for names, codecs in asked.codecs_for),
    )
    return AutomaticPlanning(runtime.current().engine, tensors, asked, may_group, settle)


def _plans(argument: PlanArgument) -> bool:
    """Whether each tensor gets a choice of its own."""
    from hipress.adapter.automatic_codec import AutomaticCodecs

    return is_automatic(argument) and not isinstance(argument, AutomaticCodecs)


def _asked(argument: PlanArgument, options: SynchronizationOptions) -> AutomaticOptions:
    from hipress.secopa.online.automatic import AutomaticOptions

    return argument if isinstance(argument, AutomaticOptions) else _automatic_options(options)


def _check_devices(tensors: Sequence[TensorDescription]) -> None:
    """Raises Unsupported for a tensor that is not in host memory: the profile has the times of the processor."""
    for each in tensors:
        if each.device is not None:
            raise Unsupported(
                f"automatic plans measure codecs on the processor, and '{each.name}' is on a GPU, where codecs take "
                "other times: give codec= or a plan file in place of the automatic plan"
            )


def _check_ranks(asked: AutomaticOptions) -> None:
    """Raises InvalidArgument for a codec that so many ranks cannot have."""
    from hipress.secopa.online.measure.measured_profile import check_ranks

    for codec in (*asked.codecs, *(codec for _, codecs in asked.codecs_for for codec in codecs)):
        check_ranks(codec, load_core().create_codec(codec), runtime.size())


def _automatic_options(options: SynchronizationOptions) -> AutomaticOptions:
    from hipress.secopa.online.automatic import AutomaticOptions

    return AutomaticOptions(
        codecs=_beside_none(options.codec),
        codecs_for=tuple((glob.escape(name), _beside_none(codec)) for name, codec in options.codec_for.items()),
        min_compress_bytes=options.min_compress_bytes,
        compute_threads=runtime.current().options.compute_threads,
    )


def _beside_none(codec: str) -> tuple[str, ...]:
    return () if codec == "none" else (codec,)
