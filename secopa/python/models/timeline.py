# SPDX-License-Identifier: Apache-2.0
"""The default cost model: it simulates one step with the task graphs that CaSync builds.

The simulation has the threads of every rank, the cores that the ranks of a machine share, links, windows and bundles.
So it predicts overlap with backward, queues and priorities. docs/guide/planning.md lists what it leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hipress._library import load_core
from hipress.errors import InvalidArgument, Unsupported
from hipress.secopa.models.cost_model import GradientTimes, StepPrediction
from hipress.secopa.models.simulated_costs import (
    are_alike,
    engine_costs,
    simulated_cluster,
    simulated_codec,
    simulated_computations,
)
from hipress.secopa.models.suitability import objection, suits
from hipress.secopa.models.synchronized_tensors import SynchronizedTensor, synchronized_tensors
from hipress.secopa.plan.choice import Choice
from hipress.secopa.profile.gradients import Gradient, GradientSet
from hipress.secopa.profile.profile import Profile

if TYPE_CHECKING:
    from hipress import _core

#: A tensor without a computation of its own.
_NO_WORK = (-1, 0.0)


@dataclass(frozen=True)
class TimelineOptions:
    """Options of the simulation."""

    backward_threads: int = 0
    """Threads with which backward computes on the cores of each rank; 0: backward runs on an accelerator."""
    exact_up_to: int = 8
    """The largest number of ranks that are simulated one by one. If there are more, equal ranks, one stands for all."""


class TimelineModel:
    """Simulates a step of `world` ranks, which run at the profile's places."""

    name = "timeline"
    topologies: tuple[str, ...] = ()

    def __init__(self, profile: Profile, world: int, options: TimelineOptions | None = None) -> None:
        if world < 1:
            raise InvalidArgument(f"expected one rank at least, not {world}")
        self.profile = profile
        self.world = world
        self.codecs = profile.codec_names
        self._options = TimelineOptions() if options is None else options
        self._cluster = simulated_cluster(profile, world)
        self._engine = engine_costs(profile)
        self._numbers = {text: number for number, text in enumerate(profile.codecs)}
        self._codecs = [simulated_codec(costs) for costs in profile.codecs.values()]
        #: By codec: the index of its first computation of three.
        self._works = {text: 3 * number for number, text in enumerate(profile.linked)}
        self._computations = [one for costs in profile.linked.values() for one in simulated_computations(costs)]
        self._hosts = len({place.host for place in profile.places(world)})
        alike = not profile.links and are_alike(profile.places(world))
        self._symmetric = alike and world > self._options.exact_up_to
        #: Topologies in which ranks have different tasks; found when the symmetric simulation refuses one.
        self._one_by_one: set[str] = set()

    def gradient_s(self, elements: int, choice: Choice) -> float:
        alone = GradientSet(gradients=(Gradient(name="gradient", elements=elements),))
        return self.step(alone, [choice]).step_s

    def step(self, gradients: GradientSet, choices: Sequence[Choice]) -> StepPrediction:
        together = synchronized_tensors(gradients, choices)
        self._check(gradients, together)
        described: list[_core.SimulatedTensor] = []
        lasts: list[int] = []
        for one in together:
            described += self._described(one, len(described))
            lasts.append(len(described) - 1)
        outcome = self._simulate(described, {one.choice.topology for one in together}, gradients.backward_s)
        times = [GradientTimes(0.0, 0.0)] * len(gradients.gradients)
        ends = outcome.gradients  # each access makes a new list
        for one, last in zip(together, lasts, strict=True):
            alike = GradientTimes(one.release_s, ends[last].end_s)
            for member in one.members:
                times[member] = alike
        ranks = outcome.ranks if len(outcome.ranks) == self.world else outcome.ranks * self.world
        return StepPrediction(
            step_s=max(outcome.step_s, gradients.backward_s),
            backward_s=gradients.backward_s,
            gradients=tuple(times),
            sent_bytes=tuple(round(rank.sent_bytes) for rank in ranks),
            cpu_s=tuple(rank.cpu_s for rank in ranks),
            computing_s=tuple(rank.computing_s for rank in ranks),
            events=outcome.events,
        )

    def _check(self, gradients: GradientSet, tensors: Sequence[SynchronizedTensor]) -> None:
        """Raises InvalidArgument for a choice that the engine refuses."""
        for codec in {one.choice.codec for one in tensors if one.choice.compressed}:
            with_it = [gradients.gradients[one.members[0]] for one in tensors if one.choice.codec == codec]
            said = objection(self.profile, codec, self.world, with_it)
            if said is not None:
                raise InvalidArgument(said)
        for one in tensors:
            choice = one.choice
            grouped = choice.group is not None
            if choice.compressed and not suits(self.profile.costs(choice.codec), choice.topology, grouped):
                how = f"in group '{choice.group}'" if grouped else f"over topology {choice.topology}"
                raise InvalidArgument(f"'{one.name}': codec '{choice.codec}' takes no tensor {how}")

    def _described(self, one: SynchronizedTensor, number: int) -> list[_core.SimulatedTensor]:
        """The simulated tensors of a synchronised one, of which the first gets this number."""
        choice = one.choice
        costs = self.profile.linked.get(choice.codec)
        both = None
        if costs is not None and self._compresses(choice.topology):
            both = costs.tensors(one.elements, one.element_bytes, one.shape)
        if both is None:
            return [self._tensor(one, "", one.elements, one.element_bytes)]
        work, size = self._works[choice.codec], 4.0 * one.elements
        first, second, result = ((work + place, size) for place in range(3))
        return [
            self._tensor(one, *both[0], before=first),
            self._tensor(one, *both[1], after=number, before=second, behind=result),
        ]

    def _compresses(self, topology: str) -> bool:
        return self.world > 1 and (self._hosts > 1 or not topology.startswith("hierarchical"))

    def _tensor(
        self,
        one: SynchronizedTensor,
        suffix: str,
        elements: int,
        element_bytes: int,
        packs_own: bool = False,
        after: int = -1,
        before: _core.SimulatedWork = _NO_WORK,
        behind: _core.SimulatedWork = _NO_WORK,
    ) -> _core.SimulatedTensor:
        topology = one.choice.topology
        codec = self._numbers.get(one.choice.codec, -1)
        return (
            one.name + suffix,
            elements,
            element_bytes,
            codec,
            topology,
            one.choice.partitions,
            -one.members[0],
            one.release_s,
            len(one.members),
            self.profile.message_times(topology, codec >= 0),
            after,
            before,
            behind,
            packs_own,
        )

    def _simulate(
        self, gradients: list[_core.SimulatedTensor], topologies: set[str], backward_s: float
    ) -> _core.SimulatedStep:
        if self._symmetric and not topologies & self._one_by_one:
            try:
                return self._simulate_with(gradients, backward_s, symmetric=True)
            except Unsupported:
                # In a flat ring over hosts with several ranks, two ranks of a host cross the network and the others do
                # not, so no rank can stand for all.
                self._one_by_one |= topologies
        return self._simulate_with(gradients, backward_s, symmetric=False)

    def _simulate_with(
        self, gradients: list[_core.SimulatedTensor], backward_s: float, symmetric: bool
    ) -> _core.SimulatedStep:
        step: _core.SimulatedStep = load_core().simulate_step(
            self._cluster,
            self._engine,
            self._codecs,
            gradients,
            computations=self._computations,
            backward_threads=self._options.backward_threads,
            backward_s=backward_s,
            symmetric=symmetric,
        )
        return step
