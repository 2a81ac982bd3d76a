# SPDX-License-Identifier: Apache-2.0
"""Ranks as threads of this process: their engines use the in-process transport and NumPy arrays."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from hipress import _core

Result = TypeVar("Result")

#: Built-in codecs that change values.
LOSSY = ["onebit", "tbq", "terngrad", "dgc", "graddrop", "bf16", "int8", "int4"]


def run_ranks(
    world_size: int,
    body: Callable[[_core.Engine], Result],
    *,
    options: dict[str, Any] | None = None,
    intercept: Callable[[int, int, bytes], bool | bytes] | None = None,
    intercept_bundle: Callable[[int, int, bytes], bool | bytes] | None = None,
    linger: float = 5.0,
    read_neighbours: bool = True,
) -> list[Result]:
    """Runs `body(engine)` on every rank at once. Returns the results by rank. Raises the exception of the lowest rank
    that has one."""
    engines = _core.make_local_engines(
        world_size, {"timeout": 20.0, **(options or {})}, intercept, intercept_bundle, read_neighbours
    )
    results: list[Any] = [None] * world_size
    errors: list[BaseException | None] = [None] * world_size

    def run(rank: int) -> None:
        try:
            results[rank] = body(engines[rank])
        except BaseException as error:  # the test decides about a rank's failure
            errors[rank] = error
        finally:
            engines[rank].shutdown(linger)

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
        assert not thread.is_alive(), "a rank hangs"
    for error in errors:
        if error is not None:
            raise error
    return results


def outcomes(world_size: int, body: Callable[[_core.Engine], Result], **arguments: Any) -> list[Result | BaseException]:
    """Like run_ranks(), but the result of a rank that raises is its exception."""

    def guarded(engine: _core.Engine) -> Result | BaseException:
        try:
            return body(engine)
        except Exception as error:
            return error

    return run_ranks(world_size, guarded, **arguments)


def spec(name: str, values: NDArray[Any], **options: Any) -> _core.TensorSpec:
    return _core.TensorSpec(
        name,
        dtype=values.dtype.name,
        count=values.size,
        shape=str(list(values.shape)),
        **options,
    )


def allreduce(engine: _core.Engine, name: str, values: NDArray[Any], **options: Any) -> NDArray[Any]:
    """Declares a tensor, synchronises it once in place, and returns the result."""
    (tensor,) = engine.declare([spec(name, values, **options)])
    result = values.copy()
    engine.wait(engine.submit(tensor, result, result))
    return result


def gradients(world_size: int, count: int, seed: int = 0) -> Sequence[NDArray[np.float32]]:
    generator = np.random.default_rng(seed)
    return [generator.standard_normal(count).astype(np.float32) for _ in range(world_size)]


def identical(arrays: Sequence[NDArray[Any]]) -> bool:
    """Whether all ranks hold the same bytes."""
    return all(array.tobytes() == arrays[0].tobytes() for array in arrays)
