# SPDX-License-Identifier: Apache-2.0
"""Measures the costs of the frameworks' adapters: benchmarks/adapters.py and adapter_cost.py."""
