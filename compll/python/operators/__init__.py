# SPDX-License-Identifier: Apache-2.0
"""The operators of the language: table.py has a row for each, which names the parts in the operator's own file.

Each stage of the compiler gets its part of the rows and knows only the single operators that it must tell apart.
May know every stage of the compiler up to emit/.
"""
