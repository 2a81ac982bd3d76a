# SPDX-License-Identifier: Apache-2.0
"""Compares FSDP2's traffic as it is with the same traffic in block int8: `python benchmarks/fsdp`."""
