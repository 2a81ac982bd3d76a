# SPDX-License-Identifier: Apache-2.0
"""Synchronises the gradients of a step: the distributed optimizer and tape, their lists of variables, and states."""
