# SPDX-License-Identifier: Apache-2.0
"""Reads a trace file event by event, because a file may have hundreds of MiB."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from hipress.secopa.profile.document import MalformedFile

#: Characters that are read at a time, and the largest event.
_CHUNK = 1 << 20
_SPACE = re.compile(r"\s*")


def read_events(path: str | Path) -> Iterator[Any]:
    """The elements of the file's JSON array. Raises OSError if the file cannot be read, MalformedFile if it is
    wrong."""
    try:
        with open(path, encoding="utf-8") as file:
            text = _Text(file)
            if text.next() != "[":
                raise MalformedFile(f"{path} is no trace of HiPress: expected a list of events")
            text.at += 1
            if text.next() == "]":
                return
            while True:
                yield text.value()
                end = text.next()
                if end == "]":
                    return
                if end != ",":
                    raise text.wrong("expected ',' or ']'")
                text.at += 1
    except _Wrong as error:
        raise MalformedFile(
            f"{path} is no trace: {error}; is the run over? HiPress completes a trace at the end of the run"
        ) from None
    except UnicodeDecodeError as error:
        raise MalformedFile(f"{path} is no trace: {error}") from None


class _Wrong(ValueError):
    """A fault of the JSON, with its place."""


class _Text:
    """A buffer of the characters that were read and not yet parsed."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._buffer = ""
        self._decoder = json.JSONDecoder()
        self._used = 0
        """Number of characters before the buffer."""
        self.at = 0

    def next(self) -> str:
        """Moves `at` to the next character that is no space, and returns it; "" at the end of the file."""
        while True:
            space = _SPACE.match(self._buffer, self.at)
            self.at = self.at if space is None else space.end()
            if self.at < len(self._buffer) or not self._more():
                return self._buffer[self.at : self.at + 1]

    def value(self) -> Any:
        """Parses the object at `at`."""
        if self.next() != "{":
            raise self.wrong("expected an event")
        while True:
            try:
                value, self.at = self._decoder.raw_decode(self._buffer, self.at)
                return value
            except RecursionError:
                raise self.wrong("it is nested too deeply") from None
            except json.JSONDecodeError as error:
                # The buffer may hold only the beginning of the object.
                if len(self._buffer) - self.at > _CHUNK or not self._more():
                    raise self.wrong(error.msg) from None
            except ValueError as error:  # a number with thousands of digits
                raise self.wrong(str(error)) from None

    def wrong(self, what: str) -> _Wrong:
        return _Wrong(f"{what} at character {self._used + self.at + 1}")

    def _more(self) -> bool:
        read = self._file.read(_CHUNK)
        self._used += self.at
        self._buffer, self.at = self._buffer[self.at :] + read, 0
        return bool(read)
