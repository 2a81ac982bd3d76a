# SPDX-License-Identifier: Apache-2.0
"""benchmarks/weight_stream.py runs, and its rows have the columns that the documents show."""

from __future__ import annotations

from benchmarks.weights.command import measure


def test_fewer_changes_take_fewer_bytes() -> None:
    none, some, many = (measure(1 << 18, share, 2) for share in (0.0, 0.01, 0.3))
    assert none["sent_percent"] < some["sent_percent"] < many["sent_percent"] < 100
    assert all(row["publish_gbps"] > 0 and row["follow_gbps"] > 0 for row in (none, some, many))
