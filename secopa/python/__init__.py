# SPDX-License-Identifier: Apache-2.0
"""SeCoPa, the planner: it decides for each gradient whether to compress it, with which codec and in how many
partitions.

A profile holds measured costs, a cost model predicts a step from them, a planner searches for the plan with the
shortest predicted step, and the runtime follows that plan. docs/guide/planning.md is the guide for users.
"""
