# SPDX-License-Identifier: Apache-2.0
"""HiPress has no horovod.tensorflow.elastic: its import raises Unsupported, which says what to do instead."""

from __future__ import annotations

from hipress.horovod.absent import refusal

raise refusal("tensorflow", "elastic")
