# SPDX-License-Identifier: Apache-2.0
"""Checks plans and predictions by measurements: benchmarks/planning.py, planning_speed.py and replanning.py."""
