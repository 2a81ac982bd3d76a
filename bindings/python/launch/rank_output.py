# SPDX-License-Identifier: Apache-2.0
"""Merges the output of several ranks into one stream of whole lines, each marked with its rank.

Bytes pass through unchanged in every encoding; the code looks only at line ends. No call blocks: a `Sink` keeps the
bytes that its file does not take yet, so that the launcher handles signals even when its reader has stopped reading.
"""

from __future__ import annotations

import os
import select
from typing import IO, BinaryIO

#: Bytes after which a line is broken in two, so that a rank that never ends its line cannot fill memory.
LONGEST_LINE = 8 << 20
#: Bytes in a sink above which the launcher reads no more output: the ranks wait, as for a slow terminal.
HIGH_WATER = 256 << 10
#: Seconds without output of a rank after which a terminal shows its unfinished line (a prompt).
PROMPT_DELAY = 0.1
#: Bytes that a writable pipe takes without blocking (POSIX's PIPE_BUF on Linux).
_CHUNK = 4096
_COLOURS = (b"36", b"33", b"32", b"35", b"34", b"31")


class Sink:
    """One file descriptor of the launcher that receives merged lines."""

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
        """Number of bytes that wait until the file takes them."""
        return len(self._pending)

    def emit(self, stream: RankStream | None, text: bytes, end: bytes) -> None:
        """Append `text` as a line of `stream` (None: of the launcher); `end`: its terminator, empty if unfinished."""
        if self.broken:
            return
        if self._unfinished is not stream or stream is None:
            if self._unfinished is not None:
                self._pending += b"\n"
            if self._at_return and self.tty:
                # The next state of a progress line may be shorter, so the rest of the line is erased.
                self._pending += b"\x1b[K"
            if stream is not None:
                self._pending += stream.prefix
        self._pending += text
        self._pending += end
        self._unfinished = None if end else stream
        self._at_return = end == b"\r"

    def has_unfinished(self, stream: RankStream) -> bool:
        """Whether the last bytes written are an unfinished line of `stream`."""
        return self._unfinished is stream

    def flush(self) -> None:
        """Write the bytes that the file takes now, when it is writable. An error marks the sink broken."""
        try:
            del self._pending[: os.write(self.fd, self._pending[:_CHUNK])]
        except BlockingIOError:
            pass
        except OSError:
            # The reader has closed its end (`| head`, a closed terminal).
            self.broken = True
        if self.broken:
            self._pending.clear()

    def give_up(self) -> None:
        """Write the bytes that the file takes now, and drop the rest and all later bytes."""
        if self._pending and select.select([], [self.fd], [], 0)[1]:
            self.flush()
        self.broken = True
        self._pending.clear()


class RankStream:
    """One output of one rank. It reads without blocking and cuts the bytes into lines for its sink."""

    def __init__(self, pipe: IO[bytes], sink: Sink, rank: int, *, prefix: bool, copy: BinaryIO | None) -> None:
        os.set_blocking(pipe.fileno(), False)
        self.sink = sink
        self.prefix = _prefix(rank, sink.colour) if prefix else b""
        self.show_at: float | None = None
        self._pipe = pipe
        self._copy = copy
        self._rest = bytearray()
        # In a file or a pipe each state of a progress bar becomes a line; without prefix the bytes stay unchanged.
        self._return = b"\r" if sink.tty or not prefix else b"\n"

    @property
    def fd(self) -> int:
        """The file descriptor to poll for reading."""
        return self._pipe.fileno()

    @property
    def closed(self) -> bool:
        """Whether all bytes have been read and passed to the sink."""
        return self._pipe.closed

    def read(self, now: float) -> bool:
        """Read the available bytes. `now`: monotonic seconds. Returns False if there are none; closes at the end."""
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
        """Read the available bytes and close, although other processes may still hold the other end."""
        while not self.closed and self.read(now):
            pass
        self.close()

    def show_unfinished(self) -> None:
        """Show an unfinished line: it may be a prompt, and the rank waits for an answer."""
        self.show_at = None
        # A \r at the end waits until the next byte tells whether it is \r\n.
        held = b"\r" if self._rest.endswith(b"\r") else b""
        text = bytes(self._rest).removesuffix(b"\r")
        if text:
            self._emit(text, b"")
            self._rest = bytearray(held)

    def close(self) -> None:
        """End the last line, if it is unfinished, and close."""
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
        # Search only the new bytes: otherwise a long line in many pieces would be searched again for each piece.
        searched = max(len(self._rest) - 1, 0)
        self._rest += data
        if b"\r" not in self._rest[searched:] and b"\n" not in data:
            if len(self._rest) > LONGEST_LINE:
                self._emit(bytes(self._rest), b"\n")
                self._rest.clear()
            return
        # A \r at the end waits until the next byte tells whether it is \r\n.
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
        # Progress bars write \r first, which must not become an empty line.
        if state or self.sink.has_unfinished(self):
            self._emit(state, self._return)

    def _emit(self, text: bytes, end: bytes) -> None:
        self.sink.emit(self, text, end)


def _prefix(rank: int, colour: bool) -> bytes:
    text = b"[%d] " % rank
    return b"\x1b[%sm%s\x1b[0m" % (_COLOURS[rank % len(_COLOURS)], text) if colour else text
