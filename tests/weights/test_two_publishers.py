# SPDX-License-Identifier: Apache-2.0
"""A stream has one publisher: of two, the store decides which one goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hipress.errors import InvalidArgument
from hipress.weights import FolderStore, Follower, Publisher
from tests.weights.models import NamedBytes, equal, model, trained, versions_in, weights


def test_a_second_publisher_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    first, second = Publisher(FolderStore(tmp_path)), Publisher(FolderStore(tmp_path))
    trainer, evaluator = model(), model(seed=1)
    first.publish(weights(trainer))
    with pytest.raises(InvalidArgument, match=r"version 1 is in .* already, .* last version is 0: another publisher"):
        second.publish(weights(trainer))
    assert first.publish(weights(trainer)) == 2
    Follower(FolderStore(tmp_path)).follow(weights(evaluator), 1.0)
    assert equal(trainer, evaluator)


@pytest.mark.parametrize("kind", ["folder", "bytes"])
def test_an_older_publisher_is_refused_when_a_newer_one_has_gone_on(tmp_path: Path, kind: str) -> None:
    """The newer one has deleted old versions, so the older one's next number is free."""
    store: Any = FolderStore(tmp_path) if kind == "folder" else NamedBytes()
    trainer, evaluator = model(), model(seed=1)
    older = Publisher(store, anchor_every=2, keep_anchors=1)
    for _ in range(3):
        older.publish(weights(trainer))
    newer = Publisher(store, anchor_every=2, keep_anchors=1)
    for step in range(6):
        trained(trainer, step)
        newer.publish(weights(trainer))
    before = sorted(store.names())
    for _ in range(2):
        with pytest.raises(InvalidArgument, match=r"version 9 is in .* this publisher's last version is 3: another"):
            older.publish(weights(model()))
    assert sorted(store.names()) == before
    assert newer.publish(weights(trainer)) == 10
    assert Follower(store).follow(weights(evaluator), 1.0) == 10
    assert equal(trainer, evaluator)


@pytest.mark.parametrize(
    ("kind", "versions", "whole"), [("folder", 0, True), ("folder", 3, True), ("folder", 7, True), ("bytes", 7, False)]
)
def test_an_older_publisher_is_refused_when_a_newer_one_began_in_a_cleared_store(
    tmp_path: Path, kind: str, versions: int, whole: bool
) -> None:
    """`whole`: the store is empty then; otherwise the user deleted the versions only. Both train alike, so the newer
    one's seventh version has the bytes of the older one's."""
    store: Any = FolderStore(tmp_path) if kind == "folder" else NamedBytes()
    trainer, other, evaluator = model(), model(), model(seed=1)
    older = Publisher(store)
    for step in range(7):
        trained(trainer, step)
        older.publish(weights(trainer))
    for name in list(store.names()):
        if whole or name.endswith(".weights"):
            store.delete(name)
    newer = Publisher(store)
    for step in range(versions):
        trained(other, step)
        newer.publish(weights(other))
    before = sorted(store.names())
    for _ in range(2):
        with pytest.raises(InvalidArgument, match=r"no longer has version 7 of this publisher: .* Nothing was written"):
            older.publish(weights(trainer))
    assert sorted(store.names()) == before
    assert newer.publish(weights(other)) == versions + 1
    assert Follower(store).follow(weights(evaluator), 1.0) == versions + 1
    assert equal(other, evaluator)


def test_a_publisher_that_was_overtaken_while_it_wrote_leaves_no_version(tmp_path: Path) -> None:
    trainer = model()
    newer_store = FolderStore(tmp_path)

    class Slow(FolderStore):
        def write(self, name: str, parts: Any) -> None:
            """While it writes, another publisher goes on."""

            def slow() -> Any:
                for part in parts:
                    if not list(newer_store.names()):
                        newer = Publisher(newer_store, anchor_every=1, keep_anchors=1)
                        newer.publish(weights(trainer))
                        newer.publish(weights(trainer))
                    yield part

            super().write(name, slow())

    older = Publisher(Slow(tmp_path))
    with pytest.raises(InvalidArgument, match="another publisher"):
        older.publish(weights(trainer))
    assert versions_in(tmp_path) == [tmp_path / f"{2:012d}.weights"]
