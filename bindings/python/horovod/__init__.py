# SPDX-License-Identifier: Apache-2.0
"""Horovod's names for scripts written for Horovod 0.28: the import is the only line to change.

    import hipress.horovod.torch as hvd       # was: import horovod.torch as hvd

There is one module per framework, as in Horovod. HiPress adds keyword arguments: `codec`, `topology`, `partitions`.
"""

from __future__ import annotations

from hipress.horovod import absent

__getattr__ = absent.refusing("horovod")
