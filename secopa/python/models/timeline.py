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
from hipress.secopa.models.simulated_costs import are_alike, engine_costs, simulated_cluster, simulated_codec
from hipress.secopa.models.synchronized_tensors import synchronized_tensors
from hipress.secopa.plan.choice import Choice
from hipress.secopa.profile.gradients import ELEMENT_BYTES, Gradient, GradientSet
from hipress.secopa.profile.profile import Profile

if TYPE_CHECKING:
    from hipress import _core


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
        self._options = TimelineOptions() if options is None else options
        self._cluster = simulated_cluster(profile, world)
        self._engine = engine_costs(profile)
        self._numbers = {text: number for number, text in enumerate(profile.codecs)}
        self._codecs = [simulated_codec(costs) for costs in profile.codecs.values()]
        alike = not profile.links and are_alike(profile.places(world))
        self._symmetric = alike and world > self._options.exact_up_to
        #: Topologies in which ranks have different tasks; found when the symmetric simulation refuses one.
        self._one_by_one: set[str] = set()

    def gradient_s(self, elements: int, choice: Choice) -> float:
        alone = GradientSet(gradients=(Gradient(name="gradient", elements=elements),))
        return self.step(alone, [choice]).step_s

    def step(self, gradients: GradientSet, choices: Sequence[Choice]) -> StepPrediction:
        together = synchronized_tensors(gradients, choices)
        described = [
            (
                one.name,
                one.elements,
                ELEMENT_BYTES[gradients.gradients[one.members[0]].dtype],
                self._codec(one.choice),
                one.choice.topology,
                one.choice.partitions,
                -one.members[0],
                one.release_s,
                len(one.members),
                self.profile.message_times(one.choice.topology, one.choice.compressed),
            )
            for one in together
        ]
        outcome = self._simulate(described, {one.choice.topology for one in together}, gradients.backward_s)
        times = [GradientTimes(0.0, 0.0)] * len(gradients.gradients)
        for one, ended in zip(together, outcome.gradients, strict=True):
            alike = GradientTimes(one.release_s, ended.end_s)
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

    def _codec(self, choice: Choice) -> int:
        if not choice.compressed:
            return -1
        self.profile.codec(choice.codec)
        return self._numbers[choice.codec]

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
            backward_threads=self._options.backward_threads,
            backward_s=backward_s,
            symmetric=symmetric,
        )
        return step
