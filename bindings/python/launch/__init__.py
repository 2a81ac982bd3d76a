# SPDX-License-Identifier: Apache-2.0
"""Starting the ranks of a job, and how each rank learns from its launcher where the ranks meet."""
