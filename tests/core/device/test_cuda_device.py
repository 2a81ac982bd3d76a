# SPDX-License-Identifier: Apache-2.0
"""The error for a GPU that cannot be used gives the reason and the remedy; the tests use the stand-in for the
driver."""

from __future__ import annotations

import ctypes.util

import numpy as np
import pytest

from hipress import _core
from hipress.compll.build.kernels import compile_kernels
from hipress.errors import HipressError, InvalidArgument, Unsupported
from tests.compll.emit.cuda import compare
from tests.compll.emit.cuda.build import starting_library
from tests.compll.emit.cuda.device import DeviceMemory, Runtime
from tests.compll.emit.cuda.programs import program
from tests.core.device.fake_gpus import HostKernels, fake_driver

#: A library that is not a driver.
OTHER = ctypes.util.find_library("m") or "libm.so.6"


def test_no_driver() -> None:
    missing = r"cuda:1 cannot be used: there is no NVIDIA driver .*libnothing\.so"
    with pytest.raises(Unsupported, match=missing) as refused:
        _core.cuda_device(1, compiler=compile_kernels, driver="libnothing.so")
    assert "install it" in str(refused.value)


def test_a_library_that_is_no_driver() -> None:
    with pytest.raises(Unsupported, match="cuda:0 cannot be used: the NVIDIA driver has no function cuInit"):
        _core.cuda_device(0, compiler=compile_kernels, driver=OTHER)


@pytest.mark.parametrize("ordinal", [-1, 2])
def test_no_such_gpu(ordinal: int) -> None:
    with pytest.raises(Unsupported, match=rf"cuda:{ordinal} cannot be used: CUDA finds 2 GPUs"):
        _core.cuda_device(ordinal, compiler=HostKernels(), driver=str(fake_driver()))


def test_code_that_the_driver_does_not_load() -> None:
    with pytest.raises(Unsupported, match=r"does not load the kernels of merge sum_float32.*nvidia-cuda-nvrtc"):
        _core.cuda_device(0, compiler=lambda *_: b"no code", driver=str(fake_driver()))


@pytest.mark.parametrize("kind", [Unsupported, InvalidArgument])
def test_the_compilers_error_is_the_devices(kind: type[HipressError]) -> None:
    """The error comes when the device is made, and not in the first step."""

    def refuse(*_: object) -> bytes:
        raise kind("NVRTC is not here")

    with pytest.raises(kind, match="NVRTC is not here"):
        _core.cuda_device(0, compiler=refuse, driver=str(fake_driver()))


def test_kernels_are_compiled_when_they_are_needed() -> None:
    compiler = HostKernels()
    device = _core.cuda_device(0, compiler=compiler, driver=str(fake_driver()))
    assert compiler.titles == ["merge sum_float32"]
    values = np.arange(10, dtype=np.float32)
    read = np.empty_like(values)
    device.array(values).read(read)
    assert (read == values).all()


@pytest.mark.slow
def test_the_harness_of_the_gpu_tests_works(tmp_path_factory: pytest.TempPathFactory) -> None:
    """The harness makes its driver calls with kernels that run on the processor."""
    library = starting_library([program("terngrad")], tmp_path_factory.mktemp("starting"))
    memory = DeviceMemory(Runtime(str(fake_driver()), HostKernels()))
    compare.same_steps("terngrad", library, memory, 4097, {})
    compare.same_refusals("terngrad", library, memory)
