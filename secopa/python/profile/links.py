# SPDX-License-Identifier: Apache-2.0
"""The costs of messages over a link between two hosts, or through the shared memory of a host."""

from __future__ import annotations

from pydantic import Field

from hipress.secopa.profile.document import Part


class LinkCosts(Part):
    """A message takes `latency_s`, plus its bytes divided by `bandwidth_bytes_per_s`, plus processor time at both
    ends."""

    latency_s: float = Field(ge=0)
    """Seconds from the sender's call until the receiver has an empty message."""
    bandwidth_bytes_per_s: float = Field(gt=0)
    """Rate of one direction while the other direction is idle."""
    duplex_bytes_per_s: float | None = Field(default=None, gt=0)
    """Rate of each direction while both are in use; None if it equals the rate of one."""
    send_cpu_s_per_message: float = Field(default=0.0, ge=0)
    send_cpu_s_per_byte: float = Field(default=0.0, ge=0)
    receive_cpu_s_per_message: float = Field(default=0.0, ge=0)
    receive_cpu_s_per_byte: float = Field(default=0.0, ge=0)

    @property
    def both_ways_bytes_per_s(self) -> float:
        """Rate of each direction while both are in use."""
        return self.bandwidth_bytes_per_s if self.duplex_bytes_per_s is None else self.duplex_bytes_per_s

    def seconds(self, size: float) -> float:
        """Seconds of one message of `size` bytes on an idle link."""
        return self.latency_s + size / self.bandwidth_bytes_per_s


class LinkBetween(Part):
    """A link whose costs differ from the typical link. The hosts have the names of the profile's ranks."""

    source: str
    destination: str
    costs: LinkCosts
