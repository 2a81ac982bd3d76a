# SPDX-License-Identifier: Apache-2.0
"""Trainings that synchronise seldom, beside one that does in every step: benchmarks/diloco.py."""
