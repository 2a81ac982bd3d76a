# SPDX-License-Identifier: Apache-2.0
"""The messages between `hipress run --elastic` and its processes: JSON objects, one in each line.

The launcher begins with {"nonce": ...}, and a process answers with its number and the proof that it knows the job
token. Then a process sends

    {"kind": "ask", "world": 3, "commits": 7, "why": "..."}  it wants a place in the next world; 0: it was in none
    {"kind": "serves", "world": 4, "port": 1}                 it is rank 0 of this world, and listens
    {"kind": "here", "world": 4, "terms": [2, 0.1, 1]}        it has come to an exchange, see RoundTerms; or null
    {"kind": "alive"}                                         the answer to "ping"
    {"kind": "finished"}                                      its training has ended well

and the launcher

    {"kind": "lead", "world": 4, ...}    this process is to be rank 0 of the next world: it answers with "serves"
    {"kind": "place", "world": 4, ...}   the process' place in the world, see placed()
    {"kind": "over", "world": 4, "why"}  the world has lost a process; a process in init() asks again
    {"kind": "news", "world": 4}         other processes wait: ask after the next commit
    {"kind": "go", "world": 4, "room", "late"}   all that take part are here; "room": ask for another world instead
    {"kind": "ping"}                     a process that trains answers, too
    {"kind": "end", "why": "..."}        there is no place for this process any more
"""

from __future__ import annotations

import hmac
import json
import socket
from typing import Any

from hipress.errors import CorruptPayload

#: Bytes of a line, at most.
LONGEST = 1 << 16

Message = dict[str, Any]


def encoded(message: Message) -> bytes:
    """The line of a message."""
    return json.dumps(message).encode() + b"\n"


def proof(token: str, nonce: str) -> str:
    """What shows that a process knows the job token, without telling it to others."""
    return hmac.new(token.encode(), nonce.encode(), "sha256").hexdigest()


def keep_alive(connection: socket.socket) -> None:
    """Lets the connection end when the other host has been silent for half a minute."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4)):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)


class Lines:
    """Makes messages of the bytes that arrive on a connection."""

    def __init__(self) -> None:
        self._rest = b""

    def add(self, received: bytes) -> list[Message]:
        """The messages that `received` completes. Raises CorruptPayload for bytes that are none."""
        *lines, self._rest = (self._rest + received).split(b"\n")
        if max(map(len, (*lines, self._rest))) > LONGEST:
            raise CorruptPayload(f"a line between hipress run and a process has more than {LONGEST} bytes")
        return [_message(line) for line in lines]


def _message(line: bytes) -> Message:
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise CorruptPayload(f"a line between hipress run and a process is no message: {line[:80]!r}")
    return message
