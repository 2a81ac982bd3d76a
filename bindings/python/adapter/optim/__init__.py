# SPDX-License-Identifier: Apache-2.0
"""Kinds of optimizers (optimizer_traits.py), and steps of the optimizers made for compression, on NumPy arrays,
for the frameworks other than PyTorch.

A step is a function of the parameters' values, their gradients and the optimizer's state; the framework keeps the
state. A step exchanges values over HiPress' engine and returns new values and a new state, so after an error nothing
has changed.
"""
