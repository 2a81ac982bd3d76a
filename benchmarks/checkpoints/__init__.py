# SPDX-License-Identifier: Apache-2.0
"""Measures trainings that go on from a checkpoint with another number of ranks, and what taking codec states costs:
benchmarks/checkpoints.py and benchmarks/checkpoint_cost.py."""
