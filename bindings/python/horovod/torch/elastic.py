# SPDX-License-Identifier: Apache-2.0
"""horovod.torch.elastic's names."""

from __future__ import annotations

from hipress.torch.elastic import *  # noqa: F403
