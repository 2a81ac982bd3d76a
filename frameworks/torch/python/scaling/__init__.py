# SPDX-License-Identifier: Apache-2.0
"""What the ways to average gradients know of the scale of the loss."""
