# SPDX-License-Identifier: Apache-2.0
"""Compares bursts of named calls with lists that ranks have agreed on: benchmarks/calls.py."""
