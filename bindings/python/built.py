# SPDX-License-Identifier: Apache-2.0
"""What Horovod scripts ask about how it was built. HiPress has its own transport and uses none of these libraries."""

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
    """NCCL's version; 0: not built with it."""
    return 0


def ddl_built() -> bool:
    """False: HiPress does not use IBM's DDL."""
    return False


def ccl_built() -> bool:
    """False: HiPress does not use Intel's oneCCL."""
    return False


def cuda_built() -> bool:
    """Whether tensors on NVIDIA GPUs can be synchronised as they are: NVRTC is there, which compiles the kernels."""
    from hipress.compll.build.nvrtc import find_nvrtc

    try:
        find_nvrtc()
    except Unsupported:
        return False
    return True


def rocm_built() -> bool:
    """False: HiPress has no kernels for AMD's GPUs."""
    return False
