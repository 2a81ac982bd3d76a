# SPDX-License-Identifier: Apache-2.0
"""The side of an average for the device that a model is on."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from hipress.errors import Unsupported
from hipress.torch.process_groups.gpus.side import GpuSide
from hipress.torch.process_groups.side import HostSide, Side


def side_for(devices: Mapping[str, torch.device]) -> Side:
    """Where gradients are averaged that are on these devices; `devices`: by the parameter's name.

    Raises Unsupported if they are on several devices, or if a GPU cannot be used, with the reason.
    """
    places = {device: name for name, device in devices.items()}
    if len(places) > 1:
        (first, name), (second, other) = list(places.items())[:2]
        raise Unsupported(
            f"parameter '{name}' is on {first} and '{other}' on {second}; a compressed average over a process group "
            "takes a model on one device"
        )
    device = next(iter(places), torch.device("cpu"))
    if device.type == "cuda":
        return GpuSide(device)
    if device.type != "cpu":
        raise Unsupported(
            f"the model is on {device}; a compressed average over a process group takes models on the CPU or on an "
            "NVIDIA GPU"
        )
    return HostSide()
