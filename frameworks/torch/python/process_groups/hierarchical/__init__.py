# SPDX-License-Identifier: Apache-2.0
"""Topology "hierarchical": the ranks of a host add raw values before the exchange with other hosts."""
