# SPDX-License-Identifier: Apache-2.0
"""Whether plans and predictions are right: benchmarks/planning.py, planning_speed.py and replanning.py."""
