# SPDX-License-Identifier: Apache-2.0
"""`hipress simulate`: predicts a step on clusters with other hosts and another network."""
