# SPDX-License-Identifier: Apache-2.0
"""The options that hipress.tensorflow adds to those of all-reduces in all frameworks.

Not `from __future__ import annotations`: hipress.options.declaration reads these at run time.
"""

from typing import Annotated

from hipress.adapter.collective_options import CompressedAllreduceOptions
from hipress.options.declaration import Option


class TensorflowAllreduceOptions(CompressedAllreduceOptions, total=False):
    """The options of an all-reduce."""

    device_dense: Annotated[
        str,
        Option("Ranks combine dense tensors on this device, such as CPU:0; empty: where the tensors are.", default=""),
    ]
    device_sparse: Annotated[str, Option("Horovod's; it changes nothing: slices are gathered on the CPU.", default="")]
    ignore_name_scope: Annotated[bool, Option("Horovod's; it changes nothing.", default=False)]
