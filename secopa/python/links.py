# SPDX-License-Identifier: Apache-2.0
"""What moving bytes costs: over a link between two hosts, or through the memory that ranks of a host share."""

from __future__ import annotations

from pydantic import Field

from hipress.secopa.document import Part


class LinkCosts(Part):
    """A message takes `latency_s` and its bytes at `bandwidth_bytes_per_s`; processors of both ends work for it."""

    latency_s: float = Field(ge=0)
    """From the sender's call until the receiver has an empty message."""
    bandwidth_bytes_per_s: float = Field(gt=0)
    """In one direction, while nothing goes in the other."""
    duplex_bytes_per_s: float | None = Field(default=None, gt=0)
    """In each direction while both are in use; None: the same as in one."""
    send_cpu_s_per_message: float = Field(default=0.0, ge=0)
    send_cpu_s_per_byte: float = Field(default=0.0, ge=0)
    receive_cpu_s_per_message: float = Field(default=0.0, ge=0)
    receive_cpu_s_per_byte: float = Field(default=0.0, ge=0)

    @property
    def both_ways_bytes_per_s(self) -> float:
        """What a link carries in each direction in an exchange."""
        return self.bandwidth_bytes_per_s if self.duplex_bytes_per_s is None else self.duplex_bytes_per_s

    def seconds(self, size: float) -> float:
        """One message of `size` bytes, with nothing else under way."""
        return self.latency_s + size / self.bandwidth_bytes_per_s


class LinkBetween(Part):
    """A link that is unlike the others. Hosts by the names in the profile's ranks."""

    source: str
    destination: str
    costs: LinkCosts
