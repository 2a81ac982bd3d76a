# SPDX-License-Identifier: Apache-2.0
"""The gradients of a step: the distributed optimizer and tape, the lists of variables behind them, the state."""
