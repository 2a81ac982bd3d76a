# SPDX-License-Identifier: Apache-2.0
"""The loss of trainings with DiLoCo in which a replica is lost or late: benchmarks/members."""
