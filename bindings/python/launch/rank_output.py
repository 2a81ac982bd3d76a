# SPDX-License-Identifier: Apache-2.0
"""The output of several ranks merged into one stream: whole lines, each marked with its rank.

Bytes pass through unchanged, whatever their encoding; only line ends are looked at. Nothing here blocks: a `Sink` keeps
what its file does not take yet, so that the launcher still hears signals when its reader has stopped reading.
"""

from __future__ import annotations

import os
import select
from typing import IO, BinaryIO

#: A line longer than this is broken in two, so that a rank that never ends its line cannot fill memory (bytes).
LONGEST_LINE = 8 << 20
#: What a sink keeps before its ranks are no longer read; they then wait, as they would for a slow terminal (bytes).
HIGH_WATER = 256 << 10
#: On a terminal an unfinished line (a prompt) is shown when its rank has been quiet for this long (seconds).
PROMPT_DELAY = 0.1
#: A pipe that polls as writable takes this much without blocking (bytes; POSIX's PIPE_BUF on Linux).
_CHUNK = 4096
_COLOURS = (b"36", b"33", b"32", b"35", b"34", b"31")


class Sink:
    """Where merged lines go: one file descriptor of the launcher."""

    def __init__(self, fd: int, *, colour: bool) -> None:
        self.fd = fd
        self.tty = os.isatty(fd)
        self.colour = colour and self.tty
        self.broken = False
        self._pending = bytearray()
        self._unfinished: RankStream | None = None
        self._at_return = False

    @property
    def pending(self) -> int:
        """Bytes that wait for the file to take them."""
        return len(self._pending)

    def emit(self, stream: RankStream | None, text: bytes, end: bytes) -> None:
        """Append `text` as a line of `stream` (None: of the launcher); `end`: its terminator, empty if unfinished."""
        if self.broken:
            return
        if self._unfinished is not stream or stream is None:
            if self._unfinished is not None:
                self._pending += b"\n"
            if self._at_return and self.tty:
                # A progress line is about to be overwritten by one that may be shorter.
                self._pending += b"\x1b[K"
            if stream is not None:
                self._pending += stream.prefix
        self._pending += text
        self._pending += end
        self._unfinished = None if end else stream
        self._at_return = end == b"\r"

    def has_unfinished(self, stream: RankStream) -> bool:
        """Whether the last thing written is a line of `stream` that has not ended."""
        return self._unfinished is stream

    def flush(self) -> None:
        """Write what the file takes now. To be called when it polls as writable; marks the sink broken on an error."""
        try:
            del self._pending[: os.write(self.fd, self._pending[:_CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            # The reader has gone (`| head`, a closed terminal).
            self.broken = True
        if self.broken:
            self._pending.clear()

    def give_up(self) -> None:
        """Write what the file takes now, forget the rest and whatever comes later."""
        if self._pending and select.select([], [self.fd], [], 0)[1]:
            self.flush()
        self.broken = True
        self._pending.clear()


class RankStream:
    """One output of one rank, read without blocking and cut into lines for its sink."""

    def __init__(self, pipe: IO[bytes], sink: Sink, rank: int, *, prefix: bool, copy: BinaryIO | None) -> None:
        os.set_blocking(pipe.fileno(), False)
        self.sink = sink
        self.prefix = _prefix(rank, sink.colour) if prefix else b""
        self.show_at: float | None = None
        self._pipe = pipe
        self._copy = copy
        self._rest = bytearray()
        # In a file or a pipe each state of a progress bar becomes a line; with no prefix the bytes stay as they are.
        self._return = b"\r" if sink.tty or not prefix else b"\n"

    @property
    def fd(self) -> int:
        """The file descriptor to poll for reading."""
        return self._pipe.fileno()

    @property
    def closed(self) -> bool:
        """Whether everything has been read and written."""
        return self._pipe.closed

    def read(self, now: float) -> bool:
        """Take the bytes that have come. `now`: monotonic seconds. False if none came; closes itself at the end."""
        try:
            data = os.read(self.fd, 65536)
        except BlockingIOError:
            return False
        if not data:
            self.close()
            return False
        self._cut(data)
        if self._copy is not None:
            try:
                self._copy.write(data)
            except OSError as error:
                # A full disk must not end the training that fills it.
                self.sink.emit(None, f"hipress run: {self._copy.name} is incomplete: {error}".encode(), b"\n")
                self._copy.close()
                self._copy = None
        self.show_at = now + PROMPT_DELAY if self._rest and self.sink.tty else None
        return True

    def drain(self, now: float) -> None:
        """Take the bytes that have come and close, although other processes may still hold the other end."""
        while not self.closed and self.read(now):
            pass
        self.close()

    def show_unfinished(self) -> None:
        """Show a line that has not ended: perhaps a prompt, whose answer the rank waits for."""
        self.show_at = None
        # A \r at the end stays until it is known whether \n follows.
        held = b"\r" if self._rest.endswith(b"\r") else b""
        text = bytes(self._rest).removesuffix(b"\r")
        if text:
            self._emit(text, b"")
            self._rest = bytearray(held)

    def close(self) -> None:
        """End the last line, if it did not end itself, and close."""
        if self.closed:
            return
        self.show_at = None
        rest = bytes(self._rest).removesuffix(b"\r")
        if rest or self.sink.has_unfinished(self):
            self._emit(rest, b"\n")
        self._rest.clear()
        self._pipe.close()
        if self._copy is not None:
            self._copy.close()

    def _cut(self, data: bytes) -> None:
        # Only the new bytes are searched; a long line that comes in pieces would otherwise be searched again each time.
        searched = max(len(self._rest) - 1, 0)
        self._rest += data
        if b"\r" not in self._rest[searched:] and b"\n" not in data:
            if len(self._rest) > LONGEST_LINE:
                self._emit(bytes(self._rest), b"\n")
                self._rest.clear()
            return
        # A \r at the very end is kept back until it is known whether \n follows.
        held = b"\r" if self._rest.endswith(b"\r") else b""
        text = bytes(self._rest).removesuffix(b"\r").replace(b"\r\n", b"\n")
        *lines, rest = text.split(b"\n")
        for line in lines:
            *states, last = line.split(b"\r")
            for state in states:
                self._progress(state)
            self._emit(last, b"\n")
        *states, rest = rest.split(b"\r")
        for state in states:
            self._progress(state)
        self._rest = bytearray(rest + held)

    def _progress(self, state: bytes) -> None:
        # Progress bars write \r first; that must not become an empty line.
        if state or self.sink.has_unfinished(self):
            self._emit(state, self._return)

    def _emit(self, text: bytes, end: bytes) -> None:
        self.sink.emit(self, text, end)


def _prefix(rank: int, colour: bool) -> bytes:
    text = b"[%d] " % rank
    return b"\x1b[%sm%s\x1b[0m" % (_COLOURS[rank % len(_COLOURS)], text) if colour else text
