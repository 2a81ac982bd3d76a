# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.nodes import cluster, repair, unavailable


@pytest.fixture(scope="session")
def _nodes() -> Iterator[Any]:
    if (reason := unavailable()) is not None:
        pytest.skip(reason)
    with cluster.Cluster(nodes=4, rate="1gbit") as made:
        yield made


@pytest.fixture
def nodes(_nodes: Any) -> Iterator[Any]:
    """Four emulated hosts; each test finds all links repaired."""
    yield _nodes
    repair(_nodes)
