# SPDX-License-Identifier: Apache-2.0
"""From a program to files and libraries: compiles, keeps and trusts them. May know every other folder."""
