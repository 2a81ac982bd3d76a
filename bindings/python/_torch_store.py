# SPDX-License-Identifier: Apache-2.0
"""Agreeing on a meeting point through torch.distributed's key-value store, which torchrun provides."""

from __future__ import annotations

import itertools
import os
import secrets
import socket
from dataclasses import dataclass
from datetime import timedelta

from torch.distributed import DistError, DistStoreError, TCPStore  # type: ignore[attr-defined]

from hipress.errors import InvalidArgument, Timeout, TransportError

#: Stores that this process serves. They stay up for its life: another rank may still be reading, or may reach the same
#: port for its own init_process_group(), which shares the server with ours (multi_tenant).
_served: list[TCPStore] = []

#: How often this process met others so far. Part of the key, so that init() after shutdown() does not read the meeting
#: point of the time before. All ranks call init() equally often.
_meetings = itertools.count()


@dataclass(frozen=True)
class StoreAddress:
    """Where the store is; `agent_owns_it`: torchrun's agent serves it, otherwise rank 0 of the job does."""

    host: str
    port: int
    agent_owns_it: bool


@dataclass(frozen=True)
class MeetingPoint:
    """Where rank 0 serves; on rank 0 with the listening socket, which the receiver owns."""

    host: str
    port: int
    token: str
    listen_fd: int | None


def meet(address: StoreAddress, *, prefix: str, rank: int, one_host: bool, timeout: float) -> MeetingPoint:
    """Rank 0 binds a free port and publishes it with a new token; the others read both. Within `timeout` seconds.

    `prefix` sets this job and this restart of it apart from others in the same store. With `one_host` (all ranks on
    this host) the port is bound on the loopback interface only. Whoever can read the store can read the token: the
    store has no secrets of its own, so it protects against confusion between jobs, not against an attacker in there.
    Raises `Timeout` if rank 0 never publishes, `TransportError` if the store cannot be reached.
    """
    store = _open(address, rank, timeout)
    key = f"{prefix}{next(_meetings)}/rendezvous"
    try:
        if rank == 0:
            # Bound before it is published: a port that is only looked up could be taken by the time it is used.
            listener = _listen("127.0.0.1" if one_host else address.host, one_host)
            host, port = listener.getsockname()[:2]
            token = secrets.token_hex(16)
            try:
                store.set(key, f"{host}:{port}:{token}")
            except BaseException:
                listener.close()
                raise
            os.set_inheritable(listener.fileno(), False)
            return MeetingPoint(host, port, token, listener.detach())
        published = store.get(key).decode()
    except DistStoreError as error:
        raise Timeout(
            f"rank {rank} waited {timeout:g} s for rank 0 to publish where ranks meet (key {key} in the store at "
            f"{address.host}:{address.port}); did rank 0 call init()? ({_first_line(error)})"
        ) from error
    except DistError as error:
        raise TransportError(
            f"the torch.distributed store at {address.host}:{address.port} failed: {_first_line(error)}"
        ) from error
    # From the right: an IPv6 host has colons of its own.
    fields = published.rsplit(":", 2)
    if len(fields) != 3 or not fields[1].isdigit():
        raise TransportError(f"key {key} in the store at {address.host}:{address.port} is not host:port:token")
    return MeetingPoint(fields[0], int(fields[1]), fields[2], None)


def _open(address: StoreAddress, rank: int, timeout: float) -> TCPStore:
    serves = rank == 0 and not address.agent_owns_it
    try:
        store = TCPStore(
            address.host,
            address.port,
            is_master=serves,
            timeout=timedelta(seconds=timeout),
            wait_for_workers=False,
            multi_tenant=serves,
        )
    except (DistError, RuntimeError, ValueError) as error:
        role = "serve" if serves else "reach"
        raise TransportError(
            f"rank {rank} could not {role} the torch.distributed store at MASTER_ADDR:MASTER_PORT = "
            f"{address.host}:{address.port} within {timeout:g} s: {_first_line(error)}"
        ) from error
    if serves:
        _served.append(store)
    return store


def _listen(host: str, one_host: bool) -> socket.socket:
    """A listening socket on a free port of the interface that `host` names here, on rank 0's host.

    torchrun may have put its store on another host than rank 0's; then the interface that leads to it is taken.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise TransportError(f"MASTER_ADDR={host} cannot be resolved on rank 0's host: {error}") from error
    for family, _, _, _, sockaddr in found:
        try:
            return _checked(socket.create_server((str(sockaddr[0]), 0), family=family, backlog=1024), host, one_host)
        except OSError:
            continue
    family, _, _, _, sockaddr = found[0]
    try:
        # Connecting a datagram socket sends nothing; it only makes the system choose the interface.
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((sockaddr[0], 9))
            local = str(probe.getsockname()[0])
        return _checked(socket.create_server((local, 0), family=family, backlog=1024), host, one_host)
    except OSError as error:
        raise TransportError(
            f"rank 0 cannot listen on an interface that leads to MASTER_ADDR={host}: {error}"
        ) from error


def _checked(listener: socket.socket, host: str, one_host: bool) -> socket.socket:
    """Refuses a host name that means loopback here (as some systems' /etc/hosts has it for the host's own name) in a
    job of several hosts: the others would try in vain until the timeout. Loopback asked for literally is let pass:
    two agents on one machine, for a test."""
    address = str(listener.getsockname()[0])
    loopback = address.startswith("127.") or address == "::1"
    if loopback and not one_host and host not in ("localhost", address):
        listener.close()
        raise InvalidArgument(
            f"MASTER_ADDR={host!r} is {address} on rank 0's host, which the job's other hosts cannot reach: expected "
            f"an address or name of an interface that they reach (torchrun --master-addr=ADDRESS)."
        )
    return listener


def _first_line(error: BaseException) -> str:
    # torch appends a C++ backtrace.
    return str(error).strip().partition("\n")[0]
