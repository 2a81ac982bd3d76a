# SPDX-License-Identifier: Apache-2.0
"""DistributedTrainer: Gluon's Trainer, with gradients synchronised while backward still runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import mxnet as mx
from mxnet.gluon.parameter import Parameter

from hipress import process_sets, runtime
from hipress.compression import Compression
from hipress.errors import InvalidArgument, Unsupported
from hipress.gradient_options import gradient_options
from hipress.mxnet import operators
from hipress.mxnet.synchronizer import GradientSynchronizer
from hipress.planned import PlanArgument, automatic_planning, before_planning, plan_to_set
from hipress.process_sets import ProcessSet, global_process_set
from hipress.reduce_ops import Average, ReduceOp
from hipress.replicas import check_replicas

if TYPE_CHECKING:
    from hipress.secopa.automatic import AutomaticPlanning


class DistributedTrainer(mx.gluon.Trainer):  # type: ignore[misc]
    """Steps on gradients combined over all ranks. The loop stays as it is:

        with autograd.record():
            loss = criterion(net(data), label)
        loss.backward()
        trainer.step(batch_size)      # of this rank

    `step()` hands every gradient to MXNet's engine and returns: each is synchronised as soon as backward has computed
    it, and no parameter changes before all are there. If one fails, none changes, and whatever waits next for something
    computed from the parameters (`loss.asnumpy()`) raises the reason. Every rank makes it with the same arguments.

    Arguments:
        params: `net.collect_params()`. Their order is their priority on the network: first what forward needs first.
        optimizer, optimizer_params: as of Gluon's Trainer. A DistributedOptimizer is refused: this is one.
        compression: Horovod's name for `codec`: Compression.none or Compression.fp16.
        gradient_predivide_factor: f splits averaging: gradients are divided by f before they are summed, and the sum is
            multiplied by f / size() afterwards.
        prefix: put before the parameters' names in errors and traces, to tell two trainers apart.
        num_groups: Horovod's; of no effect, as small messages go together anyhow.
        codec: how gradients are compressed: "none", "fp16", "onebit", "tbq", "terngrad", "dgc" or "graddrop", or a
            loaded one; with options: "dgc(ratio=0.01)". `set_codec()` changes it later.
        topology: how they travel: "ps", "ring", "allgather" or "hierarchical".
        partitions: pieces per gradient; 0: by size.
        min_compress_bytes: smaller gradients travel as they are.
        codec_for: codecs of single parameters by name, e.g. {"dense0_weight": "fp16"}.
        plan: says of each parameter (with the prefix, if there is one) how its gradient travels, in place of the five
            before: a file that `hipress plan` has written (of one with lines `name,size,y|n,K`, `codec` and `topology`
            say the rest), or a hipress.secopa Plan. `set_plan()` changes it later. "auto": gradients travel as they are
            in the first steps; then links and `codec` are measured, and planned is whether to use it, parameter by
            parameter, and all the rest. If steps later take something else, the plan is made anew. The logger
            "hipress.plan" says so on rank 0. hipress.secopa.automatic.AutomaticOptions instead of "auto" allow several
            codecs, and say how often to look.
        op: Average or Sum.
        sparse_as_dense: synchronise row_sparse gradients as dense ones instead of refusing them.

    Raises InvalidArgument, Unsupported, NotInitialized; the first step DuplicateName, Mismatch with the first
    difference if the ranks' parameters differ, and Timeout if a rank makes none.
    """

    def __init__(
        self,
        params: Any,
        optimizer: Any,
        optimizer_params: Mapping[str, Any] | None = None,
        compression: str = Compression.none,
        gradient_predivide_factor: float = 1.0,
        prefix: str | None = None,
        num_groups: int = 0,
        process_set: ProcessSet = global_process_set,
        *,
        codec: str = "none",
        topology: str = "ps",
        partitions: int = 0,
        min_compress_bytes: int = 4096,
        codec_for: Mapping[str, str] | None = None,
        plan: PlanArgument = None,
        op: ReduceOp = Average,
        sparse_as_dense: bool = False,
    ) -> None:
        runtime.current()
        process_sets.check(process_set)
        if getattr(optimizer, "synchronizes_gradients", False):
            raise InvalidArgument("DistributedTrainer takes the plain optimizer: it synchronises gradients itself")
        self._prefix = prefix or ""
        self._options = gradient_options(
            compression=compression,
            gradient_predivide_factor=gradient_predivide_factor,
            codec=codec,
            topology=topology,
            partitions=partitions,
            min_compress_bytes=min_compress_bytes,
            codec_for=self._prefixed(codec_for),
            plan=plan,
            op=op,
        )
        self._plan = plan
        self._planning: AutomaticPlanning | None = None
        self._step_ended = 0.0
        self._sparse_as_dense = sparse_as_dense
        self._synchronizer: GradientSynchronizer | None = None
        self._ignore_stale = False
        self._steps = 0
        # Gluon's Trainer sorts by name: "conv10" comes before "conv2".
        ordered = list(params.values() if isinstance(params, Mapping | mx.gluon.ParameterDict) else params)
        super().__init__(params, optimizer, optimizer_params=optimizer_params, kvstore=None)
        self._ordered: list[Parameter] = ordered
        self._check_parameters()

    def step(self, batch_size: int, ignore_stale_grad: bool = False) -> None:
        """One update of the parameters, from gradients divided by `batch_size` (this rank's) and combined.

        With `ignore_stale_grad`, gradients that backward did not compute since the last step count as zero where others
        have some; parameters for which no rank has one are skipped. This alone makes step() wait for the other ranks.
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
        interval = runtime.current().options.check_replicas
        if interval and self._steps % interval == 0:
            check_replicas(((each.name, each.data().asnumpy()) for each in self._ordered), self._steps)

    def set_codec(self, codec: str, codec_for: Mapping[str, str] | None = None) -> None:
        """From the next step on gradients travel with these codecs, as if given to DistributedTrainer.

        Every rank calls it between the same steps; it waits until the last one has ended. It replaces both `codec` and
        `codec_for`. What codecs remember is kept where the old and the new one call it the same: residuals live on when
        a ratio falls, or when onebit becomes graddrop. A residual that the new codec does not know joins the next
        gradient; momentum that it does not know (dgc's velocity) is forgotten.

        Raises InvalidArgument; Mismatch if the ranks' codecs differ (the old ones stay); Timeout if a rank does not
        call it.
        """
        self._wait_for_gradients()
        self._planning = None
        self._agreed().set_codec(codec, self._prefixed(codec_for))

    def set_plan(self, plan: PlanArgument) -> None:
        """From the next step on gradients travel as the plan says; None: as without one.

        Every rank calls it between the same steps, with the same plan: a file or a hipress.secopa Plan; it waits until
        the last step has ended. What codecs have dropped is not lost, whichever rank encodes a gradient from now on, or
        none; momentum (dgc's velocity) is forgotten where another rank does.

        Raises InvalidArgument with the first difference between plan and parameters; Mismatch if the ranks' plans
        differ (the old way stays); Timeout if a rank does not call it.
        """
        self._wait_for_gradients()
        self._planning = None
        self._agreed().set_plan(plan_to_set(plan))

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
        """Agreed on with the other ranks when shapes are known: after the first forward pass at the latest."""
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
        synchronizer.synchronize(gradients, absent)
        for index, gradient in sparse.items():
            gradients[index].tostype(gradient.stype).copyto(gradient)

    def _without_stale(self, indices: list[int]) -> tuple[list[int], list[int]]:
        """Those for which any rank has a new gradient, and of these those for which this rank has none."""
        data = {index: self._ordered[index].data() for index in indices}
        own = bytes(data[index]._fresh_grad for index in indices)
        gathered = runtime.current().engine.allgather("fresh gradients", own)
        fresh = [index for place, index in enumerate(indices) if any(ranks[place] for ranks in gathered)]
        # With a member that is fresh its whole group travels.
        groups = {self._agreed().group(index) for index in fresh} - {None}
        fresh = [index for index in indices if index in set(fresh) or self._agreed().group(index) in groups]
        absent = [index for index in fresh if not data[index]._fresh_grad]
        for index in absent:
            data[index]._fresh_grad = True
        return fresh, absent
