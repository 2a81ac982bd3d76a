# SPDX-License-Identifier: Apache-2.0
"""The logger "hipress" of Python's `logging`, which writes HiPress' log lines.

A program that configures `logging` gets the lines through its own handlers; otherwise they go to stderr.
`logging.getLogger("hipress").setLevel(logging.WARNING)` before `init()` keeps HiPress quiet.
"""

from __future__ import annotations

import logging
import sys


class _Stderr(logging.Handler):
    # logging.StreamHandler would keep the stderr of the moment when it was made.
    def emit(self, record: logging.LogRecord) -> None:
        print(f"hipress: {record.getMessage()}", file=sys.stderr, flush=True)


def logger() -> logging.Logger:
    """The logger "hipress", set up to write lines of level INFO."""
    found = logging.getLogger("hipress")
    if found.level == logging.NOTSET:
        found.setLevel(logging.INFO)
    if not found.hasHandlers():
        found.addHandler(_Stderr())
    return found
