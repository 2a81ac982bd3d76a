# SPDX-License-Identifier: Apache-2.0
"""run_fn(): when the state is restored and synchronised, and when the ranks change, without other ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hipress.torch as hp
from hipress.elastic import HostsUpdatedInterrupt, HostUpdateResult, ObjectState, State, run, run_fn
from hipress.errors import HipressError, InvalidArgument, PeerLost


class Recorded(State):
    """Notes the calls of its methods."""

    def __init__(self) -> None:
        super().__init__(lambda value: value, lambda: 0)
        self.calls: list[str] = []

    def save(self) -> None:
        self.calls.append("save")

    def restore(self) -> None:
        self.calls.append("restore")

    def sync(self) -> None:
        self.calls.append("sync")

    def reset(self) -> None:
        self.calls.append("reset")


def _trained(state: Recorded, *raised: BaseException | None) -> Callable[[Recorded], str]:
    left = list(raised)

    def train(state: Recorded) -> str:
        state.calls.append("train")
        error = left.pop(0)
        if error is not None:
            raise error
        return "ended"

    return run_fn(train, lambda: state.calls.append("changes"))


def test_a_function_that_ends_is_called_once() -> None:
    state = Recorded()
    assert _trained(state, None)(state) == "ended"
    assert state.calls == ["sync", "train"]


def test_after_a_lost_rank_the_state_is_restored_and_synchronised() -> None:
    state = Recorded()
    assert _trained(state, HipressError("Horovod's internal error"), None)(state) == "ended"
    assert state.calls == ["sync", "train", "restore", "changes", "reset", "sync", "train"]


@pytest.mark.parametrize("skip", [False, True])
def test_when_hosts_change_the_state_stays(skip: bool) -> None:
    state = Recorded()
    assert _trained(state, HostsUpdatedInterrupt(skip), None)(state) == "ended"
    assert state.calls == ["sync", "train", "changes", "reset", *([] if skip else ["sync"]), "train"]


def test_a_state_that_cannot_be_copied_when_hosts_change_is_restored() -> None:
    class Failing(Recorded):
        def before_reset(self) -> None:
            self.calls.append("before reset")
            raise HipressError("a rank was lost meanwhile")

    state = Failing()
    assert _trained(state, HostsUpdatedInterrupt(), None)(state) == "ended"
    assert state.calls == ["sync", "train", "before reset", "restore", "changes", "reset", "sync", "train"]


@pytest.mark.parametrize("error", [ValueError("own"), InvalidArgument("refused"), KeyboardInterrupt()])
def test_errors_of_the_program_end_it(error: BaseException) -> None:
    state = Recorded()
    with pytest.raises(type(error)):
        _trained(state, error)(state)
    assert state.calls == ["sync", "train"]


def test_without_an_elastic_job_a_lost_rank_is_an_error() -> None:
    @run
    def train(state: State) -> None:
        raise PeerLost("rank 1 was lost")

    with pytest.raises(PeerLost):
        train(Recorded())


def test_reset_callbacks_run_after_the_ranks_have_changed() -> None:
    state = Recorded()
    state.register_reset_callbacks([lambda: state.calls.append("first"), lambda: state.calls.append("second")])
    _trained(state, HostsUpdatedInterrupt(), None)(state)
    assert state.calls == ["sync", "train", "changes", "reset", "first", "second", "sync", "train"]


def test_a_commit_saves_and_then_hears_of_new_hosts() -> None:
    state = Recorded()
    state.commit()
    state.on_hosts_updated(1.0, HostUpdateResult.added)
    with pytest.raises(HostsUpdatedInterrupt) as caught:
        state.commit()
    assert not caught.value.skip_sync
    state.check_host_updates()  # heard already
    state.on_hosts_updated(2.0, HostUpdateResult.removed)
    with pytest.raises(HostsUpdatedInterrupt) as caught:
        state.check_host_updates()
    assert caught.value.skip_sync
    assert state.calls == ["save", "save"]


def test_plain_values_are_attributes() -> None:
    sent: list[Any] = []
    state = ObjectState(lambda value: sent.append(value) or {"epoch": 5}, lambda: 0, epoch=3)  # type: ignore[func-returns-value]
    state.epoch = 4  # type: ignore[attr-defined]
    state.restore()
    assert state.epoch == 3  # type: ignore[attr-defined]
    state.epoch = 4  # type: ignore[attr-defined]
    state.save()
    state.sync()
    assert sent == [{"epoch": 4}]
    assert state.epoch == 5  # type: ignore[attr-defined]


def test_horovods_names_are_there() -> None:
    from hipress.horovod import torch as hvd

    assert hvd.elastic.TorchState is hp.elastic.TorchState
    assert hvd.elastic.run is run
