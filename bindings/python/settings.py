# SPDX-License-Identifier: Apache-2.0
"""Settings that must be the same on all ranks, compared as soon as the ranks have met."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hipress.errors import Mismatch
from hipress.options.runtime import RUNTIME_OPTIONS, RuntimeOptions

if TYPE_CHECKING:
    from hipress import _core

#: The options that change values (seed), messages (partition_bytes, pipelining) or what ranks wait for from each other
#: (rounds, coordinator, check_replicas). The others may differ, as machines and users do: they change how long this
#: rank waits, the order in which it sends, which threads it has and what it writes; and the wishes of all hosts about
#: the network are brought together when they meet.
SAME_ON_ALL_RANKS = tuple(each for each in RUNTIME_OPTIONS.values() if each.option.same_on_all_ranks)

#: What a rank says of a setting that its version of HiPress does not know.
_UNKNOWN = "unknown"
#: So many ranks of each value are named.
_SHOWN = 8


def settings_of(options: RuntimeOptions, version: str, wire_version: int) -> dict[str, str]:
    """This rank's values of the settings that ranks compare, by the names that users know."""
    settings = {"the version of HiPress": version, "the version of the wire format": str(wire_version)}
    for each in SAME_ON_ALL_RANKS:
        value = getattr(options, each.name)
        if each.name == "rounds":
            value = options.rounds or options.coordinator != "none"  # which implies rounds
        settings[each.variable] = str(int(value)) if isinstance(value, bool) else str(value)
    return settings


def compare_settings(control: _core.ControlPlane, settings: Mapping[str, str], timeout: float) -> None:
    """Raises Mismatch, on every rank, that names each setting that differs, its values, and the ranks that have them.

    All ranks call it together. Raises what ControlPlane.allgather() raises, too.
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
    """Another version's settings may be written in another way."""
    try:
        read = json.loads(text)
    except ValueError:
        return {}
    return {str(name): str(value) for name, value in read.items()} if isinstance(read, dict) else {}


def _difference(name: str, everybody: Sequence[Mapping[str, str]]) -> str:
    """ "HIPRESS_SEED is 0 on ranks 0 and 2, 7 on rank 1"; empty if it is the same on all."""
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
