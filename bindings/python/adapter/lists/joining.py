# SPDX-License-Identifier: Apache-2.0
"""join() of all frameworks: ranks with fewer batches than others wait without holding them up."""

from __future__ import annotations

import json

from hipress import runtime
from hipress.adapter.process_sets import global_process_set
from hipress.adapter.synchronizer import TensorList


def join() -> int:
    """Waits until all ranks have called it, takes part in the others' all-reduces meanwhile, and returns the rank that
    called it last. See the functions of this name in the frameworks' modules.
    """
    process = runtime.current()
    last = process.engine.join()
    # The ranks have taken different numbers of steps and of calls. From here on they count alike again.
    lists = [user for user in global_process_set.users if isinstance(user, TensorList) and len(user) > 0]
    own = process.call_counts(), {each.name(0): each.progress() for each in lists}
    gathered = [json.loads(text) for text in process.engine.allgather("joined", json.dumps(own).encode())]
    process.continue_counts(_most([calls for calls, _ in gathered]))
    for each in lists:
        of_ranks = [progress[each.name(0)] for _, progress in gathered if each.name(0) in progress]
        each.continue_from([max(numbers) for numbers in zip(*of_ranks, strict=True)])
    return int(last)


def _most(of_ranks: list[dict[str, int]]) -> dict[str, int]:
    return {name: max(each.get(name, 0) for each in of_ranks) for own in of_ranks for name in own}
