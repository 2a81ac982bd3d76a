# SPDX-License-Identifier: Apache-2.0
"""Cost models, a file each: what a step takes, computed from a profile. cost_model.py says what all of them answer."""
