# SPDX-License-Identifier: Apache-2.0
"""What can be wrong with an emulated cluster."""

from __future__ import annotations

#: Exit code of a program that cannot make a cluster on this machine; test runners know it as "skipped".
EXIT_UNAVAILABLE = 77


class ClusterError(Exception):
    """The cluster cannot do what it was asked for: the message says what to change."""


class ClusterUnavailable(ClusterError):
    """This machine, or this user, cannot have clusters at all."""
