# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs: `hipress run --elastic` starts processes, and tells them which of them are the ranks now."""
