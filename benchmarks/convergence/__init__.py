# SPDX-License-Identifier: Apache-2.0
"""Trainings with every codec and optimizer, repeated with other seeds: which of them change no result."""
