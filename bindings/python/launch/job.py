# SPDX-License-Identifier: Apache-2.0
"""Watches running ranks to their end: one loop waits for their output, signals and deadlines, without polling."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from hipress.launch.left_memory import remove_left_memory
from hipress.launch.rank import EXIT_SIGNAL, Rank, signal_name
from hipress.launch.rank_output import HIGH_WATER, Sink

#: The exit code after `timeout`, as of timeout(1).
EXIT_TIMED_OUT = 124
#: Seconds after which a second Ctrl-C kills: wrappers and terminals often deliver the first Ctrl-C twice.
_REPEAT_AFTER = 0.5
#: Seconds that the other ranks have, after a rank has failed, to notice it and to print their errors.
LAST_WORDS = 1.0
#: Seconds that a rank which still imports has to end after Ctrl-C; then SIGTERM ends it.
_IMPORTS_END = 1.0


class Job:
    """All ranks of this launcher. `wakeup`: a file descriptor to read the numbers of arriving signals from. `grace`:
    seconds between asking a rank to end and killing it. `timeout`: seconds for the whole job; None: no deadline."""

    def __init__(self, wakeup: int, *, grace: float, timeout: float | None) -> None:
        colour = "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
        self.out = Sink(1, colour=colour)
        # If both are the same file (a terminal, 2>&1) there is one sink, which knows the unfinished lines of both.
        self.err = self.out if os.path.sameopenfile(1, 2) else Sink(2, colour=colour)
        self._since = time.time()
        self._ranks: list[Rank] = []
        self._wakeup = wakeup
        self._grace = grace
        self._timeout = timeout
        self._end_at = None if timeout is None else time.monotonic() + timeout
        self._exit_code: int | None = None  # The job is ending if this is not None.
        self._ending_since = 0.0
        self._ask_at: float | None = None  # When to ask the other ranks to end.
        self._give_up_at: float | None = None  # When to forget output that the reader does not take.
        # -I -S: the guard needs no packages, and no package may run code in it.
        # A socket, not a pipe: if the guard has died, a write must not raise SIGPIPE in a starting rank.
        self._to_guard, guards_end = socket.socketpair()
        with guards_end:
            self._guard = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(__file__).with_name("orphan_guard.py"))],
                stdin=guards_end.fileno(),
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            )

    def add(self, rank: Rank) -> None:
        """Watch a rank that has just been started."""
        self._ranks.append(rank)

    def enlist(self) -> None:
        """Put the calling process, which leads its process group, under the guard. A rank calls it before its exec."""
        self._tell_guard(b"+%d\n" % os.getpid())

    def say(self, text: str) -> None:
        """Write a line of the launcher to stderr, between the lines of the ranks."""
        self.err.emit(None, f"hipress run: {text}".encode(errors="replace"), b"\n")

    def fail(self, exit_code: int) -> None:
        """End the job with this code because a rank has failed. The other ranks first get LAST_WORDS seconds."""
        self._exit_code = exit_code
        self._ending_since = time.monotonic()
        self._ask_at = self._ending_since + LAST_WORDS

    def end(self, number: int, exit_code: int) -> None:
        """Ask all ranks to end with signal `number`; after the grace time they are killed (SIGKILL: at once)."""
        if self._exit_code is None:
            self._exit_code = exit_code
            self._ending_since = time.monotonic()
        self._ask_at = None
        for rank in self._ranks:
            if not rank.over and (not rank.asked or number == signal.SIGKILL):
                # Check before the signal: an import may swallow the interrupt and be over a moment later.
                importing = number == signal.SIGINT and rank.is_importing()
                rank.signal(number)
                rank.insist_at = time.monotonic() + _IMPORTS_END if importing else None
                rank.deadline = time.monotonic() + self._grace

    def run(self) -> int:
        """Wait until all ranks have ended and readers have taken their output. Return the launcher's exit code."""
        while self._running() or self._expects_ranks() or self.out.pending or self.err.pending:
            self._wait()
        return self._exit_code or 0

    @property
    def is_ending(self) -> bool:
        """Whether the job has its exit code, and the ranks that still run are to end."""
        return self._exit_code is not None

    def close(self) -> None:
        """End the guard, and the ranks that still run; there are some only after an error in the launcher itself."""
        for rank in self._running():
            self._finish(rank)
        self._to_guard.close()
        self._guard.wait()
        if any((rank.status or 0) < 0 or rank.killed for rank in self._ranks):
            remove_left_memory(self._since)

    def _running(self) -> list[Rank]:
        return [rank for rank in self._ranks if not rank.over]

    def _wait(self) -> None:
        poller = select.poll()
        poller.register(self._wakeup, select.POLLIN)
        sinks = {sink.fd: sink for sink in (self.out, self.err) if sink.pending}
        streams = {
            stream.fd: (rank, stream)
            for rank in self._running()
            for stream in rank.streams
            # While a sink's reader is slow, the launcher reads no more output: the ranks wait in write().
            if not stream.closed and stream.sink.pending < HIGH_WATER
        }
        for fd in sinks:
            poller.register(fd, select.POLLOUT)
        for fd in streams:
            poller.register(fd, select.POLLIN)
        others = self._others()
        for fd in others:
            poller.register(fd, select.POLLIN)
        ready = [fd for fd, _ in poller.poll(self._milliseconds())]
        now = time.monotonic()
        for fd in ready:
            if fd in sinks:
                self._flush(sinks[fd])
            elif fd in streams:
                rank, stream = streams[fd]
                stream.read(now)
                self._finish_if_silent(rank)
        # Signals come after the output, so that a rank's last lines are before the report of its end.
        if self._wakeup in ready:
            self._take_signals()
        for fd in ready:
            if fd in others:
                others[fd](now)
        self._take_deadlines(now)

    def _milliseconds(self) -> int | None:
        """The longest time to wait; None: until an event."""
        times = [when for rank in self._running() for when in (rank.deadline, rank.insist_at)]
        times += [stream.show_at for rank in self._running() for stream in rank.streams]
        next_time = min(
            (t for t in (*times, self._end_at, self._give_up_at, self._ask_at, self._next_time()) if t is not None),
            default=None,
        )
        # The time is rounded up, because waking a little early would mean to spin.
        return None if next_time is None else max(0, int((next_time - time.monotonic()) * 1000) + 1)

    def _expects_ranks(self) -> bool:
        """Whether a derived class starts ranks later."""
        return False

    def _others(self) -> Mapping[int, Callable[[float], None]]:
        """File descriptors that a derived class waits for, too, and what it does, at a time, when one can be read."""
        return {}

    def _next_time(self) -> float | None:
        """When a derived class wants its deadlines looked at; None: not before the next event."""
        return None

    def _flush(self, sink: Sink) -> None:
        sink.flush()
        if sink.broken and self._exit_code is None:
            # The exit code is that of ranks that had written to the closed pipe themselves.
            self.end(signal.SIGTERM, EXIT_SIGNAL + signal.SIGPIPE)

    def _take_signals(self) -> None:
        numbers = set(os.read(self._wakeup, 4096))
        if signal.SIGCHLD in numbers:
            self._take_ended()
        for number in sorted(numbers - {signal.SIGCHLD}):
            if self._exit_code is None:
                self.say(f"{signal_name(number)}: ending the ranks")
                # The launcher does not wait for a stopped reader much longer than for a rank.
                self._give_up_at = time.monotonic() + self._grace + 1
                self.end(signal.SIGINT if number == signal.SIGINT else signal.SIGTERM, EXIT_SIGNAL + number)
            elif number == signal.SIGINT and time.monotonic() - self._ending_since > _REPEAT_AFTER:
                self.say("SIGINT again: killing the ranks")
                self._give_up_at = time.monotonic()
                self.end(signal.SIGKILL, EXIT_SIGNAL + number)

    def _take_ended(self) -> None:
        ended = [rank for rank in self._ranks if rank.has_just_ended()]
        self._hear_ended(ended)
        for rank in ended:
            if not rank.asked:
                # Processes that the rank has left running end with it.
                rank.signal(signal.SIGTERM)
                rank.deadline = time.monotonic() + self._grace
            self._finish_if_silent(rank)

    def _hear_ended(self, ended: list[Rank]) -> None:
        """These ranks have just ended. An error of one ends the job."""
        failed = [rank for rank in ended if rank.status]
        if not failed or self._exit_code is not None:
            return
        # If several ranks failed at once, a killed rank is the likelier cause: the others exit when they notice its
        # loss.
        first = min(failed, key=lambda rank: (rank.status or 0) > 0)
        others = any(rank.status is None for rank in self._ranks)
        self.say(f"{first.name} {first.describe_end()}" + ("; ending the other ranks" if others else ""))
        self.fail(first.exit_code)

    def _finish_if_silent(self, rank: Rank) -> None:
        """Ends the group of a rank whose leader has ended and whose outputs no process holds any more."""
        if rank.status is not None and not rank.over and all(stream.closed for stream in rank.streams):
            self._finish(rank)

    def _finish(self, rank: Rank) -> None:
        rank.signal(signal.SIGKILL)
        self._tell_guard(b"-%d\n" % rank.process.pid)
        for stream in rank.streams:
            stream.drain(time.monotonic())
        rank.process.wait()
        rank.over = True

    def _take_deadlines(self, now: float) -> None:
        if self._give_up_at is not None and now >= self._give_up_at:
            self._give_up_at = None
            self.out.give_up()
            if self.err is not self.out:
                self.err.give_up()
        if self._ask_at is not None and now >= self._ask_at:
            self.end(signal.SIGTERM, self._exit_code or 0)
        if self._end_at is not None and now >= self._end_at:
            self._end_at = None
            if self._exit_code is None:
                self.say(f"the job has not ended within {self._timeout:g} s: ending the ranks")
                self.end(signal.SIGTERM, EXIT_TIMED_OUT)
        for rank in self._running():
            for stream in rank.streams:
                if stream.show_at is not None and now >= stream.show_at:
                    stream.show_unfinished()
            if rank.insist_at is not None and now >= rank.insist_at:
                rank.insist_at = None
                if rank.status is None:
                    rank.signal(signal.SIGTERM)
            if rank.deadline is None or now < rank.deadline:
                continue
            if rank.status is not None:
                self._finish(rank)
            elif not rank.killed:
                self.say(f"{rank.name} has not ended within {self._grace:g} s: killing it")
                rank.signal(signal.SIGKILL)
            # A killed rank is not gone yet: when its end arrives, its group ends at once.
            rank.deadline = now + self._grace

    def _tell_guard(self, line: bytes) -> None:
        # If another process has killed the guard, the job goes on without it.
        with contextlib.suppress(OSError):
            self._to_guard.send(line, socket.MSG_NOSIGNAL)
