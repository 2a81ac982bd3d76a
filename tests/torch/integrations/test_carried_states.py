# SPDX-License-Identifier: Apache-2.0
"""A replica's residuals go on in each next group of replicas: nothing is lost, or sent twice."""

from __future__ import annotations

import datetime
import io
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from numpy.typing import NDArray

import hipress.torch as hp
from hipress.torch.integrations.carried_states import CarriedStates, options_for
from hipress.torch.process_groups import BackendOptions, CompressingGroup, gradients
from hipress.torch.process_groups.dtypes import TensorShape
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

PARTS = {"many": (300, 200), "few": (7, 143)}
COUNT = sum(rows * columns for rows, columns in PARTS.values())
_SHAPES = {name: TensorShape(rows * columns, torch.float32, 2) for name, (rows, columns) in PARTS.items()}
_STARTS = {"many": 0, "few": 60_000}


class _Replica:
    """One replica, in groups that change."""

    def __init__(self, folder: str, codec: str, topology: str, **options: Any) -> None:
        self.number, world = int(os.environ["HIPRESS_RANK"]), int(os.environ["HIPRESS_SIZE"])
        self._store = dist.FileStore(f"{folder}/store", world)
        self._options = BackendOptions(codec, topology=topology, min_compress_bytes=0, **options).group_options
        self.carried, self.group = CarriedStates(), None
        #: What this replica gave to applied averages, and what the model got.
        self.given, self.got = np.zeros(COUNT), np.zeros(COUNT)

    def join(self, name: str, replicas: Sequence[int], step: int) -> None:
        """As torchft's configure() does it."""
        if self.group is not None:
            self.group.abort()
            self.carried.leave(self.group, step)
        limit, place = datetime.timedelta(seconds=60), list(replicas).index(self.number)
        store = dist.PrefixStore(name, self._store)
        options = options_for(self._options, len(replicas))
        self.group = CompressingGroup(store, place, len(replicas), limit, options)
        self.group.after_declaring = self.carried.adopt

    def average(self, step: int, participants: int, *, zeros: bool = False, applied: bool = True) -> bytes:
        """As torchft's allreduce() does it."""
        assert self.group is not None
        generator = torch.Generator().manual_seed(100 * step + self.number)
        own = torch.zeros(COUNT) if zeros else torch.randn(COUNT, generator=generator)
        tensor = own.clone()
        self.carried.before(self.group, step, participants, f"replica {self.number}")
        self.group.declare(_SHAPES)
        with gradients(PARTS):
            self.group.allreduce([tensor]).wait()
        if applied:
            self.given += own.double().numpy() / participants
            self.got += tensor.double().numpy() / participants
        return tensor.numpy().tobytes()

    def residual(self) -> NDArray[np.float64]:
        assert self.group is not None
        return _residual(self.group.kept())


def _residual(states: Mapping[str, Any]) -> NDArray[np.float64]:
    """All that is missing in a sum because of these states."""
    result = np.zeros(COUNT)
    for key, each in states.items():
        name, _, first, count = key.split("\n")
        if "residual" in each:
            start = _STARTS[name] + int(first)
            result[start : start + int(count)] += np.asarray(each["residual"], np.float64)
    return result


def _changes(folder: str, codec: str, topology: str) -> dict[str, Any]:
    """Three replicas, of which one ends; then a new one comes, which has to be healed in its first step."""
    one = _Replica(folder, codec, topology)
    sums, lost = [], np.zeros(COUNT)
    one.join("all", [0, 1, 2], 0)
    sums += [one.average(step, 3) for step in range(4)]
    if one.number == 1:
        lost = one.residual() / 3
        one.carried = CarriedStates()
        assert one.group is not None
        one.group.close()
        one.group = None
    else:
        one.join("fewer", [2, 0], 4)
        sums += [one.average(step, 2) for step in range(4, 7)]
    one.join("again", [1, 2, 0], 7)
    sums.append(one.average(7, 2, zeros=one.number == 1))
    sums += [one.average(step, 3) for step in range(8, 10)]
    return {"sums": sums, "given": one.given, "got": one.got, "held": one.residual() / 3, "lost": lost}


@pytest.mark.parametrize(
    ("codec", "topology"),
    [
        ("onebit", "auto"),
        ("topk(ratio=0.05)", "ring"),
        ("int8_shared(levels=20)", "ps"),
        ("dgc(ratio=0.05,momentum=0)", "ps"),
    ],
)
def test_replicas_that_stay_owe_what_they_residual_of(tmp_path: Path, codec: str, topology: str) -> None:
    results = run(_changes, 3, str(tmp_path), codec, topology)
    assert results[0]["sums"] == results[2]["sums"]
    assert results[0]["sums"][-3:] == results[1]["sums"][-3:]
    given, held, lost = (np.sum([each[name] for each in results], axis=0) for name in ("given", "held", "lost"))
    owed = given - results[0]["got"]
    assert np.abs(lost).max() > 0.01  # nobody has the residuals of the lost replica
    np.testing.assert_allclose(owed, held + lost, atol=1e-4)


def _alone(folder: str) -> dict[str, Any]:
    """Of two replicas one ends; later a new one comes."""
    one = _Replica(folder, "onebit", "auto")
    one.join("both", [0, 1], 0)
    for step in range(3):
        one.average(step, 2)
    lost = one.residual() / 2
    assert abs(lost).max() > 0.1
    if one.number == 0:
        lost[:] = 0
        one.join("alone", [0], 3)
        one.average(3, 1, applied=False)
        assert abs(_residual(one.carried.state_dict(one.group, 3, "")["states"])).max() > 0.1  # nothing was paid
        one.average(3, 1)
        one.average(4, 1)
        assert abs(one.residual()).max() == 0, "after"
    else:
        one.group, one.carried = None, CarriedStates()
    one.join("again", [1, 0], 5)
    one.average(5, 1, zeros=one.number == 1)
    one.average(6, 2)
    return {"given": one.given, "got": one.got, "held": one.residual() / 2, "lost": lost}


def test_a_replica_alone_compresses_nothing_and_pays_what_it_owes(tmp_path: Path) -> None:
    results = run(_alone, 2, str(tmp_path))
    given, held, lost = (np.sum([each[name] for each in results], axis=0) for name in ("given", "held", "lost"))
    np.testing.assert_allclose(given - results[0]["got"], held + lost, atol=1e-4)


def _warm_up(folder: str) -> list[int]:
    """Returns the bytes that the codec sent in each step."""
    one, sent = _Replica(folder, "onebit", "auto", warmup=4), []
    if one.number < 2:
        one.join("two", [0, 1], 0)
        one.average(0, 2)
    one.join("three", [0, 1, 2], 1)
    for step in range(1, 6):
        assert one.group is not None
        before = one.group.sent_bytes
        one.average(step, 3)
        sent.append(one.group.sent_bytes - before)
    return sent


def test_a_new_replica_is_in_the_same_step_of_a_warm_up(tmp_path: Path) -> None:
    for sent in run(_warm_up, 3, str(tmp_path)):
        assert sent[:3] == [0, 0, 0]
        assert min(sent[3:]) > 0


def _not_applied(folder: str) -> None:
    one = _Replica(folder, "onebit", "auto")
    one.join("first", [0, 1], 0)
    one.average(0, 2)
    before = one.residual()  # settles step 0
    one.average(1, 2, applied=False)
    saved = one.carried.state_dict(one.group, 1, "replica 0")
    np.testing.assert_array_equal(_residual(saved["states"]), before)
    one.average(1, 2, applied=False)
    one.join("second", [1, 0], 1)
    one.average(1, 2)
    assert one.carried.dropped == 0
    one.join("third", [0, 1], 2)
    waiting = _residual(one.carried.state_dict(None, 2, "")["states"])
    assert not np.allclose(waiting, before)  # step 1 has been applied
    one.join("fourth", [1, 0], 2)  # nothing was averaged in the third one
    one.average(2, 2)
    assert one.carried.dropped == 0
    assert abs(one.given).max() > 0


def test_a_step_that_was_not_applied_changes_nothing(tmp_path: Path) -> None:
    run(_not_applied, 2, str(tmp_path))


def _healed(folder: str) -> tuple[int, list[str]]:
    one = _Replica(folder, "onebit", "auto")
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    one.join("first", [0, 1], 0)
    one.average(0, 2)
    logging.getLogger("hipress").addHandler(handler)
    # Replica 1 could not apply step 1, and replica 0 did.
    one.average(1, 2)
    one.join("second", [0, 1], 2 - one.number)
    one.average(2, 1, zeros=one.number == 1)
    logging.getLogger("hipress").removeHandler(handler)
    return one.carried.dropped, [line for line in said if "dropped" in line]


def test_a_replica_that_was_healed_does_not_send_again_what_others_may_have(tmp_path: Path) -> None:
    (none, silent), (dropped, said) = run(_healed, 2, str(tmp_path))
    assert (none, silent) == (0, [])
    assert dropped == COUNT
    assert len(said) == 1
    assert f"dropped residuals of {COUNT} values" in said[0]
    assert "was in step 1 and has the model of step 2" in said[0]


def _checkpoint(folder: str) -> None:
    one = _Replica(folder, "onebit", "auto")
    one.join("first", [0, 1], 0)
    for step in range(3):
        one.average(step, 2)
    file = io.BytesIO()
    torch.save(one.carried.state_dict(one.group, 3, f"replica {one.number}"), file)
    saved = torch.load(io.BytesIO(file.getvalue()))
    kept = one.residual()
    one.average(3, 2)
    assert not np.array_equal(one.residual(), kept)
    one.carried.load_state_dict(one.group, saved, "another replica")  # takes nothing
    assert not np.array_equal(one.residual(), kept)
    one.carried.load_state_dict(one.group, saved, f"replica {one.number}")
    one.carried.before(one.group, 3, 2, f"replica {one.number}")
    np.testing.assert_array_equal(one.residual(), kept)
    # A process that begins from the checkpoint learns its name later.
    for owner, dropped in ((f"replica {one.number}", 0), ("another replica", COUNT)):
        one.group = None
        one.carried = CarriedStates()
        one.carried.load_state_dict(None, saved, "")
        one.join(owner.replace(str(one.number), ""), [0, 1], 3)
        one.carried.before(one.group, 3, 2, owner)
        assert one.carried.dropped == dropped
        one.average(3, 2)
    with pytest.raises(hp.InvalidArgument, match="which no CompressedGroup saved"):
        one.carried.load_state_dict(None, {"steps": 3}, "")
    saved["participants"] = 7
    with pytest.raises(hp.InvalidArgument, match="not as a rank saved it"):
        one.carried.load_state_dict(None, saved, "")


def test_a_checkpoint_is_of_one_replica(tmp_path: Path) -> None:
    run(_checkpoint, 2, str(tmp_path))
