# SPDX-License-Identifier: Apache-2.0
"""Gives turns to the frameworks one after the other, because their jobs are separate and do not know each other."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType
from typing import TextIO

from benchmarks.harness.samples import Samples
from benchmarks.harness.turns import LONG_WARM_UP, WARM_UPS, order, repeats_of


@dataclass
class Figures:
    """The figures of a framework: the largest error of its first averages, and the samples of its ranks."""

    error: float
    samples: list[Samples] = field(default_factory=list)


class Turns:
    """Listens at the socket `path` inside a `with` statement, and measures in a separate thread.

    It needs no deadline: a rank that waits too long ends with an error, then the launcher ends all other ranks, and
    their closed sockets end this thread.
    """

    def __init__(self, frameworks: Sequence[str], ranks: int, repeats: int) -> None:
        self._frameworks = frameworks
        self._ranks = ranks
        self._repeats = repeats
        self._directory = tempfile.TemporaryDirectory()
        self.path = os.path.join(self._directory.name, "turns")
        self._listener = socket.socket(socket.AF_UNIX)
        self._streams: dict[str, list[TextIO]] = {framework: [] for framework in frameworks}
        self._open = contextlib.ExitStack()
        self._thread = ThreadPoolExecutor(1)
        self._measured: Future[dict[str, Figures]] | None = None

    def __enter__(self) -> Turns:
        self._listener.bind(self.path)
        self._listener.listen(len(self._frameworks) * self._ranks)
        self._measured = self._thread.submit(self._measure)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        # Ranks that failed before they connected will not connect.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.shutdown()
        self._listener.close()
        self._directory.cleanup()

    def figures(self) -> dict[str, Figures]:
        """The figures by framework, after the end of the ranks."""
        assert self._measured is not None
        return self._measured.result()

    def _measure(self) -> dict[str, Figures]:
        with self._open:
            self._meet()
            firsts = {framework: self._take(framework, "check") for framework in self._frameworks}
            errors = {name: max(error for _, error in first if error is not None) for name, first in firsts.items()}
            for _ in range(WARM_UPS):
                last = self._turns(1)[1]
                if last > LONG_WARM_UP:
                    break
            samples, _ = self._turns(self._repeats or repeats_of(last))
        return {framework: Figures(errors[framework], samples[framework]) for framework in self._frameworks}

    def _meet(self) -> None:
        every: dict[tuple[str, int], TextIO] = {}
        while len(every) < len(self._frameworks) * self._ranks:
            connection, _ = self._listener.accept()
            stream = self._open.enter_context(self._open.enter_context(connection).makefile("rw"))
            framework, rank = json.loads(stream.readline())
            every[framework, rank] = stream
        for framework, rank in sorted(every):
            self._streams[framework].append(every[framework, rank])

    def _turns(self, repeats: int) -> tuple[dict[str, list[Samples]], float]:
        """The samples of the ranks of each framework, and the seconds of a turn of all frameworks."""
        samples = {framework: [Samples() for _ in range(self._ranks)] for framework in self._frameworks}
        start = time.perf_counter()
        for number in range(repeats):
            for index in order(number, len(self._frameworks)):
                framework = self._frameworks[index]
                for kept, (one, _) in zip(samples[framework], self._take(framework, "repeat"), strict=True):
                    kept.extend(one)
        return samples, (time.perf_counter() - start) / repeats

    def _take(self, framework: str, turn: str) -> list[tuple[Samples, float | None]]:
        """One repetition of all ranks of a framework. Raises EOFError if a rank has ended."""
        for stream in self._streams[framework]:
            print(turn, file=stream, flush=True)
        answers = []
        for stream in self._streams[framework]:
            line = stream.readline()
            if not line:
                raise EOFError(f"a rank of {framework} has ended")
            samples, error = json.loads(line)
            answers.append((Samples(**samples), error))
        return answers
