# SPDX-License-Identifier: Apache-2.0
"""The rate of a link in the format of tc(8), and the queue that enforces the rate."""

from __future__ import annotations

import re

from .errors import ClusterError

#: The rate of an unlimited link.
UNSHAPED = "none"
#: The payload's share of a TCP stream at MTU 1500: a queue counts 1514 bytes of a frame, of which 1448 are payload.
PAYLOAD_SHARE = 1448 / 1514

_UNITS = {"bit": 1, "kbit": 10**3, "mbit": 10**6, "gbit": 10**9}
#: The smallest burst: two packets of 64 KiB, the largest packet with segmentation offload. With one, the queue would
#: wait for tokens while it still has the first packet.
_MIN_BURST = 128 << 10
#: The size of a shallow switch buffer.
_MIN_LIMIT = 1 << 20
#: The smallest queue: the largest packet with segmentation offload, 64 KiB with the headers of its segments. A smaller
#: queue would drop each such packet.
SMALLEST_LIMIT = 70_000


def bits_per_second(rate: str) -> int | None:
    """Bits per second of a text such as "1gbit" or "2.5mbit"; None for "none". Raises ClusterError for other texts."""
    text = rate.strip().lower()
    if text == UNSHAPED:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?bit)", text)
    bits = round(float(match[1]) * _UNITS[match[2]]) if match else 0
    # At a lower rate the smallest burst would last more than a second, and the link would seem faster than it is.
    if bits < 1_000_000:
        raise ClusterError(f"{rate!r} is not a rate; expected at least 1mbit, such as 100mbit or 2.5gbit, or none")
    return bits


def check_port_limit(limit: int | None, rate: str) -> None:
    """Raises ClusterError if a port of this rate cannot have a queue of `limit` bytes."""
    if limit is not None and limit < SMALLEST_LIMIT:
        raise ClusterError(
            f"a port with a queue of {limit} bytes drops every large packet; give {SMALLEST_LIMIT} or more"
        )
    if limit is not None and bits_per_second(rate) is None:
        raise ClusterError("an unlimited link has no queue; give a rate with the limit of the ports")


def queue_arguments(device: str, rate: str, limit: int | None = None) -> list[str]:
    """The arguments of tc that shape the packets that leave `device`, and replace its present queue.

    `limit`: bytes that may wait there; the queue drops further packets. None: 1 MiB, or more at high rates.
    The queue is tbf, because it is accurate here: an iperf3 stream gets 95.5 % of 1 Gbit/s as payload, and headers
    leave 95.6 %.
    """
    bits = bits_per_second(rate)
    if bits is None:
        # The default queue of the device; del would fail without a queue.
        return ["qdisc", "replace", "dev", device, "root", "noqueue"]
    # Half a millisecond and five milliseconds of the line rate.
    burst = max(_MIN_BURST, bits // 8 // 2000)
    limit = limit or max(_MIN_LIMIT, bits // 8 // 200)
    # The numbers have no units, because the units of tc differ between versions.
    values = ["rate", f"{bits}bit", "burst", str(burst), "limit", str(limit)]
    return ["qdisc", "replace", "dev", device, "root", "tbf", *values]
