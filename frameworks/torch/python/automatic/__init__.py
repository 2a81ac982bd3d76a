# SPDX-License-Identifier: Apache-2.0
"""codec="auto" over process groups: which codecs and topologies are tried, and how their steps are measured."""
