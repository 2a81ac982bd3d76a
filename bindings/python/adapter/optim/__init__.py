# SPDX-License-Identifier: Apache-2.0
"""Steps of the optimizers that belong to codecs, on NumPy's arrays: for the frameworks other than PyTorch.

A step is a function of the parameters' values, their gradients and the optimizer's state, which the framework keeps. It
exchanges over HiPress' engine, and returns new values and a new state: if it raises, nothing has changed.
"""
