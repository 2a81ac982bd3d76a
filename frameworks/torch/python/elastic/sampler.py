# SPDX-License-Identifier: Apache-2.0
"""A sampler whose samples are shared anew when the ranks change, under Horovod's name."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sized
from typing import Any

import torch

from hipress import runtime


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Shares the samples of a dataset among the ranks; samples of this epoch that have been seen are left out then.

    Give it to TorchState, call record_batch() after each batch, and set_epoch() at the end of each epoch. The sampler
    counts on batches of one size on all ranks.

    Arguments:
        dataset: its length must not change.
        shuffle: whether each epoch has an order of its own, the same on all ranks.
        seed: of that order; equal on all ranks.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an epoch, in which no sample has been seen. Call it at the end of the epoch before, so that a training
        that goes on within an epoch does not see samples again.
        """
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Notes that each rank has seen `batch_size` samples more."""
        self.processed_num += batch_size * self.num_replicas

    def state_dict(self) -> dict[str, Any]:
        """The epoch, and how many of its samples have been seen."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Goes on from there, with the ranks of now."""
        self.epoch = state_dict["epoch"]
        self.processed_num = state_dict["processed_num"]
        self.reset()

    def reset(self) -> None:
        """Shares the samples that have not been seen among the ranks of now."""
        self.num_replicas = runtime.size()
        self.rank = runtime.rank()
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            random.Random(self.seed + self.epoch).shuffle(indices)
        self.remaining_indices = indices[self.processed_num :]
        self.num_samples = -(-len(self.remaining_indices) // self.num_replicas)
        self.total_size = self.num_samples * self.num_replicas

    def __iter__(self) -> Iterator[int]:
        missing = self.total_size - len(self.remaining_indices)
        # All ranks get equally many: the first samples come twice.
        self.indices = (self.remaining_indices + self.remaining_indices[:missing])[self.rank :: self.num_replicas]
        return iter(self.indices)

    def __len__(self) -> int:
        return self.num_samples
