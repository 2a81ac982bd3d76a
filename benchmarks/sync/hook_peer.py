# SPDX-License-Identifier: Apache-2.0
"""The hook of hipress.torch.ddp over the Gloo group of torch's own peers: DDP's buckets with HiPress' codecs."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.sync.torch_peers import Bucket, Bucketed

#: The beginning of the names of these peers; the codec follows.
HOOK = "hook-"


class Hooked(Bucketed):
    """Averages a full bucket as `hipress.torch.ddp.compress(model, codec)` does."""

    topology = "ps"

    def __init__(self, buckets: list[Bucket], codec: str) -> None:
        from hipress.torch.process_groups import GroupAverage, GroupOptions
        from hipress.torch.process_groups.dtypes import shape_of

        super().__init__(buckets)
        self.name = HOOK + codec
        self.codec = codec
        shapes = {
            str(index): shape_of(view, rows=view.shape[0] if view.dim() else 1)
            for bucket in buckets
            for index, view in zip(bucket.members, bucket.views, strict=True)
        }
        self._group = GroupAverage(shapes, None, GroupOptions(codec=codec))
        self._steps = 0

    def _start(self, bucket: Bucket) -> Callable[[], object]:
        named = [(str(index), view) for index, view in zip(bucket.members, bucket.views, strict=True)]
        started = self._group.start(named, self._steps)
        if bucket.is_last():
            self._steps += 1
        return started.wait
