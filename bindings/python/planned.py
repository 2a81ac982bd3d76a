# SPDX-License-Identifier: Apache-2.0
"""The argument `plan` of every distributed optimizer."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from hipress import runtime
from hipress.errors import InvalidArgument

if TYPE_CHECKING:
    from hipress.secopa.automatic import AutomaticOptions, AutomaticPlanning
    from hipress.secopa.plan import Plan
    from hipress.synchronizer import SynchronizationOptions, TensorList

#: A plan, or the file that it is in; "auto", or options for that: made from what the first steps show; None: none.
PlanArgument: TypeAlias = "Plan | str | os.PathLike[str] | AutomaticOptions | None"

_AUTO = "auto"


def plan_of(argument: PlanArgument, codec: str = "none", topology: str = "ps") -> Plan | None:
    """None if it is automatic, too. `codec` and `topology` are of files that do not say them: the original's lines.

    Raises InvalidArgument if the file cannot be read or is no plan.
    """
    if argument is None or is_automatic(argument):
        return None
    from hipress.secopa.plan import Plan
    from hipress.secopa.text_plan import TextPlanOptions, read_plan

    if isinstance(argument, Plan):
        return argument
    if not isinstance(argument, str | os.PathLike):
        raise InvalidArgument(
            f'plan={argument!r}: give "auto", a file that `hipress plan` has written, or a hipress.secopa Plan'
        )
    said = TextPlanOptions(codec, runtime.size(), topology) if codec != "none" else None
    return read_plan(os.fspath(argument), said)


def is_automatic(argument: PlanArgument) -> bool:
    """Whether it asks for plans that are made in training."""
    if argument == _AUTO:
        return True
    if argument is None or isinstance(argument, str | os.PathLike):
        return False
    from hipress.secopa.automatic import AutomaticOptions

    return isinstance(argument, AutomaticOptions)


def plan_to_set(argument: PlanArgument) -> Plan | None:
    """Of set_plan(). Raises InvalidArgument."""
    if is_automatic(argument):
        raise InvalidArgument("automatic plans are an argument of the distributed optimizer; set_plan() takes a plan")
    return plan_of(argument)


def before_planning(argument: PlanArgument, options: SynchronizationOptions) -> SynchronizationOptions:
    """With which a list of tensors begins: before an automatic plan they travel as they are, to be measured."""
    return replace(options, codec="none", codec_for={}) if is_automatic(argument) else options


def automatic_planning(
    argument: PlanArgument,
    tensors: TensorList,
    options: SynchronizationOptions,
    may_group: Callable[[], bool] = lambda: True,
    settle: Callable[[], None] = lambda: None,
) -> AutomaticPlanning | None:
    """What plans for `tensors`; None unless it is to be automatic. Of "auto" the codecs are those of `options`.

    `may_group`, `settle`: as of AutomaticPlanning.
    """
    if argument is None or not is_automatic(argument):
        return None
    from hipress.secopa.automatic import AutomaticOptions, AutomaticPlanning

    asked = argument if isinstance(argument, AutomaticOptions) else _automatic_options(options)
    return AutomaticPlanning(runtime.current().engine, tensors, asked, may_group, settle)


def _automatic_options(options: SynchronizationOptions) -> AutomaticOptions:
    from hipress.secopa.automatic import AutomaticOptions

    return AutomaticOptions(
        codecs=_beside_none(options.codec),
        codecs_for=tuple((glob.escape(name), _beside_none(codec)) for name, codec in options.codec_for.items()),
        min_compress_bytes=options.min_compress_bytes,
        compute_threads=runtime.current().options.compute_threads,
    )


def _beside_none(codec: str) -> tuple[str, ...]:
    return () if codec == "none" else (codec,)
