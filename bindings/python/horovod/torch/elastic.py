# SPDX-License-Identifier: Apache-2.0
"""HiPress has no horovod.torch.elastic: its import raises Unsupported, which says what to do instead."""

from __future__ import annotations

from hipress.horovod.absent import refusal

raise refusal("torch", "elastic")
