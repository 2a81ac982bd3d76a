# SPDX-License-Identifier: Apache-2.0
"""The options of the distributed optimizers of all frameworks, declared and checked in one place.

Not `from __future__ import annotations`: hipress.options.declaration reads these at run time. In the texts,
"{parameter}" stands for the framework's word for tensors that have gradients. Each framework gives the other words in
braces, too.
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypedDict

from hipress.adapter.automatic_codec import check_no_accuracy, refuse_automatic_codec
from hipress.adapter.codec_advice import CodecAdvice
from hipress.adapter.compression import Compressing, NoneCompressor, codec_of, compressor_of
from hipress.adapter.optim.optimizer_traits import traits_of
from hipress.adapter.planned import PlanArgument, is_automatic, plan_of, warn_of_codecs
from hipress.adapter.process_sets import ProcessSet, check_all_ranks, global_process_set, of_gradients
from hipress.adapter.reduce_ops import Average, ReduceOp, Sum
from hipress.adapter.synchronizer import SynchronizationOptions
from hipress.errors import InvalidArgument
from hipress.options.declaration import Option, declared, filled
from hipress.options.travel import AccuracyOptions, TravelOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack


class GradientTravel(TravelOptions, AccuracyOptions, total=False):
    """The options that HiPress adds to Horovod's arguments: how gradients travel."""

    plan: Annotated[
        PlanArgument,
        Option(
            "How the gradient of each {parameter}{plan_names} travels, in place of codec, topology, partitions, "
            "min_compress_bytes and codec_for: a file from `hipress plan` (a file with lines `name,size,y|n,K` also "
            "needs `codec` and `topology`), or a hipress.secopa Plan. `set_plan()` changes it later. "
            '"auto": in the first steps gradients travel without a codec. Then all ranks measure their links and '
            "`codec`, and rank 0 plans for each {parameter} whether `codec` pays, and which topology its gradient "
            "takes. If steps take longer later, rank 0 makes another plan. The logger "
            '"hipress.plan" says so on rank 0.{plan_needs} hipress.secopa.online.automatic.AutomaticOptions in place '
            'of "auto" allow several codecs, and set how often to measure.',
            default=None,
        ),
    ]


class HorovodOptions(TypedDict, total=False):
    """Horovod's arguments that the distributed optimizers of all frameworks take."""

    compression: Annotated[
        Compressing,
        Option(
            'Horovod\'s: Compression.fp16 is codec="fp16". A Compressor of your own replaces codecs and plans: its '
            "compress() makes the values that travel.",
            default=NoneCompressor,
        ),
    ]
    op: Annotated[ReduceOp, Option("Average or Sum.", default=Average)]
    gradient_predivide_factor: Annotated[
        float,
        Option(
            "A factor f splits averaging: gradients are divided by f before they are summed, and the sum is multiplied "
            "by f / size() afterwards.",
            default=1.0,
            above=0,
        ),
    ]
    num_groups: Annotated[
        int,
        Option(
            "Horovod's; it changes nothing, because HiPress bundles small messages to one rank.",
            default=0,
            at_least=0,
        ),
    ]
    process_set: Annotated[
        ProcessSet,
        Option(
            "The ranks that combine their gradients, from add_process_set(). A rank that is not in it trains alone.",
            default=global_process_set,
        ),
    ]


class GradientOptions(GradientTravel, HorovodOptions, total=False):
    """The options of every distributed optimizer; each framework's own class adds some."""


def gradient_options(
    *,
    compression: Compressing = NoneCompressor,
    gradient_predivide_factor: float = 1.0,
    op: ReduceOp = Average,
    optimizer: Any = None,
    process_set: ProcessSet = global_process_set,
    **travel: "Unpack[GradientTravel]",
) -> SynchronizationOptions:
    """Checks the options and returns those of a TensorList. Raises InvalidArgument, also if the plan cannot be read.

    `optimizer`: an optimizer of any framework; CodecWarning names the codecs that do not fit it. None: unknown.
    """
    how = filled(GradientTravel, travel)
    if op not in (Average, Sum):
        raise InvalidArgument(f"op={op!r}: choose Average or Sum")
    if gradient_predivide_factor != 1.0 and op != Average:
        raise InvalidArgument("gradient_predivide_factor goes with op=Average only")
    declared(HorovodOptions)["gradient_predivide_factor"].check(gradient_predivide_factor)
    plan = how["plan"]
    refuse_automatic_codec(how["codec"])
    check_no_accuracy(how["accuracy"])
    codec = codec_of(compression, how["codec"])
    if compressor_of(compression) is not None and (plan is not None or how["codec_for"]):
        raise InvalidArgument(
            f"compression={compression!r} decides how each gradient travels: give it without plan and codec_for"
        )
    ranks = of_gradients(process_set)
    if is_automatic(plan):
        check_all_ranks(process_set, 'plan="auto" or codec="auto"')
    options = SynchronizationOptions(
        codec=codec,
        topology=how["topology"],
        partitions=how["partitions"],
        min_compress_bytes=how["min_compress_bytes"],
        op=op,
        prescale_factor=1.0 / gradient_predivide_factor,
        postscale_factor=gradient_predivide_factor,
        codec_for=dict(how["codec_for"] or {}),
        process_set=ranks,
        plan=plan_of(plan, codec, how["topology"], ranks.size()),
    )
    return options if optimizer is None else for_optimizer(options, optimizer, plan)


def for_optimizer(options: SynchronizationOptions, optimizer: Any, plan: PlanArgument) -> SynchronizationOptions:
    """`options` with the optimizer's traits; warns of the codecs that do not fit the optimizer."""
    options = replace(options, advice=CodecAdvice(traits_of(optimizer)))
    warn_of_codecs(plan, options)
    return options
