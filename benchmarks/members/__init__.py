# SPDX-License-Identifier: Apache-2.0
"""What a training with DiLoCo loses when a replica is lost or late: benchmarks/members."""
