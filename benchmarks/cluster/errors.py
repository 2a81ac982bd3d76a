# SPDX-License-Identifier: Apache-2.0
"""The errors of emulated clusters."""

from __future__ import annotations

#: Exit code of a program that cannot make a cluster on this machine; test runners treat it as "skipped".
EXIT_UNAVAILABLE = 77


class ClusterError(Exception):
    """A cluster cannot do a request; the text says what to change."""


class ClusterUnavailable(ClusterError):
    """This machine or this user cannot have clusters."""
