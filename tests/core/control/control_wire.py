# SPDX-License-Identifier: Apache-2.0
"""The bytes of the control connection, made by the tests: for strangers and for ranks that misbehave."""

from __future__ import annotations

import hashlib
import hmac
import socket
import struct

from tests.core.control.control_ranks import PATIENCE, TOKEN

MAGIC = 0x43505248
VERSION = 8
HELLO, PROOF, WELCOME, REFUSED, REPLY, CHALLENGE = 1, 7, 64, 65, 67, 69
NONCE = bytes(range(32))


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack("<IB", len(payload), kind) + payload


def text(value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + value


def hello(rank: int, size: int, *, version: int = VERSION, magic: int = MAGIC, nonce: bytes = NONCE) -> bytes:
    payload = struct.pack("<IHii", magic, version, rank, size) + text(b"host") + struct.pack("<q", 4242) + text(nonce)
    return frame(HELLO, payload)


def proof(who: str, said: bytes, nonce: bytes, token: str = TOKEN) -> bytes:
    """The proof of an end ("rank" or "server") that knows the token. `said` is the HELLO frame, `nonce` comes from the
    challenge."""
    transcript = f"hipress {who}".encode() + hashlib.sha256(said[5:]).digest() + nonce
    return hmac.digest(token.encode(), transcript, "sha256")


def read_frame(connection: socket.socket) -> tuple[int, bytes]:
    head = _read(connection, 5)
    size, kind = struct.unpack("<IB", head)
    return kind, _read(connection, size)


def prove(connection: socket.socket, said: bytes, token: str = TOKEN) -> tuple[int, bytes]:
    """Says hello, proves knowledge of `token`, and returns rank 0's answer."""
    connection.sendall(said)
    kind, challenge = read_frame(connection)
    assert kind == CHALLENGE
    connection.sendall(frame(PROOF, text(proof("rank", said, challenge[4:], token))))
    return read_frame(connection)


def accept_rank(connection: socket.socket, size: int, token: str = TOKEN) -> None:
    """Does what rank 0 does when a rank arrives."""
    kind, payload = read_frame(connection)
    assert kind == HELLO
    connection.sendall(frame(CHALLENGE, text(NONCE)))
    assert read_frame(connection)[0] == PROOF
    answer = proof("server", frame(HELLO, payload), NONCE, token)
    connection.sendall(frame(WELCOME, struct.pack("<i", size) + text(answer)))


def _read(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        part = connection.recv(size - len(received))
        assert part, "the connection ended"
        received += part
    return received


def dial(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)


def read_to_end(connection: socket.socket) -> bytes:
    received = b""
    try:
        while part := connection.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return received
