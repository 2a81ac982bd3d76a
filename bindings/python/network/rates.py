# SPDX-License-Identifier: Apache-2.0
"""Measures networks whose drivers give no rate or the same rate, by a short stream over each.

The hosts form a ring: each sends to the next host and receives from the previous one. The rate of a network is the rate
of its slowest link.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from hipress.errors import TransportError
from hipress.network.choice import Host, Network

#: Seconds of a stream, and the seconds at its start that do not count: a stream starts slowly, and at first the buffers
#: of a link take bytes.
STREAM, START = 0.1, 0.03
#: Number of measurements of each network, in turn. The best counts, because other activity only slows a stream down.
ROUNDS = 2
#: Deadline in seconds for a connection (TCP repeats a lost packet once in this time), and for the receiver to read.
CONNECT = 3.0
_PIECE = 256 << 10
_TICKET = 16

AllGather = Callable[[str, bytes], Sequence[bytes]]


@dataclass(frozen=True)
class Unconnected:
    """A host cannot connect to the next host over a network."""

    reason: str


def measure(
    allgather: AllGather, hosts: Sequence[Host], own: int | None, found: Sequence[Network]
) -> list[float | Unconnected]:
    """The rates of networks in Mbit/s. All ranks call it and get the same rates.

    Arguments:
        allgather: returns the values of all ranks for a key, in rank order.
        own: the number of this rank's host if this rank measures for it; None: another rank of the host measures.
    """
    if own is None:
        for key in ("network.ports", "network.sent"):
            allgather(key, b"")
        received = allgather("network.received", b"")
    else:
        with _receiving([network.devices[own].ip for network in found]) as (offer, rates):
            offers = allgather("network.ports", offer)
            reasons = _send_to_next(hosts, own, found, json.loads(offers[hosts[(own + 1) % len(hosts)].rank]))
            # A rank receives until all ranks have sent.
            allgather("network.sent", b"")
        links = [reason or None for reason in reasons], rates
        received = allgather("network.received", json.dumps(links).encode())
    results = [json.loads(each) for each in received if each]
    return [
        _of_network([(reasons[number], rates[number]) for reasons, rates in results]) for number in range(len(found))
    ]


def _of_network(ends: Sequence[tuple[str | None, float]]) -> float | Unconnected:
    """The result for one network, from each host's reason of failed sending and its rate of receiving."""
    reason = next((reason for reason, _ in ends if reason), None)
    return Unconnected(reason) if reason else min(rate for _, rate in ends)


def _send_to_next(hosts: Sequence[Host], own: int, found: Sequence[Network], offer: dict[str, object]) -> list[str]:
    """For each network, the reason why this host did not reach the next host; "": it did."""
    ports, ticket = offer["ports"], bytes.fromhex(str(offer["ticket"]))
    assert isinstance(ports, list)
    reasons = [""] * len(found)
    for number in [number for _ in range(ROUNDS) for number in range(len(found))]:
        if reasons[number]:
            continue
        here, there = found[number].devices[own], found[number].devices[(own + 1) % len(hosts)]
        try:
            _send(here.ip, (there.ip, ports[number]), ticket)
        except OSError as error:
            one, other = hosts[own], hosts[(own + 1) % len(hosts)]
            reasons[number] = (
                f"rank {one.rank} ({one.name}) cannot connect from its {here.name} ({here.ip}) to {there.name} "
                f"({there.ip}) of rank {other.rank} ({other.name}): {error}"
            )
    return reasons


def _send(source: str, destination: tuple[str, int], ticket: bytes) -> None:
    """Sends a stream until the receiver closes it. Like UCX, it sends from the device's address."""
    piece = bytes(_PIECE)
    with socket.create_connection(destination, CONNECT, (source, 0)) as stream:
        stream.sendall(ticket)
        with contextlib.suppress(ConnectionError):
            while True:
                stream.send(piece)


@contextlib.contextmanager
def _receiving(addresses: Sequence[str]) -> Iterator[tuple[bytes, list[float]]]:
    """Receives streams within this context. Yields the message with the ports for the previous host, and the list of
    the best rate per address.
    """
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(_listener(address)) for address in addresses]
        ticket = secrets.token_bytes(_TICKET)
        ports = [listener.getsockname()[1] for listener in listeners]
        rates = [0.0] * len(addresses)
        ended, wake = stack.enter_context(_pipe())

        def receive() -> None:
            while True:
                ready, _, _ = select.select([ended, *listeners], [], [])
                if ended in ready:
                    return
                for number, listener in enumerate(listeners):
                    if listener in ready:
                        rates[number] = max(rates[number], _receive(listener, ticket))

        receiver = threading.Thread(target=receive, name="hipress rates", daemon=True)
        receiver.start()
        try:
            yield json.dumps({"ports": ports, "ticket": ticket.hex()}).encode(), rates
        finally:
            wake.close()
            receiver.join()


@contextlib.contextmanager
def _pipe() -> Iterator[tuple[socket.socket, socket.socket]]:
    ends = socket.socketpair()
    with ends[0], ends[1]:
        yield ends


def _receive(listener: socket.socket, ticket: bytes) -> float:
    """The rate of one stream; 0 for a connection without a valid stream."""
    try:
        with listener.accept()[0] as stream:
            stream.settimeout(CONNECT)
            if hmac.compare_digest(stream.recv(_TICKET, socket.MSG_WAITALL), ticket):
                return _rate_of(stream)
    except OSError:  # The sender has closed the connection, or sends nothing.
        pass
    return 0.0


def _listener(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        return socket.create_server((address, 0), family=family)
    except OSError as error:
        raise TransportError(
            f"this host cannot listen on its own address {address}: {error}; HIPRESS_NET names another network"
        ) from error


def _rate_of(stream: socket.socket) -> float:
    """The rate in Mbit/s of the bytes that arrive between START and STREAM."""
    buffer = bytearray(_PIECE)
    begun = time.perf_counter()
    counted, since = 0, begun
    while (now := time.perf_counter()) - begun < STREAM:
        if since == begun and now - begun >= START:
            counted, since = 0, now
        stream.settimeout(max(STREAM - (now - begun), 0.001))
        try:
            received = stream.recv_into(buffer)
        except TimeoutError:
            break
        if received == 0:
            break
        counted += received
    return counted * 8e-6 / max(time.perf_counter() - since, 1e-6)
