# SPDX-License-Identifier: Apache-2.0
"""Optimizers made for compression: each synchronises the values that its algorithm may compress, over HiPress' engine
or a process group.

Each replaces the plain optimizer and DistributedOptimizer(): backward() leaves every rank its own gradients, and step()
exchanges values with all ranks.
"""

from hipress.options.warmup import DGC_RATIOS, Warmup
from hipress.torch.optim.demo import DeMo
from hipress.torch.optim.dgc_sgd import DGCSGD
from hipress.torch.optim.onebit_adam import OneBitAdam
from hipress.torch.optim.onebit_lamb import OneBitLamb
from hipress.torch.optim.signum import Signum
from hipress.torch.optim.zero_one_adam import ZeroOneAdam

__all__ = ["DGCSGD", "DGC_RATIOS", "DeMo", "OneBitAdam", "OneBitLamb", "Signum", "Warmup", "ZeroOneAdam"]
