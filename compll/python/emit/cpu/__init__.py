# SPDX-License-Identifier: Apache-2.0
"""C++ for processors."""
