# SPDX-License-Identifier: Apache-2.0
"""DiLoCo in elastic jobs: ranks that are lost, late or new."""
