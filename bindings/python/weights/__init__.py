# SPDX-License-Identifier: Apache-2.0
"""Versions of a model's weights from one publisher to many followers. A version has the changes since the last one.

weight.py      one tensor of a stream: name, element type, shape, bytes
version.py     one version as a file (docs/wire-format.md)
store.py       the store of versions: a folder, or any store of named bytes
publisher.py   writes versions
follower.py    applies versions
"""

from hipress.weights.follower import Follower
from hipress.weights.publisher import Publisher
from hipress.weights.store import FolderStore, Store
from hipress.weights.weight import Weight

__all__ = ["FolderStore", "Follower", "Publisher", "Store", "Weight"]
