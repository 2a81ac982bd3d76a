# SPDX-License-Identifier: Apache-2.0
"""Two ranks of one process over UCX. What rank 0 answers rank 1 on the control connection can be held back."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

from hipress import _core
from tests.core.control.control_ranks import PATIENCE, TOKEN

#: The type of a frame that asks for tensors' numbers, and bytes before a frame's content: its length and type.
DECLARE = 3
HEAD = struct.Struct("<IB")


class HeldAnswers:
    """Stands between a rank and rank 0's server, on `port`, and counts the rank's frames by their type."""

    def __init__(self, server_port: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.frames: dict[int, int] = {}
        self._flows = threading.Event()
        self._flows.set()
        self._cut = False
        threading.Thread(target=self._serve, args=(server_port,), daemon=True).start()

    def hold(self) -> None:
        """From now on answers wait for release()."""
        self._flows.clear()

    def release(self) -> None:
        self._flows.set()

    def cut(self) -> None:
        """Ends the connection. What was held back does not arrive."""
        self._cut = True
        self._flows.set()

    def asked(self) -> int:
        """How many times the rank has asked for numbers."""
        return self.frames.get(DECLARE, 0)

    def _serve(self, server_port: int) -> None:
        rank, _ = self._listener.accept()
        server = socket.create_connection(("127.0.0.1", server_port))
        answers = threading.Thread(target=self._pass_on, args=(server, rank, self._held), daemon=True)
        answers.start()
        self._pass_on(rank, server, self._counted())
        answers.join()
        rank.close()
        server.close()

    def _pass_on(self, source: socket.socket, sink: socket.socket, see: Callable[[bytes], None]) -> None:
        try:
            while data := source.recv(1 << 16):
                see(data)
                if self._cut:
                    break
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other side has hung up

    def _held(self, _data: bytes) -> None:
        self._flows.wait(PATIENCE)

    def _counted(self) -> Callable[[bytes], None]:
        unread = bytearray()

        def see(data: bytes) -> None:
            unread.extend(data)
            while len(unread) >= HEAD.size:
                length, kind = HEAD.unpack_from(unread)
                if len(unread) < HEAD.size + length:
                    return
                self.frames[kind] = self.frames.get(kind, 0) + 1
                del unread[: HEAD.size + length]

        return see

    def close(self) -> None:
        self._flows.set()
        self._listener.close()


class TwoRanks:
    """Rank 0, and rank 1 behind `answers`."""

    def __init__(self, engines: list[_core.Engine], answers: HeldAnswers, pool: ThreadPoolExecutor) -> None:
        self.engines = engines
        self.answers = answers
        self._pool = pool

    def start(self, rank: int, body: Callable[[_core.Engine], Any]) -> Future[Any]:
        return self._pool.submit(body, self.engines[rank])

    def run(self, body: Callable[[_core.Engine], Any]) -> list[Any]:
        """Runs `body` on both ranks; an exception is a result."""

        def guarded(engine: _core.Engine) -> Any:
            try:
                return body(engine)
            except Exception as error:
                return error

        return [each.result(PATIENCE) for each in [self.start(rank, guarded) for rank in range(2)]]


@contextmanager
def two_ranks(**options: Any) -> Iterator[TwoRanks]:
    with (
        closing(_core.ControlServer(world_size=2, token=TOKEN)) as server,
        closing(HeldAnswers(server.port)) as answers,
    ):
        pool = ThreadPoolExecutor(max_workers=4)

        def connect(rank: int) -> _core.Engine:
            plane, address = _core.connect_control(
                rank=rank,
                world_size=2,
                port=answers.port if rank == 1 else server.port,
                token=TOKEN,
                timeout=PATIENCE,
            )
            return _core.connect_engine(plane, address, {"timeout": PATIENCE, **options})

        engines = list(pool.map(connect, range(2)))
        try:
            yield TwoRanks(engines, answers, pool)
        finally:
            answers.release()
            for each in [pool.submit(engine.shutdown, 2.0) for engine in engines]:
                each.result(PATIENCE)
            pool.shutdown()
