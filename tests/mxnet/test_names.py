# SPDX-License-Identifier: Apache-2.0
"""hipress.horovod.mxnet has every name of horovod.mxnet 0.28.1, with the arguments at the same positions."""

from __future__ import annotations

import inspect

import pytest

pytest.importorskip("mxnet", reason="MXNet is not installed (requirements/mxnet.txt)")

import hipress.horovod.mxnet as hvd

#: The names in horovod/mxnet/__init__.py.
NAMES = """
    Adasum Average Compression DistributedOptimizer DistributedTrainer Max Min ProcessSet Product Sum add_process_set
    allgather allgather_object allreduce allreduce_ alltoall broadcast broadcast_ broadcast_object broadcast_parameters
    ccl_built cross_rank cross_size cuda_built ddl_built global_process_set gloo_built gloo_enabled grouped_allgather
    grouped_allreduce grouped_allreduce_ grouped_reducescatter init is_initialized local_rank local_size mpi_built
    mpi_enabled mpi_threads_supported nccl_built rank reducescatter remove_process_set rocm_built shutdown size
    start_timeline stop_timeline
"""
#: The arguments of functions that scripts call with positional arguments.
ARGUMENTS = {
    "init": "comm process_sets",
    "allreduce": "tensor average name priority prescale_factor postscale_factor process_set op",
    "allreduce_": "tensor average name priority prescale_factor postscale_factor process_set op",
    "allgather": "tensor name priority process_set",
    "grouped_allgather": "tensors name priority process_set",
    "broadcast": "tensor root_rank name priority process_set",
    "broadcast_": "tensor root_rank name priority process_set",
    "alltoall": "tensor splits name priority process_set",
    "reducescatter": "tensor op name priority process_set prescale_factor postscale_factor",
    "grouped_reducescatter": "tensors op name priority process_set prescale_factor postscale_factor",
    "broadcast_parameters": "params root_rank prefix",
    "DistributedTrainer": "params optimizer optimizer_params compression gradient_predivide_factor prefix num_groups "
    "process_set",
    "DistributedOptimizer": "optimizer gradient_predivide_factor num_groups process_set",
}


@pytest.mark.parametrize("name", NAMES.split())
def test_horovods_names_are_there(name: str) -> None:
    assert hasattr(hvd, name)
    assert name in hvd.__all__


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_are_where_horovod_has_them(name: str) -> None:
    parameters = inspect.signature(getattr(hvd, name)).parameters.values()
    positional = [each.name for each in parameters if each.kind == inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert positional == ARGUMENTS[name].split()
