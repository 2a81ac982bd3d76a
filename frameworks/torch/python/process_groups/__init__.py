# SPDX-License-Identifier: Apache-2.0
"""Compressed averages over any torch.distributed process group: the codecs, error feedback and messages of HiPress,
carried by the group's own collectives. No `init()`, launcher or transport of HiPress is needed.

The backend "hipress" of torch.distributed is a process group that averages gradients so (backend.py).
"""

from hipress.torch.process_groups.average import GroupAverage
from hipress.torch.process_groups.backend import BackendOptions, configure, register
from hipress.torch.process_groups.compressing_group import CompressingGroup
from hipress.torch.process_groups.named_gradients import gradients
from hipress.torch.process_groups.options import GroupOptions

__all__ = ["BackendOptions", "CompressingGroup", "GroupAverage", "GroupOptions", "configure", "gradients"]

register()
