# SPDX-License-Identifier: Apache-2.0
"""The state of the communication hook of one DistributedDataParallel model."""

from __future__ import annotations

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.distributed as dist

from hipress.adapter.planned import PlanArgument, is_automatic, plan_of, plan_to_set
from hipress.errors import InvalidArgument, NotInitialized, Unsupported
from hipress.options.declaration import filled
from hipress.options.signatures import takes
from hipress.options.warmup import warmup_of
from hipress.secopa.online.ways import AutomaticWays
from hipress.torch.automatic.group_training import automatic_ways
from hipress.torch.automatic.options_to_try import codecs_to_choose, options_to_try
from hipress.torch.ddp.alone import Alone
from hipress.torch.ddp.engine_carrier import EngineCarrier
from hipress.torch.ddp.group_carrier import GroupCarrier, shapes_of
from hipress.torch.ddp.joining import Joining
from hipress.torch.ddp.models import replicated
from hipress.torch.ddp.options import WORDS, HookBesideCodec, HookOptions
from hipress.torch.ddp.plain import Plain
from hipress.torch.installed.private_names import GradBucket, refuses_hooks, running_backward_pass
from hipress.torch.process_groups.agreement import agreeing
from hipress.torch.process_groups.dtypes import shape_of
from hipress.torch.process_groups.options import GroupOptions, chosen_codec
from hipress.torch.reals import as_reals
from hipress.torch.replicas import ReplicaCheck
from hipress.torch.scaling.loss_scale import LossScale
from hipress.torch.states.place import PLACE, check_place, place_in
from hipress.torch.states.state_sum import check_sum, with_sum
from hipress.torch.watching.rounds import WatchedBuckets

if TYPE_CHECKING:
    from typing_extensions import Unpack


class CarrierOf(Protocol):
    """The carrier of the gradients of one model."""

    def average(
        self, bucket: GradBucket, named: list[tuple[str, torch.Tensor]], step: int
    ) -> torch.futures.Future[torch.Tensor]:
        """Starts averaging the bucket's gradients in place; the future gets the bucket's buffer."""

    def average_sparse(self, buffer: torch.Tensor, step: int) -> torch.futures.Future[torch.Tensor]:
        """Starts averaging a sparse gradient as it is, in place."""

    def change(self, options: GroupOptions) -> None:
        """Lets gradients travel by other codecs, or another plan, from the next step on. Raises the constructor's
        errors; everything is then as before."""

    def close(self) -> None:
        """Ends threads and groups, when the averages that have started are done."""

    def state_dict(self) -> dict[str, Any]:
        """The codec states of this rank, such as residuals."""

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes back what state_dict() returned. Raises InvalidArgument."""

    def load_states_of(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Takes the states of all ranks of a job with another world size. Raises InvalidArgument."""

    def codec_of(self, name: str) -> str:
        """The codec of a parameter's gradient, with all options."""

    @property
    def sent_bytes(self) -> int:
        """Number of bytes that this rank has sent so far."""

    @property
    def exact_tensors(self) -> tuple[str, ...]:
        """The names of the parameters whose gradients travel without a codec."""


class HookState:
    """The state of `hipress.torch.ddp.hook`. Arguments and errors: see `compress()`.

    The object can be pickled with its model. The copy has no process group and no threads, and averages nothing.
    """

    @takes(HookOptions, **WORDS)
    def __init__(self, model: torch.nn.Module, codec: str | None = None, **options: Unpack[HookBesideCodec]) -> None:
        found = replicated(model)
        if refuses_hooks():
            raise Unsupported(
                "torch._dynamo.config.optimize_ddp='python_reducer' averages gradients without communication hooks: "
                "set it to 'ddp_optimizer', or compress the compiled reductions by hipress.torch.compiled.GraphPass"
            )
        may_choose = codecs_to_choose(codec, options, "plan", "warmup", "host_group")
        instead = options.get("plan"), options.get("codec_for")
        text = "none" if may_choose else chosen_codec(codec, "compress(model, codec)", *instead)
        given = filled(HookOptions, {**options, "codec": text})
        carrier, plan, host_group = given.pop("carrier"), given.pop("plan"), given.pop("host_group")
        del given["optimizer"], given["accuracy"]
        given["scaler"] = LossScale(given["scaler"], "hipress.torch.ddp.compress(model, codec=..., scaler=scaler)")
        special = {"codec_for": dict(given["codec_for"] or {}), "warmup": warmup_of(given["warmup"])}
        how = GroupOptions(**{**given, **special})
        if plan is not None and is_automatic(plan):
            raise Unsupported("the hook makes no plans: give it a file that `hipress plan` has written")
        found.check_names(how.codec_for)
        # A bucket has the parameters, but not their names.
        self._names = {id(each): name for name, each in found.parameters.items()}
        self._parameters = found.parameters
        self._has_complex = any(each.is_complex() for each in found.parameters.values())
        self._steps = 0
        self._closed: Plain | None = None
        self._sent_bytes = 0
        self._joining = Joining(found.ddp)
        self._kept: dict[str, Any] | None = None
        self._group = None if found.ddp is None else found.ddp.process_group
        self._how = how
        self._automatic: AutomaticWays | None = None
        self.watching: WatchedBuckets | None = None
        self._carrier: CarrierOf | None
        if self._group is None:
            how.check(found.parameters, matrices=True, whole=True)
            self._carrier = Alone()
        elif carrier == "hipress":
            if host_group is not None:
                raise Unsupported("carrier 'hipress' knows the hosts: host_group is for carrier 'group'")
            self._carrier = EngineCarrier(found.parameters, self._group, how, plan)
        else:
            how = replace(how, plan=plan_of(plan, how.codec, how.topology, self._group.size()))
            self._carrier = GroupCarrier(found.parameters, self._group, how, host_group)
        #: How gradients travel now; `_how` is what compress() was told.
        self._travel = how
        self._check = None if self._group is None else _check(self._group, found.parameters)
        if may_choose and self._group is not None and self._group.size() > 1:
            self._automatic = self._race(may_choose, found.parameters, topologies=carrier == "group")

    def _race(
        self, codecs: Sequence[str], parameters: Mapping[str, torch.nn.Parameter], *, topologies: bool
    ) -> AutomaticWays:
        assert self._group is not None
        shapes, device = shapes_of(parameters), _device(parameters)
        options = options_to_try(self._how, codecs, shapes, self._group, device, topologies=topologies)
        reference = weakref.ref(self)

        def change(how: GroupOptions) -> None:
            target = reference()
            if target is not None:
                target._running().change(how)
                target._travel = how

        return automatic_ways(self._group, shapes, device, options, change)

    def set_codec(self, codec: str, codec_for: Mapping[str, str] | None = None) -> None:
        """Replaces the codecs of all gradients from the next backward pass on; a plan, a warm-up and codec "auto" end.

        All ranks call it between the same two steps. It replaces both `codec` and `codec_for` of compress(). If the old
        and the new codec have a state of the same name, the new codec goes on with its values. A residual that the new
        codec does not have joins the next gradient; momentum (dgc's velocity) is lost.

        Raises InvalidArgument, also within backward, and Unsupported; Mismatch, on all ranks, if their codecs differ.
        The codecs are then as before.
        """
        chosen_codec(codec, "set_codec(codec)")
        self._change(replace(self._how, codec=codec, codec_for=dict(codec_for or {}), warmup=None, plan=None))

    def set_plan(self, plan: PlanArgument) -> None:
        """Follows the plan, a file or a hipress.secopa Plan, from the next backward pass on; None: gradients travel
        as compress() was told without a plan. A warm-up and codec "auto" end.

        All ranks call it between the same two steps. No residual is lost, also where another rank encodes a gradient
        from now on; momentum (dgc's velocity) is lost there.

        Raises the errors of set_codec(), and InvalidArgument with the first difference between plan and parameters.
        """
        how = self._how
        world = None if self._group is None else self._group.size()
        self._change(replace(how, warmup=None, plan=plan_of(plan_to_set(plan), how.codec, how.topology, world)))

    def _change(self, how: GroupOptions) -> None:
        carrier = self._running()
        if running_backward_pass() != -1:
            raise InvalidArgument("codecs change between two steps: call it outside of backward()")
        carrier.change(how)
        self._travel, self._automatic = how, None

    @property
    def chosen(self) -> str:
        """What codec "auto" has chosen, such as "int8 over ps"; empty while it measures, and without it."""
        way = None if self._automatic is None else self._automatic.chosen
        return "" if way is None else str(way)

    def average(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Starts averaging one bucket; the communication hook calls it."""
        carrier = self._running() if self._closed is None else self._closed
        step = self._steps
        if bucket.is_last():
            self._steps += 1
        if bucket.index() == 0 and self._check is not None and not self._joining.is_on:
            self._check.after(step)
        if bucket.index() == 0 and self._automatic is not None and not self._joining.is_on:
            self._automatic.step_begins()
        self._joining.scale(bucket)
        if bucket.buffer().layout != torch.strided:
            return carrier.average_sparse(bucket.buffer(), step)
        gradients = _of_complex(bucket) if self._has_complex else bucket.gradients()
        names = [self._names[id(parameter)] for parameter in bucket.parameters()]
        named = list(zip(names, gradients, strict=True))
        if self.watching is None or self._closed is not None:
            return carrier.average(bucket, named, step)
        if self._joining.is_on:
            self.watching.watcher.drop()
            return carrier.average(bucket, named, step)
        return self.watching.average(bucket, named, step, partial(carrier.average, bucket, named, step))

    @property
    def group(self) -> dist.ProcessGroup | None:
        """The model's process group; None: this process trains alone."""
        return self._group

    def parameters(self) -> Mapping[str, torch.nn.Parameter]:
        """The parameters whose gradients the hook averages, by name."""
        return self._parameters

    def codec_of(self, name: str) -> str:
        """The codec of a parameter's gradient now, with all options."""
        return self._running().codec_of(name)

    def travel_safer(self, name: str, codec: str) -> None:
        """Replaces the codec of one gradient at the beginning of a step, on all ranks; see set_codec().

        Raises InvalidArgument if a plan chooses the codecs; the errors of set_codec().
        """
        how = self._travel
        if how.plan is not None:
            raise InvalidArgument("a plan chooses the codecs: call set_plan() with another one")
        how = replace(how, codec_for={**how.codec_for, name: codec}, warmup=None)
        self._running().change(how)
        self._travel, self._automatic = how, None

    def state_dict(self) -> dict[str, Any]:
        """The codec states of this rank and the number of steps. Every rank saves its own, between two steps."""
        if self._kept is not None:
            return self._kept
        place = place_in(self._group)
        state = {"steps": self._steps, PLACE: place, "states": self._running().state_dict()}
        return with_sum(state if self._automatic is None else {**state, "auto": self._automatic.state_dict()})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on from the state_dict() of the same rank in a job with the same world size. All ranks call it.

        Raises InvalidArgument; with carrier "hipress" the other ranks then raise Mismatch.
        """
        carrier = self._running()
        states = _checked(state, carrier)["states"]
        if not isinstance(carrier, EngineCarrier):  # whose ranks find it together
            check_place(state, place_in(self._group))
        self._begin_with_choice_of(state)
        carrier.load_state_dict(states)
        self._steps = int(state["steps"])

    def load_states_of(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Goes on, with any number of ranks, from the state_dict() of all ranks of the earlier job, in rank order.

        The residuals of all those ranks go into the next averages. Raises InvalidArgument.
        """
        if isinstance(saved, Mapping) or not saved:
            raise InvalidArgument("load_states_of() takes a list with the states of all ranks, at least one")
        carrier = self._running()
        states = [_checked(each, carrier)["states"] for each in saved]
        self._begin_with_choice_of(saved[0])
        carrier.load_states_of(states)
        self._steps = int(saved[0]["steps"])

    def _begin_with_choice_of(self, state: Mapping[str, Any]) -> None:
        if self._automatic is not None:
            self._automatic.load_state_dict(state.get("auto", {}))

    def states_of_all(self) -> list[dict[str, Any]]:
        """The state_dict() of all ranks, in rank order, for load_states_of(). All ranks of the group call it."""
        if self._group is None:
            return [self.state_dict()]
        states: list[Any] = [None] * dist.get_world_size(self._group)
        dist.all_gather_object(states, self.state_dict(), group=self._group)
        return states

    @property
    def steps(self) -> int:
        """Number of steps that the hook has averaged; steps before load_state_dict() count, too."""
        return self._steps

    @property
    def sent_bytes(self) -> int:
        """Number of bytes that this rank has sent. Carrier "group": the messages of compressed gradients only, not the
        gradients that travel exactly. Carrier "hipress": all bytes that the engine has sent since `init()`."""
        return self._running().sent_bytes if self._closed is None else self._sent_bytes

    def close(self) -> None:
        """Ends the hook's threads, and frees its groups and states. All ranks call it, between two steps.

        From then on the model trains as without the hook: gradients are averaged exactly, also if this raises the error
        of the last step because no call has raised it. A state that is not closed ends with its model.
        """
        carrier, self._carrier, self.watching = self._carrier, None, None
        if carrier is not None:
            self._sent_bytes, self._closed = carrier.sent_bytes, Plain(self._group)
            carrier.close()

    @property
    def exact_tensors(self) -> tuple[str, ...]:
        """The names of the parameters whose gradients travel without a codec: they are small, have one dimension, or
        the codec would not shrink them. `sent_bytes` of carrier "group" does not count them."""
        return self._running().exact_tensors

    def _running(self) -> CarrierOf:
        if self._carrier is not None:
            return self._carrier
        if self._closed is not None:
            raise NotInitialized("this state of hipress.torch.ddp was closed: call state_dict() before close()")
        raise NotInitialized(
            "this state of hipress.torch.ddp was unpickled and has no process group: make a new one for the new "
            "model, and give it what state_dict() of this one returns"
        )

    def __getstate__(self) -> dict[str, Any]:
        return {"_kept": self.state_dict()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._kept, self._automatic = state["_kept"], None
        self.watching = None
        self._carrier = self._closed = None
        self._steps = int(state["_kept"]["steps"])


def _check(group: dist.ProcessGroup, parameters: Mapping[str, torch.nn.Parameter]) -> ReplicaCheck:
    return ReplicaCheck(agreeing(group, _device(parameters)), lambda: parameters.items())


def _device(parameters: Mapping[str, torch.nn.Parameter]) -> torch.device:
    return next((each.device for each in parameters.values()), torch.device("cpu"))


def _checked(state: Any, carrier: object) -> Mapping[str, Any]:
    """Raises InvalidArgument unless HookState.state_dict() can have returned it."""
    if isinstance(state, Mapping) and "steps" in state and "states" in state:
        if not isinstance(carrier, EngineCarrier):  # whose states have a checksum that the ranks check together
            check_sum(state)
        return state
    what = f"a {type(state).__name__}"
    if isinstance(state, Mapping):
        what = f"a dict with '{next(iter(state))}', as a model's own state_dict() is" if state else "an empty dict"
    raise InvalidArgument(
        f"the state is {what}: give what state_dict() of a state of hipress.torch.ddp returned; load_states_of() takes "
        "the list of all ranks' states"
    )


def _of_complex(bucket: GradBucket) -> Sequence[torch.Tensor]:
    """The bucket's gradients as flat real numbers. torch's own views are wrong here: it counts complex elements in a
    buffer of real numbers."""
    counts = [shape_of(each).count for each in bucket.parameters()]
    parts: tuple[torch.Tensor, ...] = as_reals(bucket.buffer()).split(counts)
    return parts
