# SPDX-License-Identifier: Apache-2.0
"""Measures the start of a job: time, processor time of rank 0, and bytes."""
