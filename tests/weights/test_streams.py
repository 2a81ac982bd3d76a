# SPDX-License-Identifier: Apache-2.0
"""A stream of versions: followers get each version, old versions are deleted, and wrong files are errors."""

from __future__ import annotations

import threading
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hipress.errors import CorruptPayload, InvalidArgument, Mismatch, Timeout, Unsupported
from hipress.weights import FolderStore, Follower, Publisher
from hipress.weights.store import publishers
from hipress.weights.version import read, written
from tests.weights.models import NamedBytes, equal, model, trained, versions_in, weights


def test_followers_get_every_version_exactly(tmp_path: Path) -> None:
    trainer, evaluator = model(), model(seed=1)
    publisher, follower = Publisher(FolderStore(tmp_path)), Follower(FolderStore(tmp_path))
    for step in range(1, 6):
        trained(trainer, step)
        assert publisher.publish(weights(trainer)) == publisher.version == step
        assert follower.follow(weights(evaluator), 1.0) == follower.version == step
        assert equal(trainer, evaluator)


def test_a_follower_that_missed_versions_catches_up(tmp_path: Path) -> None:
    trainer, early, late = model(), model(seed=1), model(seed=2)
    publisher = Publisher(FolderStore(tmp_path), anchor_every=4)
    follower = Follower(FolderStore(tmp_path))
    publisher.publish(weights(trainer))
    follower.follow(weights(early), 1.0)
    for step in range(2, 11):
        trained(trainer, step)
        publisher.publish(weights(trainer))
    assert follower.follow(weights(early), 1.0) == 10
    assert Follower(FolderStore(tmp_path)).follow(weights(late), 1.0) == 10
    assert equal(trainer, early)
    assert equal(trainer, late)


def test_a_follower_is_at_the_newest_version_also_if_it_changes_nothing(tmp_path: Path) -> None:
    trainer, evaluator = model(), model(seed=1)
    publisher, follower = Publisher(FolderStore(tmp_path)), Follower(FolderStore(tmp_path))
    for _ in range(3):
        publisher.publish(weights(trainer))
    assert follower.follow(weights(evaluator), 1.0) == follower.version == 3
    assert equal(trainer, evaluator)


def test_a_gap_is_named_and_the_next_anchor_closes_it(tmp_path: Path) -> None:
    trainer, evaluator = model(), model(seed=1)
    publisher, follower = Publisher(FolderStore(tmp_path), anchor_every=5), Follower(FolderStore(tmp_path))
    publisher.publish(weights(trainer))
    follower.follow(weights(evaluator), 1.0)
    before = {name: array.copy() for name, array in evaluator.items()}
    for step in (2, 3, 4):
        trained(trainer, step)
        publisher.publish(weights(trainer))
    (tmp_path / f"{3:012d}.weights").unlink()
    for given in ({}, {"from_anchor": True}):
        with pytest.raises(
            Timeout, match=r"has version 4, but lacks version 3, to which its changes apply, after 0\.05"
        ):
            follower.follow(weights(evaluator), 0.05, **given)
        assert equal(evaluator, before)
        assert follower.version == 1
    for step in (5, 6):
        trained(trainer, step)
        publisher.publish(weights(trainer))
    assert follower.follow(weights(evaluator), 1.0) == 6
    assert equal(trainer, evaluator)


def test_versions_before_the_last_anchors_are_deleted(tmp_path: Path) -> None:
    trainer = model()
    (tmp_path / "notes.txt").write_text("mine")
    publisher = Publisher(FolderStore(tmp_path), anchor_every=3, keep_anchors=2)
    for _ in range(8):
        publisher.publish(weights(trainer))
    assert [path.name for path in versions_in(tmp_path)] == [f"{number:012d}.weights" for number in range(4, 9)]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_publisher_that_begins_again_goes_on_with_the_next_number(tmp_path: Path) -> None:
    trainer, evaluator = model(), model(seed=1)
    follower = Follower(FolderStore(tmp_path))
    for number in (1, 2):
        trained(trainer, number)
        assert Publisher(FolderStore(tmp_path)).publish(weights(trainer)) == number
        assert follower.follow(weights(evaluator), 1.0) == number
        assert equal(trainer, evaluator)


def test_a_follower_waits_for_a_newer_version(tmp_path: Path) -> None:
    trainer, evaluator = model(), model(seed=1)
    publisher, follower = Publisher(FolderStore(tmp_path)), Follower(FolderStore(tmp_path))
    publisher.publish(weights(trainer))
    follower.follow(weights(evaluator), 1.0)
    trained(trainer, 1)
    later = threading.Timer(0.3, publisher.publish, [weights(trainer)])
    later.start()
    assert follower.follow(weights(evaluator), 60.0) == 2
    later.join()
    with pytest.raises(Timeout, match=r"no version after 2 after 0\.1 s"):
        follower.follow(weights(evaluator), 0.1)


def test_a_tensor_that_does_not_change_takes_no_bytes(tmp_path: Path) -> None:
    trainer = {"large": np.zeros(1_000_000, np.float32)}
    publisher = Publisher(FolderStore(tmp_path))
    for _ in range(2):
        publisher.publish(weights(trainer))
    sizes = [path.stat().st_size for path in versions_in(tmp_path)]
    assert sizes[0] > 4_000_000
    assert sizes[1] < 400


@pytest.mark.parametrize("cut", [0, 5, 20, 100, -1])
def test_a_file_that_is_cut_off_is_refused_and_changes_nothing(tmp_path: Path, cut: int) -> None:
    trainer, evaluator = model(), model(seed=1)
    Publisher(FolderStore(tmp_path)).publish(weights(trainer))
    (file,) = versions_in(tmp_path)
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(CorruptPayload, match=file.name):
        Follower(FolderStore(tmp_path)).follow(weights(evaluator), 1.0)
    assert equal(evaluator, model(seed=1))


def test_any_altered_byte_is_found(tmp_path: Path) -> None:
    trainer, evaluator = model(), model(seed=1)
    publisher, follower = Publisher(FolderStore(tmp_path)), Follower(FolderStore(tmp_path))
    publisher.publish(weights(trainer))
    follower.follow(weights(evaluator), 1.0)
    trained(trainer, 1)
    publisher.publish(weights(trainer))
    before = {name: array.copy() for name, array in evaluator.items()}
    file = tmp_path / f"{2:012d}.weights"
    right = file.read_bytes()
    for place in range(len(right)):
        altered = bytearray(right)
        altered[place] ^= 0x10
        file.write_bytes(altered)
        with pytest.raises((CorruptPayload, Unsupported), match=file.name):
            follower.follow(weights(evaluator), 1.0)
        assert equal(evaluator, before)
    file.write_bytes(right)
    assert follower.follow(weights(evaluator), 1.0) == 2


def test_a_version_of_another_stream_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    """The file is whole, of the same model and number, but its changes apply to other values."""
    for folder, seed in (("mine", 0), ("other", 3)):
        trainer = model(seed=seed)
        publisher = Publisher(FolderStore(tmp_path / folder))
        for step in (1, 2):
            publisher.publish(weights(trainer))
            trained(trainer, step + seed)
        if folder == "mine":
            evaluator, follower = model(seed=1), Follower(FolderStore(tmp_path / folder))
            # The trainer goes on, so this follower has only the first version.
            (tmp_path / folder / f"{2:012d}.weights").rename(tmp_path / "second")
            assert follower.follow(weights(evaluator), 1.0) == 1
    before = {name: array.copy() for name, array in evaluator.items()}
    place = tmp_path / "mine" / f"{2:012d}.weights"
    (tmp_path / "other" / f"{2:012d}.weights").rename(place)
    with pytest.raises(CorruptPayload, match=r"version 2 in .* gives 'embedding' other bytes than the publisher's"):
        follower.follow(weights(evaluator), 1.0)
    assert equal(evaluator, before)
    (tmp_path / "second").rename(place)
    assert follower.follow(weights(evaluator), 1.0) == 2


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda tensors: tensors.pop("bias"), "has a weight 'bias', the model has none"),
        (lambda tensors: tensors.update(more=np.zeros(1)), "the model has a weight 'more', version 1 .* has none"),
        (
            lambda tensors: tensors.update(bias=np.zeros(8, np.float16)),
            r"'bias' is float16\[8\] in the model, and float16\[7\] in version 1",
        ),
        (lambda tensors: tensors.update(bias=np.zeros(7, np.float32)), r"'bias' is float32\[7\]"),
    ],
)
def test_another_model_is_refused_with_the_first_difference(tmp_path: Path, change: Any, what: str) -> None:
    Publisher(FolderStore(tmp_path)).publish(weights(model()))
    other = model(seed=1)
    change(other)
    before = {name: array.copy() for name, array in other.items()}
    with pytest.raises(Mismatch, match=what):
        Follower(FolderStore(tmp_path)).follow(weights(other), 1.0)
    assert equal(other, before)


def test_a_publisher_refuses_another_model(tmp_path: Path) -> None:
    publisher = Publisher(FolderStore(tmp_path))
    publisher.publish(weights(model()))
    with pytest.raises(Mismatch, match="the version before has a weight 'steps'"):
        publisher.publish(weights(model())[:-1])


def test_weights_that_something_else_changed_are_refused_unless_all_are_read_anew(tmp_path: Path) -> None:
    trainer, evaluator = model(), model(seed=1)
    publisher, follower = Publisher(FolderStore(tmp_path)), Follower(FolderStore(tmp_path))
    publisher.publish(weights(trainer))
    follower.follow(weights(evaluator), 1.0)
    trained(trainer, 1)
    publisher.publish(weights(trainer))
    evaluator["bias"][3] += 1
    with pytest.raises(InvalidArgument, match=r"'bias' was changed since version 1 .* from_anchor=True"):
        follower.follow(weights(evaluator), 1.0)
    assert follower.follow(weights(evaluator), 1.0, from_anchor=True) == 2
    assert equal(trainer, evaluator)


def test_a_killed_publishers_unfinished_file_goes_with_the_next_version(tmp_path: Path) -> None:
    trainer = model()
    publisher = Publisher(FolderStore(tmp_path))
    publisher.publish(weights(trainer))
    for name in (f".{2:012d}.weights-abcd_1x9", f".{1:012d}.weights-efghijkl"):
        (tmp_path / name).write_bytes(b"half")
    others = {".hidden", f".{3:012d}.weights-mnopqrst"}  # the last is of a version that may still be written
    for name in others:
        (tmp_path / name).write_bytes(b"mine")
    assert Publisher(FolderStore(tmp_path)).publish(weights(trainer)) == 2
    names = {path.name for path in tmp_path.iterdir() if path.suffix != ".publisher"}
    assert names == {f"{1:012d}.weights", f"{2:012d}.weights", *others}


class CountingStore(NamedBytes):
    """Counts the bytes that were read."""

    read_bytes = 0

    def read(self, name: str) -> bytes:
        """See Store."""
        data = super().read(name)
        self.read_bytes += len(data)
        return data


def test_a_version_with_nearly_all_values_is_an_anchor_so_a_late_follower_reads_one(tmp_path: Path) -> None:
    store = CountingStore()
    trainer = {"weight": np.zeros(100_000, np.float32), "frozen": np.zeros(100, np.float32)}
    evaluator = {name: array.copy() for name, array in trainer.items()}
    publisher, follower = Publisher(store), Follower(store)
    publisher.publish(weights(trainer))
    follower.follow(weights(evaluator), 1.0)
    for step in range(40):
        trainer["weight"][:] = np.random.default_rng(step).standard_normal(100_000)
        publisher.publish(weights(trainer))
    store.read_bytes = 0
    assert follower.follow(weights(evaluator), 1.0) == 41
    assert equal(trainer, evaluator)
    assert store.read_bytes < 1.1 * 400_400
    assert len(store.kept) - len(publishers(store.names())) == 2, "each version is an anchor, and two are kept"


def test_a_follower_far_behind_does_not_hold_all_versions(tmp_path: Path) -> None:
    """Each version changes most of the elements, but is not larger than the values, so no version but the first is an
    anchor."""
    store = NamedBytes()
    trainer = {"weight": np.zeros(200_000, np.int64), "other": np.zeros(200_000, np.int64)}
    evaluator = {name: array.copy() for name, array in trainer.items()}
    publisher, follower = Publisher(store, anchor_every=100), Follower(store)
    publisher.publish(weights(trainer))
    follower.follow(weights(evaluator), 1.0)
    for step in range(20):
        trainer["weight"][step % 2 :: 2] += 1
        trainer["other"][step] = step
        publisher.publish(weights(trainer))
    assert sum(map(len, store.kept.values())) > 5 * 3_200_000
    tracemalloc.start()
    try:
        follower.follow(weights(evaluator), 1.0)
        assert tracemalloc.get_traced_memory()[1] < 2.8 * 3_200_000
    finally:
        tracemalloc.stop()
    assert equal(trainer, evaluator)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        # One byte would be written to all elements.
        (lambda bias: {"element_bytes": 1, "shape": (7,)}, "'bias' has elements of 1 bytes"),
        (lambda bias: {"name": "embedding", "dtype": "float32", "shape": (50, 8)}, "bias"),
        (lambda bias: {"after": bias.after ^ 1}, "gives 'bias' other bytes"),
    ],
)
def test_a_wrong_publisher_changes_nothing(tmp_path: Path, change: Any, what: str) -> None:
    store = NamedBytes()
    trainer, evaluator = model(), model(seed=1)
    publisher, follower = Publisher(store), Follower(store)
    for _ in range(2):
        publisher.publish(weights(trainer))
        follower.follow(weights(evaluator), 1.0)
        trained(trainer, 1)
    publisher.publish(weights(trainer))
    name = f"{3:012d}.weights"

    def altered(entries: Any) -> Any:
        embedding, bias, *rest = entries
        if "element_bytes" in (changed := change(bias)):
            bias = bias.model_copy(update={"encoding": "same", "bytes": 0, "crc": 0})
        return (embedding, bias.model_copy(update=changed), *rest)

    before = {key: array.copy() for key, array in evaluator.items()}
    right, store.kept[name] = store.kept[name], rewritten(store.kept[name], altered)
    with pytest.raises((CorruptPayload, Mismatch), match=what):
        follower.follow(weights(evaluator), 1.0)
    assert equal(evaluator, before)
    store.kept[name] = right
    assert follower.follow(weights(evaluator), 1.0) == 3


def rewritten(data: bytes, altered: Any) -> bytes:
    """The version with altered entries, and the parts that they still have."""
    version = read(data, "here")
    entries = tuple(altered(version.header.tensors))
    parts = [part if new.bytes else b"" for (_, part), new in zip(version.parts(), entries, strict=True)]
    return b"".join(written(version.header.model_copy(update={"tensors": entries}), parts))


class FullStore(FolderStore):
    """A store that has no room while `full` is set."""

    full = False

    def write(self, name: str, parts: Any) -> None:
        """Fails in the middle of the parts while `full` is set."""

        def until_full() -> Any:
            for index, part in enumerate(parts):
                if self.full and index == 2:
                    raise OSError(28, "No space left on device")
                yield part

        super().write(name, until_full())


def test_a_version_that_could_not_be_written_leaves_nothing_and_loses_nothing(tmp_path: Path) -> None:
    store = FullStore(tmp_path)
    trainer, evaluator = model(), model(seed=1)
    publisher, follower = Publisher(store), Follower(store)
    publisher.publish(weights(trainer))
    follower.follow(weights(evaluator), 1.0)
    trained(trainer, 1)
    store.full = True
    with pytest.raises(OSError, match="No space"):
        publisher.publish(weights(trainer))
    assert len(list(tmp_path.iterdir())) == 2  # the version before, and the publisher
    store.full = False
    assert publisher.publish(weights(trainer)) == 2
    follower.follow(weights(evaluator), 1.0)
    assert equal(trainer, evaluator)


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="anchor_every=0"):
        Publisher(FolderStore(tmp_path), anchor_every=0)
    publisher = Publisher(FolderStore(tmp_path))
    with pytest.raises(InvalidArgument, match="there are no weights"):
        publisher.publish([])
    with pytest.raises(InvalidArgument, match="two weights are called 'bias'"):
        publisher.publish([*weights(model()), weights(model())[1]])
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidArgument, match="cannot be made: "):
        FolderStore(tmp_path / "file" / "folder")
