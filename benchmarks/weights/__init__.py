# SPDX-License-Identifier: Apache-2.0
"""How long codecs take by themselves: benchmarks/codec.py and codec_gpu.py."""
