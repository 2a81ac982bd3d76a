# SPDX-License-Identifier: Apache-2.0
"""Measures a profile: what codecs, links and the engine cost where the ranks of a job are.

All ranks call measure_profile() together and get the same profile. Ranks whose work would disturb each other's, because
they share processors, take turns; those that do not share any measure at the same time.
"""
