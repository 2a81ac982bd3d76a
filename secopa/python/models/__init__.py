# SPDX-License-Identifier: Apache-2.0
"""Cost models: each predicts a step from a profile. cost_model.py is their interface, registry.py has their names."""
