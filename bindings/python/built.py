# SPDX-License-Identifier: Apache-2.0
"""Horovod's functions that tell how it was built. HiPress has its own transport and uses none of these libraries."""

from __future__ import annotations

from hipress.errors import Unsupported


def mpi_built() -> bool:
    """False: HiPress does not use MPI."""
    return False


def mpi_enabled() -> bool:
    """False: HiPress does not use MPI."""
    return False


def mpi_threads_supported() -> bool:
    """False: HiPress does not use MPI."""
    return False


def gloo_built() -> bool:
    """False: HiPress does not use Gloo."""
    return False


def gloo_enabled() -> bool:
    """False: HiPress does not use Gloo."""
    return False


def nccl_built() -> int:
    """0: HiPress does not use NCCL."""
    return 0


def ddl_built() -> bool:
    """False: HiPress does not use IBM's DDL."""
    return False


def ccl_built() -> bool:
    """False: HiPress does not use Intel's oneCCL."""
    return False


def cuda_built() -> bool:
    """Whether HiPress can synchronise tensors on NVIDIA GPUs directly, which needs NVRTC to compile the kernels."""
    from hipress.compll.build.nvrtc import find_nvrtc

    try:
        find_nvrtc()
    except Unsupported:
        return False
    return True


def rocm_built() -> bool:
    """False: HiPress has no kernels for AMD's GPUs."""
    return False
