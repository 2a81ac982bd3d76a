# SPDX-License-Identifier: Apache-2.0
"""HiPress in trainers that wrap the model themselves. Each module imports its trainer's package:

hipress.torch.integrations.lightning      a callback
hipress.torch.integrations.transformers   a Trainer, and what makes one of any subclass
hipress.torch.integrations.accelerate     a function for prepared models
hipress.torch.integrations.torchft        a process group for its Manager, and its DistributedDataParallel
"""
