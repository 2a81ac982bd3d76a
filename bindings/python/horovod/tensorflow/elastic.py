# SPDX-License-Identifier: Apache-2.0
"""horovod.tensorflow.elastic: not there. To import it raises Unsupported, which says what to do instead."""

from __future__ import annotations

from hipress.horovod.absent import refusal

raise refusal("tensorflow", "elastic")
