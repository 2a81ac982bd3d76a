# SPDX-License-Identifier: Apache-2.0
"""Worlds of an elastic job, as its processes see them: each asks its launcher for a place in the next one."""
