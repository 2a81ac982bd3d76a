# SPDX-License-Identifier: Apache-2.0
"""Where the processes of an elastic job connect to their launcher. No call blocks: the launcher's loop waits."""

from __future__ import annotations

import contextlib
import fcntl
import hmac
import secrets
import socket
import struct
import termios
from collections.abc import Callable
from functools import partial

from hipress.errors import CorruptPayload
from hipress.launch.elastic.membership import Membership
from hipress.launch.elastic.rounds import RoundTerms
from hipress.launch.worlds.messages import Lines, Message, encoded, keep_alive, proof

_RECEIVED_AT_ONCE = 1 << 16
#: Seconds for which a host acknowledges nothing before it is unreachable. A host acknowledges at once, whatever its
#: processes do.
_UNREACHABLE = 2.5
#: Seconds between two looks at all connections.
_LOOK_INTERVAL = 0.5
#: Connections of which the launcher does not know the process yet, at most.
_MOST_STRANGERS = 256


class _Connection:
    def __init__(self, accepted: socket.socket, host: str) -> None:
        self.socket = accepted
        self.host = host
        self.lines = Lines()
        self.nonce = secrets.token_hex(16)
        self.number: int | None = None  # of its process; None: it has not shown that it is one
        self.unacknowledged: float | None = None  # since when its host has not acknowledged all that was sent


class MembershipServer:
    """The connections of the processes of `membership`. `host`: the address at which it listens; empty: all of them."""

    def __init__(self, membership: Membership, token: str, host: str) -> None:
        self._membership = membership
        self._token = token
        self._listener = socket.create_server((host, 0), backlog=128)
        self._listener.setblocking(False)
        self._connections: dict[int, _Connection] = {}
        self._look_at = 0.0
        self.port: int = self._listener.getsockname()[1]

    def ready(self) -> dict[int, Callable[[float], None]]:
        """The file descriptors to wait for, and what to call, with the time, when one can be read."""
        descriptors: dict[int, Callable[[float], None]] = {self._listener.fileno(): self._accept}
        for descriptor in self._connections:
            descriptors[descriptor] = partial(self._read, descriptor)
        return descriptors

    def send(self, now: float) -> None:
        """Sends the messages of the membership. A process that does not take them is lost."""
        while self._membership.outbox:
            number, message = self._membership.outbox.pop(0)
            for descriptor, connection in list(self._connections.items()):
                if connection.number == number and not _sent(connection.socket, message):
                    self._close(descriptor, "does not read what hipress run sends", now)

    def unreachable(self, now: float) -> list[int]:
        """The processes whose hosts have acknowledged nothing for a while: a link or the host is down."""
        if now < self._look_at:
            return []
        self._look_at = now + _LOOK_INTERVAL
        found = []
        for connection in self._connections.values():
            if not _unacknowledged(connection.socket):
                connection.unacknowledged = None
            elif connection.unacknowledged is None:
                connection.unacknowledged = now
            elif now - connection.unacknowledged > _UNREACHABLE and connection.number is not None:
                found.append(connection.number)
        return found

    def drop(self, number: int) -> None:
        """Closes the connection of a process that has ended."""
        for descriptor, connection in list(self._connections.items()):
            if connection.number == number:
                del self._connections[descriptor]
                connection.socket.close()

    def close(self) -> None:
        """Closes all connections."""
        self._listener.close()
        for connection in self._connections.values():
            connection.socket.close()
        self._connections.clear()

    def _accept(self, _now: float) -> None:
        with contextlib.suppress(OSError):
            accepted, address = self._listener.accept()
            keep_alive(accepted)
            strangers = sum(each.number is None for each in self._connections.values())
            connection = _Connection(accepted, str(address[0]))
            if strangers >= _MOST_STRANGERS or not _sent(accepted, {"nonce": connection.nonce}):
                accepted.close()
                return
            self._connections[accepted.fileno()] = connection

    def _read(self, descriptor: int, now: float) -> None:
        connection = self._connections.get(descriptor)
        if connection is None:
            return
        try:
            received = connection.socket.recv(_RECEIVED_AT_ONCE, socket.MSG_DONTWAIT)
            messages = connection.lines.add(received)
            for message in messages:
                self._take(connection, message, now)
        except BlockingIOError:
            return
        except (OSError, CorruptPayload, KeyError, TypeError, ValueError):
            received = b""
        if not received:
            self._close(descriptor, "has closed its connection to hipress run", now)

    def _address_of(self, leader: _Connection) -> str:
        """Where all processes of the next world reach rank 0. On the launcher's host that is the address to which the
        processes of other hosts have connected."""
        own = leader.socket.getpeername()[0]
        if own != leader.socket.getsockname()[0]:
            return str(own)
        others = (each for each in self._connections.values() if each.number in self._membership.next_numbers)
        found = (str(each.socket.getsockname()[0]) for each in others if each.host != leader.host)
        return next(found, str(own))

    def _close(self, descriptor: int, why: str, now: float) -> None:
        connection = self._connections.pop(descriptor)
        connection.socket.close()
        if connection.number is not None:
            self._membership.gone(connection.number, why, now)

    def _take(self, connection: _Connection, message: Message, now: float) -> None:
        """Hands a message on. Raises an error for bytes of no process of this job."""
        if connection.number is None:
            if not hmac.compare_digest(proof(self._token, connection.nonce), str(message["proof"])):
                raise CorruptPayload("a wrong job token")
            number = int(message["number"])
            if not self._membership.arrived(number, connection.host, now):
                raise CorruptPayload(f"there is no process {number} to come")
            connection.number = number
            return
        number, kind = connection.number, message["kind"]
        if kind == "ask":
            asked = int(message["world"]), int(message["commits"]), str(message["why"])
            self._membership.asked(number, *asked, now)
        elif kind == "serves":
            self._membership.serves(
                number, int(message["world"]), self._address_of(connection), int(message["port"]), now
            )
        elif kind == "here":
            terms = message["terms"]
            self._membership.here(number, int(message["world"]), RoundTerms(*terms) if terms else None, now)
        elif kind == "alive":
            self._membership.alive(number, now)
        elif kind == "finished":
            self._membership.finished(number, now)


def _unacknowledged(connection: socket.socket) -> int:
    """Bytes that were sent, and that the other host's kernel has not acknowledged."""
    (count,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, struct.pack("i", 0)))
    return int(count)


def _sent(connection: socket.socket, message: Message) -> bool:
    """Sends a short message, which a process that reads takes at once. Returns whether it did."""
    line = encoded(message)
    try:
        return connection.send(line, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL) == len(line)
    except OSError:
        return False
