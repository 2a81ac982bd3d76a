# SPDX-License-Identifier: Apache-2.0
"""The cost model of the paper (SOSP'21, §3.3, equations 1 and 2, Table 3), for aggregators on the workers' hosts.

    T_orig(m, K) = α·T_send(m/K)
    T_cpr (m, K) = α·T_send(r·m/K) + β·T_enc(m/K) + γ·T_dec(r·m/K)

    ring: α = 2(N−1), β = γ = N          ps: α = 2(N−1), β = K, γ = N

K partitions on N < K hosts form ⌈K/N⌉ batches, and a batch costs at most as much as K = N partitions. The model omits
merging, as the paper does. m is in bytes; r is the compression rate of the profile's codec at this size.
"""

from __future__ import annotations

import math

from hipress.secopa.models.serial import SerialModel
from hipress.secopa.profile.profile import CodecTimes, Profile


class PaperModel(SerialModel):
    """The equations of the module's docstring."""

    name = "paper"
    #: The largest number of batches to try: more batches lengthen every term except the first, and hardly shorten the
    #: first.
    BATCHES = 4

    def __init__(self, profile: Profile, world: int) -> None:
        super().__init__(profile, world)
        hosts = list(dict.fromkeys(place.host for place in profile.places(world)))
        links = [profile.between(source, other) for source in hosts for other in hosts if source != other]
        self._links = list(dict.fromkeys(links)) or [profile.link]

    def max_partitions(self) -> int:
        return self.BATCHES * self.world

    def send_s(self, size: float) -> float:
        """T_send. The paper assumes equal links; where links differ, each communication step waits for the slowest."""
        if self.profile.collectives is not None:
            return self.profile.collectives.ring_step.seconds(size)
        return max(link.seconds(size) for link in self._links)

    def uncompressed_s(self, size: float, partitions: int, topology: str) -> float:
        return self._batches(partitions) * 2 * (self.world - 1) * self.send_s(size / partitions)

    def compressed_s(self, size: float, encoded: float, times: CodecTimes, partitions: int, topology: str) -> float:
        encodes = self.world if topology == "ring" else min(partitions, self.world)
        batch = (
            2 * (self.world - 1) * self.send_s(encoded / partitions)
            + encodes * times.encode.seconds(size / partitions)
            + self.world * times.decode.seconds(size / partitions)
        )
        return self._batches(partitions) * batch

    def _batches(self, partitions: int) -> int:
        return math.ceil(partitions / self.world)
