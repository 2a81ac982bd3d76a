# SPDX-License-Identifier: Apache-2.0
"""What ranks do to average values that travel encoded. Each of the three parts runs in a thread of its own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray

from hipress.torch.process_groups import group_calls, messages
from hipress.torch.process_groups.batch import Batch
from hipress.torch.process_groups.group_calls import Group
from hipress.torch.process_groups.layout import Partition
from hipress.torch.process_groups.residuals import Floats, Residuals

#: Purposes of random numbers, as the engine has them: EncodeAs of core/casync/graph/task_graph.h.
_CONTRIBUTION, _RESULT = 0, 1

#: How many bytes an all-gather of averages may have, as a multiple of the averages themselves.
_PADDING = 1.05


class Exchange:
    """The ranks of a group average the values of a batch.

    With `whole` each rank collects all ranks' encoded values and averages them in rank order (topology "allgather").
    Otherwise each rank sends its encoded shares to their owners; the owner adds the decoded values in rank order in
    float32, its own values unencoded, and encodes the average; all ranks collect the owners' messages and decode the
    same bytes (topology "ps").

    Arguments:
        exchange, collect: two groups of these ranks. Each thread has one, so that collectives start in the same order
            on all ranks, whatever else the program does with its groups.
        seed: of random rounding, and different on every rank that averages the same tensors.
        numbers: of tensors, by name, for random rounding.
    """

    def __init__(self, exchange: Group, collect: Group, *, whole: bool, seed: int, numbers: Mapping[str, int]) -> None:
        self._exchange, self._collect = exchange, collect
        self._whole = whole
        self._seed = seed
        self._numbers = numbers
        self.world: int = exchange.size()
        self.rank: int = exchange.rank()
        self.residuals = Residuals()
        #: What this rank has given to collectives of bytes, by the rank that gets it; exact values are not counted.
        self.sent_to = [0] * self.world

    # First thread.
    def encode(self, batch: Batch) -> None:
        """Starts the sum of the exact values, and sends what this rank contributes."""
        if batch.together is not None:
            batch.exact_work = group_calls.all_reduce(self._exchange, batch.together)
        if self._whole:
            self._encode_whole(batch)
        elif batch.values:
            self._encode_shares(batch)

    def _encode_whole(self, batch: Batch) -> None:
        size = batch.layout.bytes_of_owner[0]
        if size == 0:
            return
        batch.sent = torch.zeros(size, dtype=torch.uint8)
        for partition in batch.layout.partitions:
            self._encode_one(batch, partition, _values(batch, partition), batch.sent.numpy(), _CONTRIBUTION)
        self._gather(batch, self._exchange)

    def _encode_shares(self, batch: Batch) -> None:
        sizes = list(batch.layout.bytes_of_owner)
        own = sizes[self.rank]
        sizes[self.rank] = 0  # its own values need no message
        starts = np.cumsum([0, *sizes])
        batch.sent = torch.zeros(int(starts[-1]), dtype=torch.uint8)
        sent = batch.sent.numpy()
        for partition in batch.layout.partitions:
            if partition.owner != self.rank:
                block = sent[starts[partition.owner] : starts[partition.owner + 1]]
                self._encode_one(batch, partition, _values(batch, partition), block, _CONTRIBUTION)
        self._count(sizes)
        from_each = [0 if rank == self.rank else own for rank in range(self.world)]
        batch.received = torch.empty(sum(from_each), dtype=torch.uint8)
        batch.work = group_calls.all_to_all(self._exchange, batch.received, batch.sent, from_each, sizes)

    # Second thread.
    def average(self, batch: Batch) -> None:
        """Waits for the others' contributions. An owner sends the average of its shares."""
        if batch.work is not None:
            batch.work.wait()
        if not self._whole and batch.values:
            self._average_shares(batch)

    def _average_shares(self, batch: Batch) -> None:
        assert batch.received is not None
        received = batch.received.numpy()
        own = batch.layout.bytes_of_owner[self.rank]
        averages = torch.zeros(own, dtype=torch.uint8)
        for partition in batch.layout.owned_by(self.rank):
            total = np.zeros(partition.count, np.float32)
            for rank in range(self.world):
                if rank == self.rank:
                    total += _values(batch, partition)
                    continue
                start = (rank if rank < self.rank else rank - 1) * own
                self._read(batch, partition, received[start : start + own], rank, total)
            total *= np.float32(batch.factor)
            self._encode_one(batch, partition, total, averages.numpy(), _RESULT)
        self._send_averages(batch, averages)

    def _send_averages(self, batch: Batch, averages: torch.Tensor) -> None:
        sizes = list(batch.layout.bytes_of_owner)
        if self.world * max(sizes) <= _PADDING * sum(sizes):
            batch.sent = torch.nn.functional.pad(averages, (0, max(sizes) - averages.numel()))
            self._gather(batch, self._collect)
            return
        # An all-gather would send as much for ranks that own little as for the one that owns most.
        own = averages.numel()
        to_each = [0 if rank == self.rank else own for rank in range(self.world)]
        sizes[self.rank] = 0
        self._count(to_each)
        batch.sent = averages.repeat(self.world - 1)
        received = torch.empty(sum(sizes), dtype=torch.uint8)
        batch.work = group_calls.all_to_all(self._collect, received, batch.sent, sizes, to_each)
        batch.blocks = [part.numpy() for part in received.split(sizes)]
        batch.blocks[self.rank] = averages.numpy()

    # Third thread.
    def decode(self, batch: Batch) -> None:
        """Waits for the averages, and writes them to `batch.results`; waits for the exact ones."""
        if batch.work is not None:
            batch.work.wait()
        if batch.values:
            for partition in batch.layout.partitions:
                into = np.zeros(partition.count, np.float32)
                for rank in range(self.world) if self._whole else [partition.owner]:
                    self._read(batch, partition, batch.blocks[rank], rank, into)
                if self._whole:
                    into *= np.float32(batch.factor)
                result = batch.results[partition.tensor]
                result[partition.first : partition.first + partition.count].copy_(torch.from_numpy(into))
        if batch.exact_work is not None:
            batch.exact_work.wait()

    def _gather(self, batch: Batch, group: Group) -> None:
        assert batch.sent is not None
        size = batch.sent.numel()
        self._count([0 if rank == self.rank else size for rank in range(self.world)])
        received = torch.empty(self.world * size, dtype=torch.uint8)
        batch.work = group_calls.all_gather(group, received, batch.sent)
        batch.blocks = list(received.numpy().reshape(self.world, -1))

    def _count(self, sizes: list[int]) -> None:
        self.sent_to = [before + size for before, size in zip(self.sent_to, sizes, strict=True)]

    def _read(self, batch: Batch, partition: Partition, block: NDArray[np.uint8], sender: int, total: Floats) -> None:
        slot = block[partition.offset : partition.offset + partition.slot_bytes]
        messages.read(slot, batch.layout.tensors[partition.tensor], partition, sender, total, add=True)

    def _encode_one(
        self, batch: Batch, partition: Partition, values: Floats, block: NDArray[np.uint8], purpose: int
    ) -> None:
        tensor = batch.layout.tensors[partition.tensor]
        slot = block[partition.offset : partition.offset + partition.slot_bytes]
        if partition.raw:
            return messages.write_raw(slot, tensor, partition, values)
        codec = tensor.codec if purpose == _CONTRIBUTION else tensor.codec.for_aggregate()
        first = tensor.first + partition.first
        key = (tensor.name, ("worker", "aggregator")[purpose], first, partition.count)
        size = self.residuals.encode(
            codec,
            key,
            values,
            messages.payload_room(slot),
            seed=self._seed + (purpose << 32),
            step=batch.step,
            tensor=self._numbers[tensor.name],
            first_element=first,
        )
        if size > 0:
            batch.encoded.append(key)
        messages.seal(slot, tensor, partition, size)


def _values(batch: Batch, partition: Partition) -> Floats:
    return batch.values[partition.tensor][partition.first : partition.first + partition.count]
