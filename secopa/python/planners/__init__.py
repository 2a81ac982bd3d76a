# SPDX-License-Identifier: Apache-2.0
"""Planners: they search for the plan with the shortest step in a cost model. planner.py chooses a planner."""
