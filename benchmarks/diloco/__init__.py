# SPDX-License-Identifier: Apache-2.0
"""Compares trainings that synchronise seldom with one that synchronises in every step: benchmarks/diloco.py."""
