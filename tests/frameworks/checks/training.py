# SPDX-License-Identifier: Apache-2.0
"""Distributed optimizers: all ranks end with the same weights; without a codec the weights equal the reference."""

from __future__ import annotations

import numpy as np

from tests.core.casync.powersgd_reference import Reference
from tests.frameworks.adapters.adapter import Adapter, Array

CODECS = ["none", "fp16", "onebit", "tbq", "terngrad", "dgc", "graddrop", "bf16", "int8", "int4"]
STEPS = 5


def start_weights() -> dict[str, Array]:
    """The weights before training."""
    generator = np.random.default_rng(1)
    return {
        "w": generator.standard_normal((40, 70)).astype(np.float32),
        "b": generator.standard_normal(70).astype(np.float32),
    }


def batches(rank: int) -> list[tuple[Array, Array]]:
    """The inputs and targets of each step on rank `rank`."""
    generator = np.random.default_rng([2, rank])
    return [
        (generator.standard_normal((8, 40)).astype(np.float32), generator.standard_normal((8, 70)).astype(np.float32))
        for _ in range(STEPS)
    ]


def reference(size: int) -> dict[str, Array]:
    """The weights that a training in NumPy reaches in double precision with all ranks' batches together."""
    weights = {name: value.astype(np.float64) for name, value in start_weights().items()}
    for step in range(STEPS):
        inputs, targets = (np.concatenate([batches(rank)[step][part] for rank in range(size)]) for part in (0, 1))
        errors = inputs @ weights["w"] + weights["b"] - targets
        weights["w"] -= 0.1 * 2 * inputs.T @ errors / errors.size
        weights["b"] -= 0.1 * 2 * errors.sum(axis=0) / errors.size
    return weights


def check_training_is_that_on_all_batches_together(adapter: Adapter) -> None:
    hvd = adapter.module
    for options in ({}, {"topology": "ring"}, {"gradient_predivide_factor": 2.0}):
        after = adapter.train(start_weights(), batches(hvd.rank()), **options)
        for name, expected in reference(hvd.size()).items():
            np.testing.assert_allclose(after[name], expected, rtol=1e-4, atol=1e-5)


def check_replicas_are_identical(adapter: Adapter) -> None:
    hvd = adapter.module
    for codec in CODECS:
        for topology in ("ps", "ring"):
            after = adapter.train(start_weights(), batches(hvd.rank()), codec=codec, topology=topology)
            digests = hvd.allgather_object({name: value.tobytes() for name, value in after.items()})
            assert all(digest == digests[0] for digest in digests), (codec, topology)
            assert all(np.isfinite(value).all() for value in after.values()), (codec, topology)


def check_powersgd_is_its_definition(adapter: Adapter) -> None:
    """PowerSGD's training equals its definition: the matrix travels as factors of rank 2, the vector raw. A single rank
    compresses nothing."""
    hvd = adapter.module
    size = hvd.size()
    matrix = Reference((40, 70), size, rank=2)
    expected = {name: value.astype(np.float64) for name, value in start_weights().items()}
    steps = [batches(rank) for rank in range(size)]
    for step in range(STEPS):
        gradients = []
        for inputs, targets in (of_rank[step] for of_rank in steps):
            errors = inputs @ expected["w"] + expected["b"] - targets
            gradients.append((2 * inputs.T @ errors / errors.size, 2 * errors.sum(axis=0) / errors.size))
        ours = [gradient.astype(np.float32) for gradient, _ in gradients]
        expected["w"] -= 0.1 * (matrix.step(ours) if size > 1 else ours[0])
        expected["b"] -= 0.1 * np.mean([gradient for _, gradient in gradients], axis=0)
    after = adapter.train(
        start_weights(), batches(hvd.rank()), codec="powersgd(rank=2, min_ratio=1.5)", min_compress_bytes=0
    )
    for name, value in expected.items():
        np.testing.assert_allclose(after[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    digests = hvd.allgather_object({name: value.tobytes() for name, value in after.items()})
    assert all(digest == digests[0] for digest in digests)
