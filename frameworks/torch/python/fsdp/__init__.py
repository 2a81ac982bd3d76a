# SPDX-License-Identifier: Apache-2.0
"""Compressed traffic of models that FSDP2 (`fully_shard`) shards: between replicas, and between shards.

fully_shard(model, mesh=mesh["shard"])
state = hipress.torch.fsdp.compress_replicas(model, mesh["replicate"].get_group(), codec="onebit")

or, where FSDP2 itself averages over replicas, with the backend "hipress" (process_groups/backend.py):
`compress_hybrid(model)`;
or, among the ranks that share a model, for the reduce-scatter of gradients and the all-gather of parameters:
`compress_reduce_scatter(model, codec="fp16")`, `compress_all_gather(model, codec="int8")`.
"""

from hipress.torch.fsdp.all_gather import AllGatherState, compress_all_gather
from hipress.torch.fsdp.hybrid import HybridState, compress_hybrid
from hipress.torch.fsdp.reduce_scatter import ReduceScatterState, compress_reduce_scatter
from hipress.torch.fsdp.replicas import ReplicaState, compress_replicas

__all__ = [
    "AllGatherState",
    "HybridState",
    "ReduceScatterState",
    "ReplicaState",
    "compress_all_gather",
    "compress_hybrid",
    "compress_reduce_scatter",
    "compress_replicas",
]
