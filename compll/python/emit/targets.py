# SPDX-License-Identifier: Apache-2.0
"""All targets, by name."""

from __future__ import annotations

from hipress.compll.emit.cpu.codec import CPU
from hipress.compll.emit.cuda.codec import CUDA
from hipress.compll.emit.target import Target

TARGETS: dict[str, Target] = {target.name: target for target in (CPU, CUDA)}
