# SPDX-License-Identifier: Apache-2.0
"""The base of the published models: a formula per gradient; gradients are synchronised one after the other.

Only backward overlaps with synchronisation: the synchronisation of a gradient begins when backward has released it and
the previous synchronisation has ended. So the shortest step has the shortest synchronisation of each gradient.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from hipress.errors import InvalidArgument
from hipress.secopa.models.cost_model import GradientTimes, StepPrediction
from hipress.secopa.models.synchronized_tensors import SynchronizedTensor, synchronized_tensors
from hipress.secopa.plan.choice import Choice
from hipress.secopa.profile.gradients import Gradient, GradientSet
from hipress.secopa.profile.linked import LinkedCosts
from hipress.secopa.profile.profile import CodecCosts, CodecTimes, Profile


class SerialModel(ABC):
    """A model with a formula for one gradient. `world`: number of ranks; the model takes each rank for a host."""

    name: str
    topologies: tuple[str, ...] = ("ps", "ring")

    def __init__(self, profile: Profile, world: int) -> None:
        if world < 1:
            raise InvalidArgument(f"expected one rank at least, not {world}")
        self.profile = profile
        self.world = world
        #: The formulas have one message per partition, and an aggregator that adds its own values unencoded.
        self.codecs = tuple(text for text, costs in profile.codecs.items() if not costs.merges_decoded)

    @abstractmethod
    def uncompressed_s(self, size: float, partitions: int, topology: str) -> float:
        """Seconds for an uncompressed gradient of `size` bytes."""

    @abstractmethod
    def compressed_s(self, size: float, encoded: float, times: CodecTimes, partitions: int, topology: str) -> float:
        """Seconds for a gradient of `size` bytes of float32, whose encoding has `encoded` bytes."""

    @abstractmethod
    def max_partitions(self) -> int:
        """The largest number of partitions that is worth a prediction by this model."""

    def gradient_s(self, elements: int, choice: Choice) -> float:
        return self._exchange_s(4 * elements, elements, choice)

    def exchange_s(self, gradient: Gradient, choice: Choice) -> float:
        """gradient_s() for a gradient of any element type."""
        return self._exchange_s(gradient.bytes, gradient.elements, choice)

    def step(self, gradients: GradientSet, choices: Sequence[Choice]) -> StepPrediction:
        together = synchronized_tensors(gradients, choices)
        times = [GradientTimes(0.0, 0.0)] * len(gradients.gradients)
        now = 0.0
        for one in sorted(together, key=lambda one: one.release_s):
            now = max(now, one.release_s) + self._exchange_s(one.bytes, one.elements, one.choice)
            for member in one.members:
                times[member] = GradientTimes(one.release_s, now)
        sent = round(sum(self._sent_bytes(one) for one in together))
        cpu_s = sum(self._cpu_s(one) for one in together)
        return StepPrediction(
            step_s=max(now, gradients.backward_s),
            backward_s=gradients.backward_s,
            gradients=tuple(times),
            sent_bytes=(sent,) * self.world,
            cpu_s=(cpu_s,) * self.world,
        )

    def _exchange_s(self, size: int, elements: int, choice: Choice) -> float:
        topology, partitions = choice.topology, choice.partitions
        if topology not in self.topologies:
            raise InvalidArgument(
                f"model {self.name} knows the topologies ps and ring, not {topology}: use the model timeline for it"
            )
        if self.world == 1:
            return 0.0
        costs = self._costs(choice)
        if costs is None:
            return self.uncompressed_s(size, partitions, topology)
        times = costs.times(self.profile.compute_threads)
        return self.compressed_s(4 * elements, costs.encoded.of(4 * elements), times, partitions, topology)

    def _costs(self, choice: Choice) -> CodecCosts | None:
        if not choice.compressed:
            return None
        costs = self.profile.costs(choice.codec)
        if isinstance(costs, LinkedCosts) or costs.merges_decoded:
            raise InvalidArgument(
                f"model {self.name} has no formula for codec '{choice.codec}', which needs more messages or "
                "computations than other codecs: use the model timeline for it"
            )
        return costs

    def _sent_bytes(self, one: SynchronizedTensor) -> float:
        """The formula of docs/algorithms.md, which is the same for ps and ring."""
        costs = self._costs(one.choice)
        size = one.bytes if costs is None else costs.encoded.of(4 * one.elements)
        return 2 * size * (self.world - 1) / self.world

    def _cpu_s(self, one: SynchronizedTensor) -> float:
        """The seconds of K encodes and K(2N−1)/N decodes, the numbers of docs/algorithms.md for ps and ring."""
        costs = self._costs(one.choice)
        partitions, world = one.choice.partitions, self.world
        if world == 1:
            return 0.0
        if costs is None:
            return partitions * (world - 1) / world * self.profile.sum.seconds(one.bytes / partitions)
        times = costs.times(self.profile.compute_threads)
        piece = 4 * one.elements / partitions
        decodes = partitions * (2 * world - 1) / world
        return partitions * times.encode.seconds(piece) + decodes * times.decode.seconds(piece)
