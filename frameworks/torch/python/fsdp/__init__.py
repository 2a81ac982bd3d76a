# SPDX-License-Identifier: Apache-2.0
"""Compressed gradients of models that FSDP2 (`fully_shard`) shards: between replicas, and between shards.

fully_shard(model, mesh=mesh["shard"])
state = hipress.torch.fsdp.compress_replicas(model, mesh["replicate"].get_group(), codec="onebit")

or, where FSDP2 itself averages over replicas, with the backend "hipress" (process_groups/backend.py):
`compress_hybrid(model)`;
or, for the reduce-scatter among the ranks that share a model: `compress_reduce_scatter(model, codec="fp16")`.
"""

from hipress.torch.fsdp.hybrid import HybridState, compress_hybrid
from hipress.torch.fsdp.reduce_scatter import ReduceScatterState, compress_reduce_scatter
from hipress.torch.fsdp.replicas import ReplicaState, compress_replicas

__all__ = [
    "HybridState",
    "ReduceScatterState",
    "ReplicaState",
    "compress_hybrid",
    "compress_reduce_scatter",
    "compress_replicas",
]
