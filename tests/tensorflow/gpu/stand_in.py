# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's GPU kernels as operators of the processor, with tensors on the stand-in for NVIDIA's driver."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.framework.auto_control_deps_utils import register_read_only_resource_op

import hipress
from hipress import _core
from hipress.tensorflow import operators, places
from hipress.tensorflow.library import with_types
from tests.compiled import compiled
from tests.core.device.fake_gpus import HostKernels, fake_driver

ROOT = Path(__file__).parents[3]
#: TensorFlow's device of tensors that the engine finds on the stand-in.
GPU = "/device:CPU:0"

#: Whether the tensors of this rank are on the stand-in.
on_gpu = True


def loaded(source: str) -> tuple[Any, ctypes.CDLL, _core.Device]:
    """The operators of this source and its library, and the stand-in, whose stream they use."""
    flags = [flag.replace("-I", "-isystem", 1) for flag in tf.sysconfig.get_compile_flags() if "-std=" not in flag]
    core = Path(hipress.__path__[0]) / "libhipress.so"
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-fPIC", "-shared", "-DNDEBUG", *flags, f"-I{ROOT}"]
    links = [*tf.sysconfig.get_link_flags(), str(core), "-Wl,--allow-shlib-undefined", f"-Wl,-rpath,{core.parent}"]
    name = str(compiled(f"{Path(source).stem}.so", [*command, str(Path(__file__).with_name(source))], links))
    module, library = tf.load_op_library(name), ctypes.CDLL(name)
    driver, stream = ctypes.CDLL(str(fake_driver())), ctypes.c_void_p()
    driver.cuStreamCreate(ctypes.byref(stream), 0)
    library.hipress_test_use(stream, driver.cuStreamSynchronize)
    device = _core.cuda_device(0, compiler=HostKernels(), driver=str(fake_driver()))
    _core.set_device_maker(lambda ordinal: device)
    return module, library, device


def prepare() -> None:
    """From here on the tensors of this process are on the stand-in while `on_gpu` is true."""
    module, library, device = loaded("synchronizing.cc")
    ours: Any = operators._operators
    own = {kind: getattr(ours, f"hipress_{kind}") for kind in ("allreduce", "reducescatter", "broadcast")}

    def synchronize(*inputs: Any, **options: Any) -> Any:
        there = module.hipress_test_synchronize if on_gpu else module.hipress_test_host_synchronize
        return there(*inputs, **options)

    def either(kind: str) -> Any:
        there = getattr(module, f"hipress_test_{kind}")
        return lambda *arguments, **options: (there if on_gpu else own[kind])(*arguments, **options)

    operators._lists = with_types(library)
    ours.hipress_synchronize = synchronize
    ours.hipress_observe, ours.hipress_updated = module.hipress_test_observe, module.hipress_test_updated
    register_read_only_resource_op("HipressTestObserve")
    for kind in own:
        setattr(ours, f"hipress_{kind}", either(kind))

    def place_of(variable: Any, name: str, asked: str = "") -> places.Place:
        return places.Place(GPU, device) if on_gpu else places.ON_CPU

    places.place_of = place_of
