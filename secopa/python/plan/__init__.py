# SPDX-License-Identifier: Apache-2.0
"""Plans: the decision about each gradient, and the files that hold them."""
