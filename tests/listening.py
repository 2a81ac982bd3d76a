# SPDX-License-Identifier: Apache-2.0
"""What a logger of the package says meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def listening(logger: str) -> Iterator[list[str]]:
    """The messages from level INFO on, also in processes without pytest."""
    said: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            said.append(record.getMessage())

    log, listener = logging.getLogger(logger), Listener()
    log.addHandler(listener)
    before = log.level
    log.setLevel(logging.INFO)
    try:
        yield said
    finally:
        log.removeHandler(listener)
        log.setLevel(before)
