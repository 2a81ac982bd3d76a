# SPDX-License-Identifier: Apache-2.0
"""Predicts steps on other clusters, with the same codec and topology for all gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hipress.options.travel import MIN_COMPRESS_BYTES
from hipress.secopa.models.linked_gradients import default_partitions
from hipress.secopa.models.suitability import takes
from hipress.secopa.models.timeline import TimelineModel, TimelineOptions
from hipress.secopa.plan.choice import RAW, Choice
from hipress.secopa.planners.limits import memory_bytes
from hipress.secopa.planners.options import PlanningOptions
from hipress.secopa.planners.units import units_of
from hipress.secopa.profile.gradients import GradientSet
from hipress.secopa.profile.profile import Profile
from hipress.secopa.whatif.coordinator import questions_per_step
from hipress.secopa.whatif.scenario import Scenario, profile_for


@dataclass(frozen=True)
class UniformChoice:
    """One codec and topology for all gradients. Gradients below `min_compress_bytes` stay uncompressed."""

    codec: str = RAW
    topology: str = "ps"
    min_compress_bytes: int = MIN_COMPRESS_BYTES

    def choices(self, gradients: GradientSet, profile: Profile, world: int) -> list[Choice]:
        """A choice for each gradient, with the engine's default number of partitions."""
        codecs = [self.codec if one.bytes >= self.min_compress_bytes else RAW for one in gradients.gradients]
        return [
            Choice(codec, self.topology, default_partitions(profile, one, codec, world))
            for one, codec in zip(gradients.gradients, codecs, strict=True)
        ]


@dataclass(frozen=True)
class SimulatedStep:
    """A row of `hipress simulate`."""

    nodes: int
    ranks: int
    bandwidth_bytes_per_s: float
    codec: str
    topology: str
    step_s: float
    """Seconds from the start of backward until every rank has every average."""
    efficiency: float | None
    """The share of a training step in which a rank computes forward and backward; None if backward was not measured."""
    sent_bytes: float
    """Bytes that the busiest rank sends to other hosts."""
    cpu_s: float
    """Processor seconds of the busiest rank for synchronisation."""
    memory_bytes: float
    """The largest memory of a rank, without the gradients."""
    questions: int
    """With HIPRESS_COORDINATOR=rank0: a lower bound of the questions to rank 0."""
    coordinator_s: float
    """Processor seconds of rank 0 for its answers to these questions."""


@dataclass(frozen=True)
class Computing:
    """The computing of a training step besides synchronisation."""

    forward_s: float | None = None
    """Duration of forward; None: half of backward."""
    backward_threads: int = 0
    """Threads with which backward computes on the ranks' cores; 0: backward runs on an accelerator."""


def simulate_uniform(
    profile: Profile,
    gradients: GradientSet,
    scenario: Scenario,
    uniform: UniformChoice,
    computing: Computing | None = None,
) -> SimulatedStep:
    """Predicts one row. Raises InvalidArgument if the profile lacks the codec or the scenario cannot be derived from
    it."""
    computing = Computing() if computing is None else computing
    there = profile_for(profile, scenario)
    choices = uniform.choices(gradients, there, scenario.world)
    options = TimelineOptions(backward_threads=computing.backward_threads)
    step = TimelineModel(there, scenario.world, options).step(gradients, choices)
    forward_s = gradients.backward_s / 2 if computing.forward_s is None else computing.forward_s
    computing_s = forward_s + gradients.backward_s
    questions = questions_per_step(there, gradients, choices, scenario)
    return SimulatedStep(
        nodes=scenario.nodes,
        ranks=scenario.world,
        bandwidth_bytes_per_s=there.link.both_ways_bytes_per_s,
        codec=uniform.codec,
        topology=uniform.topology,
        step_s=step.step_s,
        efficiency=computing_s / (forward_s + step.step_s) if computing_s else None,
        sent_bytes=max(step.sent_bytes),
        cpu_s=max(step.cpu_s),
        memory_bytes=memory_bytes(units_of(gradients, there, PlanningOptions()), choices, there, scenario.world),
        questions=questions,
        coordinator_s=questions * (there.link.receive_cpu_s_per_message + there.link.send_cpu_s_per_message),
    )


#: Compression that saves a smaller share of a step is pointless: the duration of steps varies by as much.
POINTLESS = 0.03
#: Bounds of the search for a network in bytes per second, and its precision as a factor.
_SLOWEST, _FASTEST, _EXACTLY = 1e6, 1e12, 1.02


def pointless_from(
    profile: Profile,
    gradients: GradientSet,
    scenario: Scenario,
    codecs: Sequence[str],
    topologies: Sequence[str],
) -> float | None:
    """The rate of the slowest links with which no codec saves more than POINTLESS of a step; None if there are none.

    The search bisects, on the assumption that faster links make compression less useful.
    """

    def is_pointless(bandwidth: float) -> bool:
        there = Scenario(scenario.nodes, scenario.ranks_per_node, bandwidth, scenario.latency_s, scenario.one_machine)
        model = TimelineModel(profile_for(profile, there), there.world)

        def shortest(codec: str) -> float:
            uniforms = (UniformChoice(codec, one) for one in topologies if takes(profile, codec, one))
            choices = (uniform.choices(gradients, profile, there.world) for uniform in uniforms)
            return min(model.step(gradients, each).step_s for each in choices)

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
