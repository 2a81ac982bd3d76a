# SPDX-License-Identifier: Apache-2.0
"""Measures the time of codecs alone: benchmarks/codec.py and codec_gpu.py."""
