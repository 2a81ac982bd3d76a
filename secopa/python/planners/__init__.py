# SPDX-License-Identifier: Apache-2.0
"""Planners: they search for the plan with which a cost model predicts the shortest step. planner.py chooses one."""
