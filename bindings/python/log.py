# SPDX-License-Identifier: Apache-2.0
"""What HiPress says while it runs: the logger "hipress" of Python's `logging`.

A program that configures `logging` gets the lines through its own handlers; in any other they go to stderr.
`logging.getLogger("hipress").setLevel(logging.WARNING)` before `init()` keeps HiPress quiet.
"""

from __future__ import annotations

import logging
import sys


class _Stderr(logging.Handler):
    # Not logging.StreamHandler: that one keeps the stderr of the moment it was made.
    def emit(self, record: logging.LogRecord) -> None:
        print(f"hipress: {record.getMessage()}", file=sys.stderr, flush=True)


def logger() -> logging.Logger:
    """The logger "hipress", ready to say something of level INFO."""
    found = logging.getLogger("hipress")
    if found.level == logging.NOTSET:
        found.setLevel(logging.INFO)
    if not found.hasHandlers():
        found.addHandler(_Stderr())
    return found
