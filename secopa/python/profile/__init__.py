# SPDX-License-Identifier: Apache-2.0
"""Profiles: what codecs, links and the engine cost, the gradients of a model, and how such files are read."""
