# SPDX-License-Identifier: Apache-2.0
"""From a syntax tree to a checked program in the typed IR. May know frontend/, reference/ and ir/."""
