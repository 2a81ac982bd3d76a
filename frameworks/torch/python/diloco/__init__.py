# SPDX-License-Identifier: Apache-2.0
"""Training that synchronises seldom: DiLoCo, Streaming DiLoCo, SparseLoCo and local SGD, over HiPress' engine.

Each rank takes H steps of its own (inner) optimizer. How far that moved its parameters is the pseudo-gradient; the
average of all ranks' pseudo-gradients drives one step of an outer optimizer, from whose result all ranks go on.
"""

from hipress.torch.diloco.diloco import DiLoCo
from hipress.torch.diloco.members.quorum import Quorum
from hipress.torch.diloco.presets import PRESETS, Preset
from hipress.torch.diloco.sparseloco import SparseLoCo

__all__ = ["PRESETS", "DiLoCo", "Preset", "Quorum", "SparseLoCo"]
