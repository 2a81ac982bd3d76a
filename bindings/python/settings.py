# SPDX-License-Identifier: Apache-2.0
"""Compares the settings that must be the same on all ranks, as soon as the ranks are connected."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hipress.errors import Mismatch
from hipress.options.runtime import RUNTIME_OPTIONS, RuntimeOptions

if TYPE_CHECKING:
    from hipress import _core

#: The options that change values (seed), messages (partition_bytes, pipelining) or waits between ranks (rounds,
#: coordinator, check_replicas). All other options may differ: they change a rank's deadlines, sending order, threads
#: and output. The ranks combine their settings of the network when they connect.
SAME_ON_ALL_RANKS = tuple(each for each in RUNTIME_OPTIONS.values() if each.option.same_on_all_ranks)

#: The value of a setting that a rank's version of HiPress does not know.
_UNKNOWN = "unknown"
#: Number of ranks that the error names for each value.
_SHOWN = 8


def settings_of(options: RuntimeOptions, version: str, wire_version: int) -> dict[str, str]:
    """This rank's values of the compared settings, by the names that users know."""
    settings = {"the version of HiPress": version, "the version of the wire format": str(wire_version)}
    for each in SAME_ON_ALL_RANKS:
        value = getattr(options, each.name)
        if each.name == "rounds":
            value = options.rounds or options.coordinator != "none"  # the coordinator implies rounds
        settings[each.variable] = str(int(value)) if isinstance(value, bool) else str(value)
    return settings


def compare_settings(control: _core.ControlPlane, settings: Mapping[str, str], timeout: float) -> None:
    """Raises Mismatch, on every rank, with each setting that differs, its values and their ranks.

    All ranks call it together. Also raises the errors of ControlPlane.allgather().
    """
    everybody = [_read(text) for text in control.allgather("settings", json.dumps(settings).encode(), timeout)]
    names = dict.fromkeys(name for one in everybody for name in one)
    different = [text for name in names if (text := _difference(name, everybody))]
    if different:
        raise Mismatch(
            f"the ranks have different settings: {'; '.join(different)}. Install one version of HiPress on all hosts, "
            "and give all ranks the same environment variables and the same arguments of init()"
        )


def _read(text: bytes) -> dict[str, str]:
    """The settings of a rank; empty if another version has written them in another format."""
    try:
        read = json.loads(text)
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in read.items()} if isinstance(read, dict) else {}


def _difference(name: str, everybody: Sequence[Mapping[str, str]]) -> str:
    """A text such as "HIPRESS_SEED is 0 on ranks 0 and 2, 7 on rank 1"; empty if all ranks have the same value."""
    ranks_by_value: dict[str, list[int]] = defaultdict(list)
    for rank, one in enumerate(everybody):
        ranks_by_value[one.get(name, _UNKNOWN)].append(rank)
    if len(ranks_by_value) == 1:
        return ""
    return f"{name} is " + ", ".join(f"{value} on {_ranks(ranks)}" for value, ranks in ranks_by_value.items())


def _ranks(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    if len(ranks) > _SHOWN + 1:
        return f"ranks {', '.join(map(str, ranks[:_SHOWN]))} and {len(ranks) - _SHOWN} more"
    return f"ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


__all__ = ["SAME_ON_ALL_RANKS", "compare_settings", "settings_of"]
