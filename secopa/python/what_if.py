# SPDX-License-Identifier: Apache-2.0
"""What a step would take, on clusters that nobody has at hand, if all gradients travelled the same way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hipress.secopa.choice import RAW, Choice
from hipress.secopa.coordinator import questions_per_step
from hipress.secopa.gradients import GradientSet
from hipress.secopa.limits import memory_bytes
from hipress.secopa.models.timeline import TimelineModel, TimelineOptions
from hipress.secopa.partitions import by_size
from hipress.secopa.planning_options import PlanningOptions
from hipress.secopa.profile import Profile
from hipress.secopa.scenario import Scenario, profile_for
from hipress.secopa.units import units_of


@dataclass(frozen=True)
class Way:
    """How all gradients travel. Those of fewer than `min_compress_bytes` are not compressed."""

    codec: str = RAW
    topology: str = "ps"
    min_compress_bytes: int = 4096

    def choices(self, gradients: GradientSet, world: int) -> list[Choice]:
        """In as many partitions as the engine makes of each by itself."""
        return [
            Choice(
                codec=self.codec if one.bytes >= self.min_compress_bytes else RAW,
                topology=self.topology,
                partitions=by_size(one.elements, one.dtype, world),
            )
            for one in gradients.gradients
        ]


@dataclass(frozen=True)
class SimulatedWay:
    """One row of what `hipress simulate` shows."""

    nodes: int
    ranks: int
    bandwidth_bytes_per_s: float
    codec: str
    topology: str
    step_s: float
    """From the start of backward until every rank has every average."""
    efficiency: float | None
    """What of its time a rank computes in, by what it would need alone; None: backward was not measured."""
    sent_bytes: float
    """By the busiest rank, to other nodes."""
    cpu_s: float
    """Of the busiest rank's processors, for synchronisation."""
    memory_bytes: float
    """A rank's, at most, beside the gradients."""
    questions: int
    """That ranks would ask rank 0 with HIPRESS_COORDINATOR=rank0, at least,"""
    coordinator_s: float
    """and what answering them would take a processor there."""


@dataclass(frozen=True)
class Computing:
    """What ranks compute besides synchronising."""

    forward_s: float | None = None
    """None: half of what backward takes."""
    backward_threads: int = 0
    """Threads with which backward computes on the cores that synchronising needs, too; 0: on something else."""


def simulate_way(
    profile: Profile, gradients: GradientSet, scenario: Scenario, way: Way, computing: Computing | None = None
) -> SimulatedWay:
    """Raises InvalidArgument."""
    computing = Computing() if computing is None else computing
    there = profile_for(profile, scenario)
    choices = way.choices(gradients, scenario.world)
    options = TimelineOptions(backward_threads=computing.backward_threads)
    step = TimelineModel(there, scenario.world, options).step(gradients, choices)
    forward_s = gradients.backward_s / 2 if computing.forward_s is None else computing.forward_s
    computing_s = forward_s + gradients.backward_s
    questions = questions_per_step(there, gradients, choices, scenario)
    return SimulatedWay(
        nodes=scenario.nodes,
        ranks=scenario.world,
        bandwidth_bytes_per_s=there.link.both_ways_bytes_per_s,
        codec=way.codec,
        topology=way.topology,
        step_s=step.step_s,
        efficiency=computing_s / (forward_s + step.step_s) if computing_s else None,
        sent_bytes=max(step.sent_bytes),
        cpu_s=max(step.cpu_s),
        memory_bytes=memory_bytes(units_of(gradients, there, PlanningOptions()), choices, there, scenario.world),
        questions=questions,
        coordinator_s=questions * (there.link.receive_cpu_s_per_message + there.link.send_cpu_s_per_message),
    )


#: Compressing that saves less than this of a step is pointless: so much a step varies by itself.
POINTLESS = 0.03
#: Bytes per second between which a network is looked for, and how exactly.
_SLOWEST, _FASTEST, _EXACTLY = 1e6, 1e12, 1.02


def pointless_from(
    profile: Profile,
    gradients: GradientSet,
    scenario: Scenario,
    codecs: Sequence[str],
    topologies: Sequence[str],
) -> float | None:
    """Bytes per second of the slowest links with which no codec saves more than POINTLESS of a step.

    None: none are that fast. Looked for by halving, as if compressing paid the less the faster links are.
    """

    def is_pointless(bandwidth: float) -> bool:
        there = Scenario(scenario.nodes, scenario.ranks_per_node, bandwidth, scenario.latency_s, scenario.one_machine)
        model = TimelineModel(profile_for(profile, there), there.world)

        def shortest(codec: str) -> float:
            ways = (Way(codec, topology) for topology in topologies)
            return min(model.step(gradients, way.choices(gradients, there.world)).step_s for way in ways)

        return min(map(shortest, codecs)) > (1 - POINTLESS) * shortest(RAW)

    return _lowest(is_pointless)


def _lowest(holds: Callable[[float], bool]) -> float | None:
    if not holds(_FASTEST):
        return None
    low, high = _SLOWEST, _FASTEST
    if holds(low):
        return low
    while high > _EXACTLY * low:
        middle = (low * high) ** 0.5
        if holds(middle):
            high = middle
        else:
            low = middle
    return high
