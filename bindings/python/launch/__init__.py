# SPDX-License-Identifier: Apache-2.0
"""Starts the ranks of a job. Each rank learns from its launcher where to find rank 0 (rendezvous)."""
