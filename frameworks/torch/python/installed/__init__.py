# SPDX-License-Identifier: Apache-2.0
"""What HiPress needs of the PyTorch that is installed."""
