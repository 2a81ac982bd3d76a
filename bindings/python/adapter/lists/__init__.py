# SPDX-License-Identifier: Apache-2.0
"""Parts of a list of tensors (hipress.adapter.synchronizer): descriptions, checks, ways to travel, changes of ranks."""
