# SPDX-License-Identifier: Apache-2.0
"""What the adapters of the frameworks cost: benchmarks/adapters.py and adapter_cost.py."""
