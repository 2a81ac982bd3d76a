# SPDX-License-Identifier: Apache-2.0
"""A cost model for the planner's tests: gradients overlap on one processor and one link, in one order of priority."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from hipress.secopa.models.cost_model import GradientTimes, StepPrediction
from hipress.secopa.models.synchronized_tensors import SynchronizedTensor, synchronized_tensors
from hipress.secopa.plan.choice import Choice
from hipress.secopa.profile.gradients import Gradient, GradientSet
from hipress.secopa.profile.profile import Profile


class PipelineModel:
    """Each partition is encoded, sent and decoded. Encoding and decoding share a processor, and backward does not use
    it."""

    name = "pipeline"
    topologies: tuple[str, ...] = ()

    def __init__(self, profile: Profile, world: int) -> None:
        self.profile = profile
        self.world = world
        self.codecs = tuple(profile.codecs)
        self.asked = 0  # the number of questions about whole steps

    def gradient_s(self, elements: int, choice: Choice) -> float:
        return self.step(GradientSet(gradients=(Gradient(name="", elements=elements),)), [choice]).step_s

    def step(self, gradients: GradientSet, choices: Sequence[Choice]) -> StepPrediction:
        self.asked += len(gradients.gradients) > 1
        together = synchronized_tensors(gradients, choices)
        pieces = [index for index, one in enumerate(together) for _ in range(one.choice.partitions)]
        stages = [self._stages(one) for one in together]
        ends = [together[index].release_s for index in pieces]
        cpu_s = 0.0
        # In each stage, a resource takes the most urgent of the partitions that are ready.
        encoded = _one_at_a_time(ends, [stages[index][0] for index in pieces], pieces)
        sent = _one_at_a_time(encoded, [stages[index][1] for index in pieces], pieces)
        done = _one_at_a_time(sent, [stages[index][2] for index in pieces], pieces)
        times = [GradientTimes(0.0, 0.0)] * len(gradients.gradients)
        for index, one in enumerate(together):
            end = max(end for end, piece in zip(done, pieces, strict=True) if piece == index)
            cpu_s += (stages[index][0] + stages[index][2]) * one.choice.partitions
            for member in one.members:
                times[member] = GradientTimes(one.release_s, end)
        step_s = max([gradients.backward_s, cpu_s, *done])
        return StepPrediction(step_s, gradients.backward_s, tuple(times), (0,) * self.world, (cpu_s,) * self.world)

    def _stages(self, one: SynchronizedTensor) -> tuple[float, float, float]:
        """The seconds for encoding, sending and decoding one partition."""
        piece = one.bytes / one.choice.partitions
        hops = 2 * (self.world - 1) / self.world
        latency = 2 if one.choice.topology == "ps" else 2 * (self.world - 1)
        if not one.choice.compressed:
            link = self.profile.link
            return 0.0, latency * link.latency_s + hops * piece / link.bandwidth_bytes_per_s, 0.0
        costs = self.profile.codec(one.choice.codec)
        times = costs.times(1)
        sent = costs.encoded.of(4 * one.elements) / one.choice.partitions
        link_s = latency * self.profile.link.latency_s + hops * sent / self.profile.link.bandwidth_bytes_per_s
        decode_s = times.decode.seconds(piece) * (2 if one.choice.topology == "ps" else 1.5)
        return times.encode.seconds(piece), link_s, decode_s


def _one_at_a_time(ready: Sequence[float], lasts: Sequence[float], urgency: Sequence[int]) -> list[float]:
    """The time at which each piece is done, on a resource that takes the most urgent ready piece first."""
    ends = [0.0] * len(ready)
    coming = sorted(range(len(ready)), key=lambda piece: ready[piece])
    waiting: list[tuple[int, int]] = []
    now, at = 0.0, 0
    while at < len(coming) or waiting:
        if not waiting:
            now = max(now, ready[coming[at]])
        while at < len(coming) and ready[coming[at]] <= now:
            heapq.heappush(waiting, (urgency[coming[at]], coming[at]))
            at += 1
        _, piece = heapq.heappop(waiting)
        now += lasts[piece]
        ends[piece] = now
    return ends
