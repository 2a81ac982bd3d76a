# SPDX-License-Identifier: Apache-2.0
"""Measures a profile: the costs of codecs, links and the engine on the machines of a job.

All ranks call measure_profile() together and get the same profile. Ranks that share processors measure one after the
other, so that they do not disturb each other; ranks on different machines measure at the same time.
"""
