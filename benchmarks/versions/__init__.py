# SPDX-License-Identifier: Apache-2.0
"""Compares two installed versions of HiPress in turns: benchmarks/versions.py."""
