# SPDX-License-Identifier: Apache-2.0
"""What a program means: the interpreter in NumPy, which every generated codec is compared with. May know ir/."""
