# SPDX-License-Identifier: Apache-2.0
"""How a training function hears that the ranks are to change, under Horovod's names."""

from __future__ import annotations


class HostUpdateResult:
    """What has changed. Values that are combined with |."""

    no_update = 0
    removed = 1
    added = 2
    mixed = removed | added


class HostsUpdatedInterrupt(Exception):
    """Processes wait to come in, or one is to leave: the ranks change now. The state stays as it is.

    `skip_sync`: ranks have only left, so all states are equal, and the next world needs no synchronisation.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the ranks of the job are to change")
        self.skip_sync = skip_sync
