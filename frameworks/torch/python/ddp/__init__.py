# SPDX-License-Identifier: Apache-2.0
"""Compressed gradients in DistributedDataParallel, over the model's own process group or over HiPress' engine.

    model = DistributedDataParallel(model)
    state = hipress.torch.ddp.compress(model, codec="onebit")

or by hand: `model.register_comm_hook(hipress.torch.ddp.HookState(model, codec="onebit"), hipress.torch.ddp.hook)`.
"""

from hipress.torch.ddp.comm_hook import compress, hook
from hipress.torch.ddp.state import HookState

__all__ = ["HookState", "compress", "hook"]
