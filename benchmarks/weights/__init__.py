# SPDX-License-Identifier: Apache-2.0
"""Measures a stream of weight versions: benchmarks/weight_stream.py."""
