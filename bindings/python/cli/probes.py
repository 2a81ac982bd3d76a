# SPDX-License-Identifier: Apache-2.0
"""The doctor's probes of native libraries. For each probe the doctor runs `python -m hipress.cli.probes NAME ...`.

A broken driver or framework may crash or hang the process that loads it. In a separate process, this is a finding. Each
probe prints one JSON object as its last line of output.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import sys
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from hipress._library import load_core
from hipress.compll.build.kernels import compile_kernels
from hipress.compll.build.nvrtc import find_nvrtc
from hipress.errors import HipressError
from hipress.network.devices import Device, local_devices

Facts = dict[str, Any]


def probe_core() -> Facts:
    """Load hipress._core and return its facts about UCX and codecs. A key is missing if the core lacks the function."""
    core = load_core()
    facts: Facts = {"file": str(core.__file__)}
    functions = {"ucx": "ucx_info", "codecs": "describe_codecs", "isa": "isa_level"}
    for key, function in functions.items():
        try:
            facts[key] = getattr(core, function)()
            if key == "codecs":  # codecs without an encoding of their own, too
                facts[key] += core.describe_codecs(encode=False)
        except AttributeError:
            continue
        except Exception as error:
            facts[f"{key}_error"] = f"{type(error).__name__}: {error}"
    try:
        facts["network"] = [known(device) for device in local_devices(core.ucx_info()["transports"])]
    except Exception as error:
        facts["network_error"] = f"{type(error).__name__}: {error}"
    return facts


def probe_shared_memory(ranks: str) -> Facts:
    """Ask the core which shared memory so many ranks of this host would take."""
    return dict(load_core().shared_memory(int(ranks)))


def known(device: Device) -> Facts:
    """The facts about a network device that a host knows without other hosts."""
    return {field: value for field, value in asdict(device).items() if field != "leads"}


def probe_gpus() -> Facts:
    """Ask the driver library for the GPUs, which needs no CUDA toolkit."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return {"driver": None, "gpus": []}
    _call(driver, "cuInit", 0)
    version, count = ctypes.c_int(), ctypes.c_int()
    _call(driver, "cuDriverGetVersion", ctypes.byref(version))
    _call(driver, "cuDeviceGetCount", ctypes.byref(count))
    names = []
    for index in range(count.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        _call(driver, "cuDeviceGet", ctypes.byref(device), index)
        _call(driver, "cuDeviceGetName", name, len(name), device)
        names.append(name.value.decode(errors="replace"))
    found: Facts = {"driver": f"CUDA {version.value // 1000}.{version.value % 1000 // 10}", "gpus": names}
    try:
        nvrtc = find_nvrtc()
        found["nvrtc"] = f"{nvrtc.version[0]}.{nvrtc.version[1]}"
        for index in range(count.value):
            load_core().cuda_device(index, compiler=compile_kernels)
    except HipressError as error:
        found["unusable"] = str(error)
    return found


def _call(driver: ctypes.CDLL, function: str, *arguments: object) -> None:
    code = getattr(driver, function)(*arguments)
    if code:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(code, ctypes.byref(text))
        raise OSError(f"{function} failed with {code}: {(text.value or b'unknown error').decode(errors='replace')}")


def probe_framework(name: str) -> Facts:
    """Import HiPress' adapter for the framework `name`, which loads its operators. The facts include advice."""
    facts: Facts = {}
    try:
        importlib.import_module(f"hipress.{name}")
    except HipressError as error:
        facts["advice"] = str(error)
    except Exception as error:
        facts["adapter_error"] = f"{type(error).__name__}: {error}"
    try:
        facts["version"] = str(getattr(importlib.import_module(name), "__version__", "unknown"))
    except Exception as error:
        facts["error"] = str(error) or type(error).__name__
    return facts


PROBES: dict[str, Callable[..., Facts]] = {
    "core": probe_core,
    "gpus": probe_gpus,
    "framework": probe_framework,
    "shared_memory": probe_shared_memory,
}


def main(arguments: list[str]) -> None:
    """Run the probe named first with the other arguments; an error becomes the key "error"."""
    name, *rest = arguments
    try:
        facts = PROBES[name](*rest)
    except Exception as error:
        facts = {"error": str(error) or type(error).__name__}
    print(json.dumps(facts, default=str), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
