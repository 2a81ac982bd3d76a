# SPDX-License-Identifier: Apache-2.0
"""Operators that map each block of a vector, or give each block a width of its own."""
