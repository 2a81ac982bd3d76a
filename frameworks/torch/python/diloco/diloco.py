# SPDX-License-Identifier: Apache-2.0
"""DiLoCo(): what happens after an inner step."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import astuple
from typing import Any, cast

import torch
import torch.distributed as dist

from hipress.adapter.not_copied import NotCopied
from hipress.elastic import lost_ranks
from hipress.elastic.worlds import meet
from hipress.errors import HipressError, InvalidArgument, Mismatch, PeerLost, TransportError
from hipress.launch.worlds.seat import seat
from hipress.torch.diloco import state as states
from hipress.torch.diloco.averaging import Averaging, DenseAveraging, MovableAveraging, Values
from hipress.torch.diloco.checks import (
    check_inner_optimizer,
    checked_mix,
    checked_quorum,
    checked_topology,
    trained_parameters,
)
from hipress.torch.diloco.codec_state import load_codecs, saved_codecs, unchanged_by_errors
from hipress.torch.diloco.fragments import fragments_of
from hipress.torch.diloco.group_ranks import GroupRanks
from hipress.torch.diloco.members.meeting import Position, Shared, foremost, rebase, share_outer, untrained
from hipress.torch.diloco.members.quorum import Quorum
from hipress.torch.diloco.members.worlds import Worlds
from hipress.torch.diloco.outer import OuterParameters, check_outer_optimizer
from hipress.torch.diloco.presets import preset as preset_named
from hipress.torch.diloco.progress import Progress
from hipress.torch.diloco.ranks import EngineRanks, Ranks
from hipress.torch.diloco.residual_state import residuals_for, saved_residuals
from hipress.torch.diloco.roll_call import Answer, RollCall, Said
from hipress.torch.diloco.schedule import Schedule
from hipress.torch.diloco.shards import described_shards, own_values, reshard
from hipress.torch.diloco.skipped_steps import SkippedSteps
from hipress.torch.diloco.sparseloco import SparseAveraging, SparseLoCo
from hipress.torch.diloco.state import Exchange
from hipress.torch.replicas import ReplicaCheck
from hipress.torch.synchronizer import GradientSynchronizer
from hipress.unfinished import described

#: In the error of a rank that has left without an exception.
_ENDED = re.compile(r"has left the job \(it (called|ended without) (shutdown|detach)\(\)( after \d+ steps)?\)")


class DiLoCo(NotCopied):
    """Lets each rank train on its own, and synchronises the model every `sync_every` steps of `inner_optimizer`.

    The training loop stays as it is: this happens within `inner_optimizer.step()`. DiLoCo is of arXiv 2311.08105,
    algorithm 1; with fragments, overlap and mixing it is Streaming DiLoCo, arXiv 2501.18512, algorithm 2; with the
    codec SparseLoCo it is arXiv 2508.15706. All ranks begin with rank 0's parameters and buffers; buffers are not
    synchronised later.

    Arguments:
        model: its trainable parameters are synchronised, float32 or float64; they must be the same on all ranks.
        inner_optimizer: a plain optimizer, e.g. AdamW; its state stays on its rank.
        outer_optimizer: a new one over model.parameters(), which from now on steps on a copy on the host; None: the
            preset's.
        preset: "diloco", "streaming", "sparseloco" or "local_sgd": the values of other arguments that are None.
        sync_every: H, inner steps between two exchanges of a parameter.
        fragments: P, number of parts of the model, of whole layers, exchanged in turn, one every H / P steps; or for
            each fragment a list of the names of its modules and parameters.
        codec: compresses the pseudo-gradients: a text as in DistributedOptimizer, or a SparseLoCo.
        topology: which way they travel; None: "auto", and with SparseLoCo "allgather", which has no other.
        group: a process group of CPU tensors that carries them, with "ps" or "allgather"; of a model that FSDP2 shards
            within each host, the ranks that have the same shards. None: the engine, after `hipress.torch.init()`.
        overlap_steps: τ, below H / P: steps that training takes before it needs an exchange's result.
        mix: α, from 0 to below 1: parameters become α × this rank's + (1 - α) × the outer ones.
        weighted: the averages are weighted by what each rank has counted with count() since its last exchange.
        quorum: in an elastic job: how long an exchange waits for late ranks; a number: Quorum(number). None: as long as
            for any.

    In an elastic job (`hipress run --elastic`), over the engine, no error comes from a rank that is lost: the others
    repeat the exchange without it, and go on. A new rank begins with the others' outer parameters and number of steps,
    at their next exchange. Averages are then weighted by each rank's inner steps since its last exchange.

    Raises InvalidArgument, Unsupported; Mismatch if the ranks' arguments differ; Timeout if a rank makes none. What an
    exchange raises (PeerLost, Timeout, CorruptPayload) comes from `inner_optimizer.step()`, and again from the next
    steps: the outer parameters stay those of the last whole exchange.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        inner_optimizer: torch.optim.Optimizer,
        outer_optimizer: torch.optim.Optimizer | None = None,
        *,
        preset: str = "diloco",
        sync_every: int | None = None,
        fragments: int | Sequence[Sequence[str]] | None = None,
        codec: str | SparseLoCo | None = None,
        topology: str | None = None,
        group: dist.ProcessGroup | None = None,
        overlap_steps: int | None = None,
        mix: float | None = None,
        weighted: bool = False,
        quorum: Quorum | int | None = None,
    ) -> None:
        self._ranks: Ranks = EngineRanks() if group is None else GroupRanks(group)
        own_seat = seat() if group is None else None
        quorum = checked_quorum(quorum, is_elastic=own_seat is not None)
        self._worlds = None if own_seat is None else Worlds(own_seat, quorum)
        chosen = preset_named(preset)
        fragments = chosen.fragments if fragments is None else fragments
        self._schedule = Schedule(
            chosen.sync_every if sync_every is None else sync_every,
            fragments if isinstance(fragments, int) else len(fragments),
            chosen.overlap_steps if overlap_steps is None else overlap_steps,
        )
        self._mix = checked_mix(chosen.mix if mix is None else mix)
        self._model = model
        self._inner = trained_parameters(model, over_group=group is not None)
        self._fragments = fragments_of(list(self._inner), fragments)
        check_inner_optimizer(inner_optimizer, model, outer_optimizer)
        if outer_optimizer is None:
            outer_optimizer = chosen.outer_optimizer(list(self._inner.values()))
        check_outer_optimizer(outer_optimizer, self._inner)
        codec = chosen.codec if codec is None else codec
        topology = checked_topology(codec, topology)
        settings = {key: str(value) for key, value in self._settings().items()}
        settings["codec, topology"] = f"{codec}, {topology}"
        settings["the parameters' shards"] = described_shards(self._inner.values())
        settings |= {"weighted": str(weighted), "quorum": str(quorum)}
        groups = [{k: v for k, v in each.items() if k != "params"} for each in outer_optimizer.param_groups]
        settings["the outer optimizer"] = f"{type(outer_optimizer).__name__} {groups}"
        self._described = settings
        self._progress = Progress(len(self._fragments))
        self._counts_steps, self._is_weighted = not weighted, weighted or self._worlds is not None
        self._error: HipressError | None = None
        self._swapped = False
        if self._worlds is None:
            self._ranks.agree(lambda: settings)
        own = {name: own_values(each) for name, each in self._inner.items()}
        self._averaging: Averaging = (
            SparseAveraging(own, self._fragments, codec)
            if isinstance(codec, SparseLoCo)
            else self._ranks.dense(own, codec, topology)
        )
        self._outer = OuterParameters(self._inner, outer_optimizer)
        self._check = ReplicaCheck(
            lambda found: self._ranks.agree(lambda: found), self._outer.values.items, counted="exchange"
        )
        self._skipped = SkippedSteps(inner_optimizer)
        self._go_on(self._begin)
        self._hooks = [
            inner_optimizer.register_step_pre_hook(lambda *_: self._before_step()),
            inner_optimizer.register_step_post_hook(lambda *_: self._after_step()),
        ]

    def _settings(self) -> dict[str, Any]:
        return {
            "sync_every": self._schedule.sync_every,
            "fragments": self._fragments,
            "overlap_steps": self._schedule.overlap_steps,
            "mix": self._mix,
        }

    @property
    def steps(self) -> int:
        """Inner steps of the training so far. A rank that comes to an elastic job begins with the others' number."""
        return self._progress.steps.taken

    def count(self, tokens: float) -> None:
        """Adds to what this rank has trained on since its last exchange: its weight in the next one, if DiLoCo() was
        given weighted=True. All ranks count in one unit, such as tokens or samples."""
        if self._counts_steps:
            raise InvalidArgument("count() is for averages with weights: DiLoCo(..., weighted=True)")
        if not isinstance(tokens, (int, float)) or isinstance(tokens, bool) or not 0 <= tokens < 2**53:
            raise InvalidArgument(f"count({tokens!r}): give a number of at least 0")
        self._progress.tokens.total += tokens

    @property
    def outer_optimizer(self) -> torch.optim.Optimizer:
        """For a schedule of its learning rate, the same on all ranks."""
        return self._outer.optimizer

    @property
    def uses_engine_codecs(self) -> bool:
        """Whether codec_states() has what codecs hold back, and not state_dict()."""
        return isinstance(self._averaging, DenseAveraging)

    @property
    def synchronizer(self) -> GradientSynchronizer:
        """The list of pseudo-gradients, with what codecs remember of them. Raises InvalidArgument with SparseLoCo or a
        process group."""
        if not isinstance(self._averaging, DenseAveraging):
            raise InvalidArgument("this DiLoCo uses no codec of the engine: DiLoCo.state_dict() has all residuals")
        return self._averaging.synchronizer

    @property
    def fragments(self) -> list[list[str]]:
        """The names of each fragment's parameters."""
        return [list(names) for names in self._fragments]

    def _before_step(self) -> None:
        if self._swapped:
            raise InvalidArgument(
                "the inner optimizer's step() was called within outer_parameters(), whose end would undo it: leave it "
                "first"
            )
        if self._error is not None:
            raise self._error
        self._skipped.before_step()

    def _after_step(self) -> None:
        self._skipped.after_step()
        self._progress.steps.taken += 1
        if self._counts_steps:
            self._progress.tokens.total += 1
        with self._leaving_on_errors():
            self._go_on(self._take_part)

    def _go_on(self, action: Callable[[], None]) -> None:
        """Calls `action()`, in an elastic job again in each next world until it has succeeded."""
        if self._worlds is None:
            action()
        else:
            self._worlds.go_on(action, self._enter)

    def _begin(self) -> None:
        """Comes together with the other ranks."""
        if self._worlds is not None:
            if self._progress.applied < 0:
                self._worlds.seat.use("DiLoCo()")
                self._enter()
            return self._take_part()  # others that train may be at an exchange
        self._averaging.enter(self._ranks)
        self._roll_call = RollCall(self._ranks)
        self._begin_alike()
        self._ranks.leaves_with(self._progress.steps)

    def _begin_alike(self) -> None:
        """No rank has trained yet: all begin with rank 0's parameters and buffers."""
        self._ranks.broadcast(self._model.state_dict())
        self._outer.begin(self._inner)
        self._progress.applied = 0

    def _enter(self) -> None:
        """Comes together with the ranks of the current world of an elastic job, and begins an exchange again that has
        failed in the last one."""
        assert self._worlds is not None
        self._ranks = EngineRanks()
        progress = self._progress
        own = progress.position()
        positions = [Position(*each) for each in meet(self._worlds.seat, astuple(own))]
        self._ranks.agree(lambda: self._described)
        root = foremost(positions)
        if positions[root].applied < 0:
            self._begin_alike()
        elif any(each.is_behind(positions[root]) for each in positions):
            shared = share_outer(self._model, self._outer, root)
            if own.is_behind(positions[root]):
                self._catch_up(shared)
                progress.catch_up(positions[root])
        self._averaging.enter(self._ranks)
        self._roll_call = RollCall(self._ranks)
        self._ranks.leaves_with(progress.steps)
        self._worlds.seat.commits = progress.applied
        self._check.skip_to(progress.applied)
        if progress.exchange is not None:
            self._begun(progress.exchange.fragment, progress.exchange.due)

    @torch.no_grad()
    def _catch_up(self, shared: Shared) -> None:
        """Goes on from the parameters of others, which have used the averages of more exchanges."""
        exchange = self._progress.exchange
        sent = [] if exchange is None else self._fragments[exchange.fragment]
        self._movable.drop(sent)
        reshard(self._model)
        rebase({name: own_values(self._inner[name]) for name in self._inner if name not in sent}, self._outer, shared)
        self._outer.begin(shared.outer)
        self._take_outer(sent)
        if self._progress.applied < 0:
            for name, each in untrained(self._model, self._outer).items():
                each.copy_(shared.others[name])
            self._write(self._outer.values)

    @property
    def _movable(self) -> MovableAveraging:
        return cast("MovableAveraging", self._averaging)

    def _take_part(self) -> None:
        """Applies and begins the exchanges that are due after this inner step. A second call does what is left."""
        progress, taken = self._progress, self._progress.steps.taken
        if progress.exchange is not None and progress.exchange.due <= taken:
            self._apply(progress.exchange)
        fragment = self._schedule.begins(taken)
        if fragment is not None and progress.begun_after != taken:
            exchange = self._begun(fragment, taken + self._schedule.overlap_steps)
            if exchange.due == taken:
                self._apply(exchange)

    @contextmanager
    def _leaving_on_errors(self) -> Iterator[None]:
        """After an error within it this rank takes part in no more exchanges, and tells the others."""
        try:
            yield
        except HipressError as error:
            lost = isinstance(error, PeerLost | TransportError)
            self._error = self._explained(error) if lost else error
            self._ranks.leave(f"it ended with {described(error)}")
            if lost:
                raise self._error from error
            raise

    def _explained(self, error: HipressError) -> HipressError:
        """A rank that has ended with fewer steps looks like a lost one."""
        kind = Mismatch if _ENDED.search(str(error)) else type(error)
        return kind(
            f"{error}. This rank waited for an exchange after {self.steps} inner steps; if another one has "
            "ended with fewer, call DiLoCo.detach() on all ranks at the end of training: they then end together"
        )

    def _called(self, fragment: int | None) -> Callable[[], Answer]:
        """Says to the other ranks that this one begins with an exchange, or has ended its training (None)."""
        progress = self._progress
        next_fragment = progress.exchanges % len(self._fragments) if fragment is None else fragment
        weight = progress.tokens.since(next_fragment) if self._is_weighted else 1.0
        own = fragment, progress.steps.taken, progress.applied, weight
        if self._worlds is None:
            return self._roll_call.call(Said(*own))
        self._worlds.await_others(trains=fragment is not None)
        answered = self._roll_call.call(Said(*own, self._worlds.seat.number, self._movable.residual()))

        def noted() -> Answer:
            answer = answered()
            lost_ranks.note(
                {"process": each.process, "at": [each.applied], "residual": each.residual} for each in answer.said
            )
            return answer

        return noted

    def _begun(self, fragment: int, due: int, answer: Answer | None = None) -> Exchange:
        """`answer`: this rank's training has ended, and the others have said which fragment they exchange."""
        answered = None if answer is not None else self._called(fragment)
        tokens, factor = self._progress.tokens.total, 1.0
        if self._is_weighted:
            if answered is not None:
                answer, answered = answered(), None
            factor = cast("Answer", answer).share_of(self._progress.tokens.since(fragment))
        values = {name: self._outer.pseudo_gradient(name, self._inner[name]) for name in self._fragments[fragment]}
        if factor != 1.0:
            for each in values.values():
                each.mul_(factor)
        arrived = self._averaging.start(fragment, values, self._progress.number)

        def averages() -> Values:
            if answered is not None:
                answered()
            return arrived()

        exchange = Exchange(fragment, due, averages, tokens)
        self._progress.begun(exchange)
        return exchange

    @torch.no_grad()
    def _apply(self, exchange: Exchange) -> None:
        averages = exchange.averages()
        if self._worlds is not None:
            self._movable.keep()
        self._outer.step(averages)
        reshard(self._model)
        self._take_outer(averages)
        self._progress.used(exchange)
        if self._worlds is not None:
            self._worlds.seat.commits = self._progress.applied
        self._check.after(self._progress.applied)

    @torch.no_grad()
    def _take_outer(self, names: Iterable[str]) -> None:
        for name in names:
            inner = own_values(self._inner[name])
            inner.lerp_(self._outer.values[name].to(inner.device), 1.0 - self._mix)

    @contextmanager
    def outer_parameters(self) -> Iterator[None]:
        """Within it the model has the outer parameters: evaluate these, and save them as the trained model."""
        if self._swapped:
            raise InvalidArgument("outer_parameters() was called within outer_parameters()")
        own = {name: own_values(each).clone() for name, each in self._inner.items()}
        self._swapped = True
        try:
            self._write(self._outer.values)
            yield
        finally:
            self._write(own)
            self._swapped = False

    @torch.no_grad()
    def _write(self, values: Mapping[str, torch.Tensor]) -> None:
        reshard(self._model)
        for name, each in self._inner.items():
            own_values(each).copy_(values[name])

    def state_dict(self) -> dict[str, Any]:
        """Outer parameters, outer optimizer, step, and the averages of an exchange that has begun: it waits for them.

        These are the same on all ranks. The residuals of SparseLoCo and of a codec over a process group are part of it,
        too; they are this rank's own. The states of the engine's codecs are in codec_states(). The model's
        parameters and the inner optimizer differ between ranks: every rank saves its own beside this. Raises what the
        exchange raises.
        """
        self._go_on(self._wait)
        own = self._ranks.rank, self._ranks.world
        residuals, codecs = saved_residuals(self._averaging.residuals(), *own), saved_codecs(self._averaging, *own)
        progress = self._progress
        counted = states.Counted(progress.steps.taken, progress.exchanges, progress.saved_tokens())
        return states.saved(self._outer, self._settings(), counted, progress.exchange, residuals, codecs)

    def load_state_dict(self, state: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
        """Goes on from `state`. On all ranks, between the same steps; an exchange that has begun is forgotten.

        On another number of ranks, with SparseLoCo or a codec over a process group that holds values back, give each
        rank the list of all old ranks' states, in their order: nothing that they held back is lost from the averages.

        Raises InvalidArgument, with the first difference, if it was saved with another model, schedule or outer
        optimizer; Mismatch on all ranks if one refused or if their states differ. Nothing is changed then.
        """
        settings, rank, world = self._settings(), self._ranks.rank, self._ranks.world
        residuals: list[Values | None] = []

        def described() -> dict[str, str]:
            listed = states.checked_states(state, self._outer, settings, self._fragments)
            residuals.append(residuals_for(listed, self._averaging.residuals(), rank, world))
            load_codecs(listed, self._averaging, rank, world)
            return states.described(listed)

        self._go_on(self._wait)
        with unchanged_by_errors(self._averaging):
            self._ranks.agree(described)
        first = state if isinstance(state, Mapping) else state[0]
        self._outer.load(first)
        progress = self._progress
        progress.steps.taken = progress.begun_after = first["step"]
        progress.exchanges, progress.applied = states.exchanges_of(first, self._schedule.distance), 0
        progress.tokens.load(states.tokens_of(state, rank, world, len(self._fragments)))
        progress.exchange = states.exchange_of(first, progress.tokens)
        if residuals[0] is not None:
            self._averaging.load_residuals(residuals[0])

    def _wait(self) -> None:
        """For the averages of an exchange that has begun."""
        if self._progress.exchange is not None:
            self._progress.exchange.averages()

    def detach(self) -> None:
        """Ends it on all ranks, and makes the inner optimizer a plain one again.

        Ranks may have taken different numbers of steps. One that has ended takes part in the exchanges of the others,
        with the parameters that it has, until all have called this: so no rank waits for a rank that has gone, and the
        outer parameters are the same on all ranks. An exchange that no rank has used is forgotten. After an error
        of an exchange it waits for no rank. Raises what an exchange raises.
        """
        if not self._hooks:
            return
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._skipped.end()
        if self._error is not None:
            return
        with self._leaving_on_errors():
            self._go_on(self._join_others)
        self._progress.exchange = None
        self._ranks.all_left()
        if self._worlds is not None:
            self._worlds.seat.finish()

    def _join_others(self) -> None:
        self._wait()
        while True:
            answer, exchange = self._called(None)(), self._progress.exchange
            # The others have used it before they began another exchange, or before they ended.
            if exchange is not None and (answer.fragment is not None or answer.applied > self._progress.applied):
                self._apply(exchange)
            if answer.fragment is None:
                break
            exchange = self._begun(answer.fragment, self._progress.steps.taken + self._schedule.overlap_steps, answer)
            if self._schedule.overlap_steps == 0:
                self._apply(exchange)
