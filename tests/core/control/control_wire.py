# SPDX-License-Identifier: Apache-2.0
"""The bytes of the control connection, made by hand: for strangers and for ranks that misbehave."""

from __future__ import annotations

import socket
import struct

from tests.core.control.control_ranks import PATIENCE, TOKEN

MAGIC = 0x43505248
VERSION = 3


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack("<IB", len(payload), kind) + payload


def text(value: bytes) -> bytes:
    return struct.pack("<I", len(value)) + value


def hello(rank: int, size: int, *, token: bytes = TOKEN.encode(), version: int = VERSION, magic: int = MAGIC) -> bytes:
    payload = struct.pack("<IH", magic, version) + text(token) + struct.pack("<ii", rank, size) + text(b"host")
    return frame(1, payload + struct.pack("<q", 4242))


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
