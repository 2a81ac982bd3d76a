# SPDX-License-Identifier: Apache-2.0
"""Planners. They search for the plan for which a cost model predicts the shortest step. planner.py chooses a
planner.
"""
