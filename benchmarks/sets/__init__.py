# SPDX-License-Identifier: Apache-2.0
"""Whether process sets of one job disturb each other: benchmarks/sets."""
