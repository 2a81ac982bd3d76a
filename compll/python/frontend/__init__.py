# SPDX-License-Identifier: Apache-2.0
"""From the text of a program to its syntax tree. May know ir/, for the places in a text."""
