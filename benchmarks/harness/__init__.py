# SPDX-License-Identifier: Apache-2.0
"""What several benchmarks share: starting ranks, meeting, environments, and reporting."""
