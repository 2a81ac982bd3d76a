# SPDX-License-Identifier: Apache-2.0
"""Agreeing on a meeting point through a launcher's key-value store."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
from collections.abc import Callable
from typing import Protocol

from hipress.errors import TransportError
from hipress.launch.rendezvous import listening
from hipress.launch.rendezvous.place import Place, Rendezvous

#: How often this process met others so far. Part of the key, so that init() after shutdown() does not read the meeting
#: point of the time before. All ranks call init() equally often.
_meetings = itertools.count()


class Store(Protocol):
    """A launcher's way to carry a text from rank 0 to all ranks of the job."""

    def share(self, key: str, value: str | None, timeout: float) -> str:
        """What rank 0 gives as `value`, on every rank; the others give None. All ranks call it, in the same order.

        Raises `Timeout` if rank 0 never gives it within `timeout` seconds, `TransportError` if the store does not work.
        """
        ...


def next_meeting() -> int:
    """How many meetings were before this one; alike on all ranks."""
    return next(_meetings)


def meet(
    store: Store,
    place: Place,
    *,
    source: str,
    prefix: str,
    listen_to_hosts: Callable[[], socket.socket],
    timeout: float,
) -> Rendezvous:
    """Rank 0 listens, and tells the others where, with a new token, through `store`. Within `timeout` seconds.

    `prefix` sets this job apart from others in the same store; `listen_to_hosts` makes rank 0's socket in a job of
    several hosts. Every process that can read the store can read the token: stores have no secrets of their own, so the
    token protects against confusion between jobs, not against an attacker with access to the store. Raises the errors
    of `share()` and `listen_to_hosts()`.
    """
    token = secrets.token_hex(16)
    if place.size == 1:
        return Rendezvous(*place, "127.0.0.1", 0, None, token, source)
    key = f"{prefix}{next_meeting()}"
    if place.rank != 0:
        # From the right: an IPv6 host has colons of its own.
        fields = store.share(key, None, timeout).rsplit(":", 2)
        if len(fields) != 3 or not fields[1].isdigit():
            raise TransportError(f"key {key} in the store of {source} is not host:port:token, as rank 0 writes it")
        return Rendezvous(*place, fields[0], int(fields[1]), None, fields[2], source)
    # Bound before it is published: a port that is only looked up could be taken by the time it is used.
    with listening.on_loopback() if place.on_one_host else listen_to_hosts() as listener:
        host, port = listener.getsockname()[:2]
        store.share(key, f"{host}:{port}:{token}", timeout)
        os.set_inheritable(listener.fileno(), False)
        return Rendezvous(*place, host, port, listener.detach(), token, source)
