# SPDX-License-Identifier: Apache-2.0
"""Averages gradients with the engine, over ranks that are threads of this process, without a network."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hipress._library import load_core

Floats = NDArray[np.float32]

#: Deadlines of one wait of the engine, and of the end of a rank (seconds).
TIMEOUT = 60.0
DEADLINE = 600.0


def averages(of_ranks: Sequence[Sequence[Floats]], codec: str, topology: str) -> list[Floats]:
    """The averages of all tensors, which are equal on all ranks.

    Raises the first error of a rank. Raises RuntimeError if the ranks' averages differ, or if a rank does not end.
    """
    core = load_core()
    engines = core.make_local_engines(len(of_ranks), {"timeout": TIMEOUT})
    results: list[list[Floats]] = [[gradient.copy() for gradient in gradients] for gradients in of_ranks]
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        engine = engines[rank]
        try:
            specs = [_spec(core, f"tensor {at}", values, codec, topology) for at, values in enumerate(results[rank])]
            tensors = engine.declare(specs)
            for handle in [engine.submit(*pair, pair[1]) for pair in zip(tensors, results[rank], strict=True)]:
                engine.wait(handle)
        except BaseException as error:  # the main thread raises it again
            errors.append(error)
        finally:
            engine.shutdown(5.0)

    threads = [threading.Thread(target=run, args=(rank,), daemon=True) for rank in range(len(of_ranks))]
    for thread in threads:
        thread.start()
    for rank, thread in enumerate(threads):
        thread.join(DEADLINE)
        if thread.is_alive():
            raise RuntimeError(f"rank {rank} of {codec} over {topology} has not ended after {DEADLINE:.0f} s")
    if errors:
        raise errors[0]
    for rank, result in enumerate(results[1:], 1):
        if any(one.tobytes() != other.tobytes() for one, other in zip(result, results[0], strict=True)):
            raise RuntimeError(f"rank {rank} has other averages than rank 0 with {codec} over {topology}")
    return results[0]


def _spec(core: Any, name: str, values: Floats, codec: str, topology: str) -> Any:
    shape = str(list(values.shape))
    return core.TensorSpec(name, dtype="float32", count=values.size, shape=shape, codec=codec, topology=topology)


def normalised_error(averaged: Sequence[Floats], of_ranks: Sequence[Sequence[Floats]]) -> float:
    """vNMSE: the squared distance from the exact averages, divided by their squared length, over all tensors."""
    wrong = length = 0.0
    for at, result in enumerate(averaged):
        exact = np.mean([gradients[at].astype(np.float64) for gradients in of_ranks], axis=0)
        wrong += float(np.sum((result - exact) ** 2))
        length += float(np.sum(exact**2))
    return wrong / length
