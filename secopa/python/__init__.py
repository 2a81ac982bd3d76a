# SPDX-License-Identifier: Apache-2.0
"""SeCoPa plans synchronisation: gradient by gradient, whether to compress it, with what, in how many partitions.

A profile says what encoding, sending and adding up cost; a cost model predicts a step from it; the planner searches for
the step that takes least; the plan is what the runtime then does. docs/guide/planning.md is for who uses it.
"""
