# SPDX-License-Identifier: Apache-2.0
"""Code that several benchmarks use: it starts ranks, joins them, makes environments, and writes reports."""
