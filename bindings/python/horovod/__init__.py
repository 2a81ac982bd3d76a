# SPDX-License-Identifier: Apache-2.0
"""Horovod's names, for scripts written for Horovod 0.28: change the import, and nothing else.

    import hipress.horovod.torch as hvd       # was: import horovod.torch as hvd

There is a module per framework, as in Horovod. What HiPress adds (`codec`, `topology`, `partitions`) are keyword
arguments.
"""

from __future__ import annotations

from hipress.horovod import absent

__getattr__ = absent.refusing("horovod")
