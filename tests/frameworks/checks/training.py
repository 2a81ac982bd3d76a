# SPDX-License-Identifier: Apache-2.0
"""Distributed optimizers: every rank ends with the same weights, and without a codec with the right ones."""

from __future__ import annotations

import numpy as np

from tests.frameworks.adapters.adapter import Adapter, Array

CODECS = ["none", "fp16", "onebit", "tbq", "terngrad", "dgc", "graddrop"]
STEPS = 5


def _weights() -> dict[str, Array]:
    generator = np.random.default_rng(1)
    return {
        "w": generator.standard_normal((40, 70)).astype(np.float32),
        "b": generator.standard_normal(70).astype(np.float32),
    }


def _batches(rank: int) -> list[tuple[Array, Array]]:
    generator = np.random.default_rng([2, rank])
    return [
        (generator.standard_normal((8, 40)).astype(np.float32), generator.standard_normal((8, 70)).astype(np.float32))
        for _ in range(STEPS)
    ]


def _reference(size: int) -> dict[str, Array]:
    """The same in NumPy, in double precision, on all ranks' batches together."""
    weights = {name: value.astype(np.float64) for name, value in _weights().items()}
    for step in range(STEPS):
        inputs, targets = (np.concatenate([_batches(rank)[step][part] for rank in range(size)]) for part in (0, 1))
        errors = inputs @ weights["w"] + weights["b"] - targets
        weights["w"] -= 0.1 * 2 * inputs.T @ errors / errors.size
        weights["b"] -= 0.1 * 2 * errors.sum(axis=0) / errors.size
    return weights


def check_training_is_that_on_all_batches_together(adapter: Adapter) -> None:
    hvd = adapter.module
    for options in ({}, {"topology": "ring"}, {"gradient_predivide_factor": 2.0}):
        after = adapter.train(_weights(), _batches(hvd.rank()), **options)
        for name, expected in _reference(hvd.size()).items():
            np.testing.assert_allclose(after[name], expected, rtol=1e-4, atol=1e-5)


def check_replicas_are_identical(adapter: Adapter) -> None:
    hvd = adapter.module
    for codec in CODECS:
        for topology in ("ps", "ring"):
            after = adapter.train(_weights(), _batches(hvd.rank()), codec=codec, topology=topology)
            digests = hvd.allgather_object({name: value.tobytes() for name, value in after.items()})
            assert all(digest == digests[0] for digest in digests), (codec, topology)
            assert all(np.isfinite(value).all() for value in after.values()), (codec, topology)
