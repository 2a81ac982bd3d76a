# SPDX-License-Identifier: Apache-2.0
"""The operators of a codec for PyTorch, TensorFlow and MXNet. May know ir/."""
