# SPDX-License-Identifier: Apache-2.0
"""Shares the address of rank 0 and the job token through a launcher's key-value store."""

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

#: Counts the calls of init() in this process. The number is part of the key, so that init() after shutdown() does not
#: read the earlier address. All ranks call init() equally often.
_meetings = itertools.count()


class Store(Protocol):
    """A launcher's way to carry a text from rank 0 to all ranks of the job."""

    def share(self, key: str, value: str | None, timeout: float) -> str:
        """Rank 0's `value`, on every rank; the other ranks give None. All ranks call it, in the same order.

        Raises `Timeout` if rank 0 does not give it within `timeout` seconds, `TransportError` if the store does not
        work.
        """
        ...


def count_from_before_init() -> None:
    """For a process that meets once and then becomes a program that calls init(): its key is another one."""
    global _meetings
    _meetings = itertools.count(-1)


def next_meeting() -> int:
    """The number of meetings before this one; equal on all ranks."""
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
    """Makes rank 0 listen, and shares its address and a new token through `store` within `timeout` seconds.

    `prefix` distinguishes this job from other jobs in the same store; `listen_to_hosts` makes rank 0's socket in a job
    of several hosts. Every process that can read the store can read the token. So the token protects against confusion
    between jobs, not against an attacker with access to the store. Raises the errors of `share()` and
    `listen_to_hosts()`.
    """
    token = secrets.token_hex(16)
    if place.size == 1:
        return Rendezvous(*place, "127.0.0.1", 0, None, token, source)
    key = f"{prefix}{next_meeting()}"
    if place.rank != 0:
        # Split from the right, because an IPv6 address contains colons.
        fields = store.share(key, None, timeout).rsplit(":", 2)
        if len(fields) != 3 or not fields[1].isdigit():
            raise TransportError(f"key {key} in the store of {source} is not host:port:token, as rank 0 writes it")
        return Rendezvous(*place, fields[0], int(fields[1]), None, fields[2], source)
    # The port is bound before it is published: another process could take a port that is only looked up.
    with listening.on_loopback() if place.on_one_host else listen_to_hosts() as listener:
        host, port = listener.getsockname()[:2]
        store.share(key, f"{host}:{port}:{token}", timeout)
        os.set_inheritable(listener.fileno(), False)
        return Rendezvous(*place, host, port, listener.detach(), token, source)
