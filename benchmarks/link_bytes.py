# SPDX-License-Identifier: Apache-2.0
"""What crosses a node's link, by the counters of its interface."""

from __future__ import annotations

from pathlib import Path


def link_bytes(interface: str) -> list[int]:
    """Received and sent since the start; empty if `interface` is: there is no link."""
    for line in Path("/proc/net/dev").read_text().splitlines():
        name, _, counters = line.partition(":")
        if interface and name.strip() == interface:
            fields = counters.split()
            return [int(fields[0]), int(fields[8])]
    return []
