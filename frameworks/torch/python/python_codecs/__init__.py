# SPDX-License-Identifier: Apache-2.0
"""Codecs as classes of Python: `encode(values, state)` and `decode(tensors, shape)` in torch's operations.

HiPress gives them error feedback, states in checkpoints, topologies and all ways in (docs/extending/python-codec.md).
"""

from hipress.torch.python_codecs.compressors import register_compressor
from hipress.torch.python_codecs.encode_state import EncodeState
from hipress.torch.python_codecs.registration import register_codec

__all__ = ["EncodeState", "register_codec", "register_compressor"]
