# SPDX-License-Identifier: Apache-2.0
"""Profiles: the costs of codecs, links and the engine, the gradients of a model, and functions that read the files."""
