# SPDX-License-Identifier: Apache-2.0
"""DistributedTrainer: Gluon's Trainer, with gradients synchronised while backward still runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import mxnet as mx
from mxnet.gluon.parameter import Parameter

from hipress import runtime, unfinished
from hipress.adapter.automatic_codec import with_automatic_codec
from hipress.adapter.compression import compressor_of
from hipress.adapter.gradient_options import GradientTravel, for_optimizer, gradient_options
from hipress.adapter.not_copied import NotCopied
from hipress.adapter.planned import PlanArgument, automatic_planning, before_planning, plan_to_set
from hipress.errors import InvalidArgument, Unsupported
from hipress.mxnet import operators
from hipress.mxnet.keyed import KeyedSynchronizer
from hipress.mxnet.loss_scale import loss_scale_of
from hipress.mxnet.options import WORDS, TrainerOptions
from hipress.mxnet.replicas import check_replicas_after, trained
from hipress.mxnet.synchronizer import GradientSynchronizer
from hipress.options.declaration import declared, filled
from hipress.options.signatures import in_order, takes

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hipress.adapter.automatic_codec import AutomaticCodec
    from hipress.secopa.online.automatic import AutomaticPlanning


@takes(TrainerOptions, **WORDS)
class DistributedTrainer(NotCopied, mx.gluon.Trainer):  # type: ignore[misc]
    """A Gluon Trainer that steps on gradients combined over all ranks. The training loop does not change:

        with autograd.record():
            loss = criterion(net(data), label)
        loss.backward()
        trainer.step(batch_size)      # the same on all ranks

    `step()` hands every gradient to MXNet's engine and returns. Each gradient is synchronised as soon as backward has
    computed it, and no parameter changes before all gradients are synchronised. If one fails, no parameter changes, and
    the next call that waits for a value computed from the parameters (`loss.asnumpy()`) raises the error. All ranks
    make the trainer with the same arguments.

    Arguments:
        params: `net.collect_params()`. Their order is their priority on the network: parameters that forward needs
            first come first.
        optimizer: as for Gluon's Trainer, but not a DistributedOptimizer: the trainer already synchronises.
        optimizer_params: as for Gluon's Trainer.
        {options}

    Warns (CodecWarning) of a codec that does not fit the optimizer, such as a codec with error feedback for Adam, and
    says what to use instead; plan="auto" does not choose such codecs.

    Raises InvalidArgument, Unsupported, NotInitialized. The first step raises DuplicateName; Mismatch, with the first
    difference, if the ranks' parameters differ; Timeout if a rank does not take it.
    """

    @in_order(
        "self params optimizer optimizer_params compression gradient_predivide_factor prefix num_groups process_set"
    )
    @takes(TrainerOptions)
    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: Mapping[str, Any] | None = None,
        **options: Unpack[TrainerOptions],
    ) -> None:
        runtime.current()
        given = with_automatic_codec(filled(TrainerOptions, options), _made(optimizer, optimizer_params))
        if getattr(optimizer, "synchronizes_gradients", False):
            raise InvalidArgument("DistributedTrainer takes the plain optimizer: it synchronises gradients itself")
        self._prefix = given["prefix"] or ""
        travel = {name: given[name] for name in declared(GradientTravel)}
        travel["codec_for"] = self._prefixed(given["codec_for"])
        compression, plan = given["compression"], given["plan"]
        self._options = gradient_options(
            **travel,
            compression=compression,
            gradient_predivide_factor=given["gradient_predivide_factor"],
            op=given["op"],
            process_set=given["process_set"],
        )
        compressor = compressor_of(compression)
        #: Synchronises the gradients with a Compressor, by name; None: there is no Compressor.
        self._compressed = None if compressor is None else KeyedSynchronizer(self._options, compressor, in_order=True)
        self._plan: PlanArgument = plan
        self._planning: AutomaticPlanning | AutomaticCodec | None = None
        self._step_ended = 0.0
        self._sparse_as_dense = given["sparse_as_dense"]
        self._synchronizer: GradientSynchronizer | None = None
        self._ignore_stale = False
        self._steps = 0
        self._updates = 0
        # Gluon's Trainer would sort by name, and "conv10" would come before "conv2".
        ordered = list(params.values() if isinstance(params, Mapping | mx.gluon.ParameterDict) else params)
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        self._options = for_optimizer(self._options, self._optimizer, plan)
        self._ordered: list[Parameter] = ordered
        self._check_parameters()

    def step(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """Updates the parameters once from combined gradients, divided by `batch_size`, which is the same on all ranks.

        With an average the step is that of one process over the joined batch if `batch_size` is the mean of the ranks'
        numbers of rows. If ranks give different numbers, all get a Mismatch.

        With `ignore_stale_grad`, a gradient that backward has not computed since the last step counts as zeros if
        another rank has computed it; if no rank has computed it, the parameter does not change. Only this option makes
        step() wait for the other ranks.
        """
        self._ignore_stale = ignore_stale_grad
        try:
            super().step(batch_size, ignore_stale_grad)
        finally:
            self._ignore_stale = False
        self._steps += 1
        began, self._step_ended = self._step_ended, time.perf_counter()
        if self._planning is not None and self._steps > 1:
            self._planning.step_ended(self._step_ended - began)

    def __reduce__(self) -> tuple[Any, ...]:
        raise Unsupported(
            "a DistributedTrainer cannot be pickled: save the parameters with net.save_parameters() and the optimizer "
            "with trainer.save_states()"
        )

    def set_codec(self, codec: str, codec_for: Mapping[str, str] | None = None) -> None:
        """Replaces the codecs of all gradients from the next step on.

        Every rank calls it between the same steps; it waits until the last step has ended. It replaces both `codec` and
        `codec_for` of DistributedTrainer. If the old and the new codec have a state of the same name, the new codec
        goes on with its values: residuals survive when a ratio falls, or when onebit becomes graddrop. A residual that
        the new codec does not have is added to the next gradient; momentum that the new codec does not have (dgc's
        velocity) is lost.

        Raises InvalidArgument; Mismatch if the ranks' codecs differ (the old codecs stay); Timeout if a rank does not
        call it.
        """
        self._check_codecs("set_codec")
        self._wait_for_gradients()
        self._planning = None
        self._agreed().set_codec(codec, self._prefixed(codec_for))

    def set_plan(self, plan: PlanArgument) -> None:
        """Follows the plan from the next step on; None: gradients travel as without a plan.

        Every rank calls it between the same steps, with the same plan: a file or a hipress.secopa Plan; it waits until
        the last step has ended. No residual is lost, even if another rank or no rank encodes a gradient from now on;
        momentum (dgc's velocity) is lost where another rank encodes.

        Raises InvalidArgument with the first difference between plan and parameters; Mismatch if the ranks' plans
        differ (the old plan stays); Timeout if a rank does not call it.
        """
        self._check_codecs("set_plan")
        self._wait_for_gradients()
        self._planning = None
        self._agreed().set_plan(plan_to_set(plan))

    def between_steps(self, doing: str) -> GradientSynchronizer:
        """Waits for the last step and returns the list of gradients. Raises InvalidArgument for unknown shapes."""
        for parameter in self._ordered:
            if parameter.shape is None or (0 in parameter.shape and parameter._deferred_init):
                raise InvalidArgument(
                    f"{doing}(): parameter '{parameter.name}' has no shape yet: let the net see a batch first"
                )
        self._wait_for_gradients()
        return self._agreed()

    def _check_codecs(self, doing: str) -> None:
        if self._compressed is not None:
            raise InvalidArgument(
                f"{doing}(): every gradient travels as compression= makes it; give DistributedTrainer codec= or plan= "
                "instead"
            )

    def _wait_for_gradients(self) -> None:
        for parameter in self._ordered:
            if parameter.grad_req != "null":
                parameter.grad().wait_to_read()

    def _prefixed(self, codec_for: Mapping[str, str] | None) -> dict[str, str]:
        return {self._prefix + name: codec for name, codec in (codec_for or {}).items()}

    def _check_parameters(self) -> None:
        for parameter in self._ordered:
            contexts = parameter.list_ctx()
            if len(contexts) > 1:
                raise Unsupported(
                    f"parameter '{parameter.name}' is on {len(contexts)} devices; HiPress trains one process per "
                    "device: start one rank for each"
                )
            if parameter._grad_stype != "default" and not self._sparse_as_dense:
                raise InvalidArgument(
                    f"the gradient of parameter '{parameter.name}' is sparse ({parameter._grad_stype}); give "
                    "DistributedTrainer sparse_as_dense=True, or use a layer with sparse_grad=False"
                )

    def _agreed(self) -> GradientSynchronizer:
        """The list of gradients. Its first call agrees on the list with the other ranks, when all shapes are known."""
        if self._synchronizer is None:
            described = [
                operators.describe(
                    self._prefix + each.name, each.shape, each.dtype, has_gradient=each.grad_req != "null"
                )
                for each in self._ordered
            ]
            self._synchronizer = GradientSynchronizer(described, before_planning(self._plan, self._options))
            self._planning = automatic_planning(
                self._plan, self._synchronizer, self._options, settle=self._wait_for_gradients
            )
        return self._synchronizer

    def _allreduce_grads(self) -> None:
        synchronizer = self._agreed()
        indices = [index for index, parameter in enumerate(self._ordered) if parameter.grad_req != "null"]
        synchronizer.check_groups(indices)
        absent: list[int] = []
        if self._ignore_stale:
            indices, absent = self._without_stale(indices)
        gradients = {index: self._ordered[index].list_grad()[0] for index in indices}
        sparse = {index: gradient for index, gradient in gradients.items() if gradient.stype != "default"}
        gradients.update({index: gradient.tostype("default") for index, gradient in sparse.items()})
        factor = self._optimizer.rescale_grad
        scale = loss_scale_of(self)
        if scale != synchronizer.loss_scale:
            self._wait_for_gradients()  # only then MXNet has ended the last step
            synchronizer.set_loss_scale(scale)
        if self._compressed is None:
            synchronizer.synchronize(gradients, absent, updates=self._updates, factor=factor)
        else:
            for index in absent:
                gradients[index][:] = 0
            named = {synchronizer.name(index): each for index, each in gradients.items()}
            self._compressed.synchronize(named, factor)
        for index, gradient in sparse.items():
            gradients[index].tostype(gradient.stype).copyto(gradient)

    def _update(self, ignore_stale_grad: bool = False) -> None:
        try:
            super()._update(ignore_stale_grad)
        except BaseException as error:
            unfinished.update_raised(runtime.current(), error, f"update {self._updates} of the parameters")
            raise
        self._updates += 1
        check_replicas_after(self._updates, trained(self._ordered), self._options.process_set)

    def _without_stale(self, indices: list[int]) -> tuple[list[int], list[int]]:
        """The parameters for which any rank has a new gradient, and those among them for which this rank has none."""
        data = {index: self._ordered[index].data() for index in indices}
        own = bytes(data[index]._fresh_grad for index in indices)
        gathered = self._agreed().gather("fresh gradients", own)
        fresh = {index for place, index in enumerate(indices) if any(ranks[place] for ranks in gathered)}
        # If one member of a group has a new gradient, the whole group travels. No rank updates its other members.
        groups = {self._agreed().group(index) for index in fresh} - {None}
        travel = [index for index in indices if index in fresh or self._agreed().group(index) in groups]
        absent = [index for index in travel if not data[index]._fresh_grad]
        for index in fresh:
            data[index]._fresh_grad = True
        return travel, absent


def _made(optimizer: Any, optimizer_params: Mapping[str, Any] | None) -> Any:
    """The optimizer that Gluon's Trainer makes of these arguments."""
    return mx.optimizer.create(optimizer, **(optimizer_params or {})) if isinstance(optimizer, str) else optimizer
