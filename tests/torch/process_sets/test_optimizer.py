# SPDX-License-Identifier: Apache-2.0
"""DistributedOptimizer(process_set=...): the ranks of the set train one model, and the others train alone, as in
Horovod."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn

import hipress.torch as hp
from hipress.errors import InvalidArgument, Mismatch, Unsupported
from tests.torch.ranks import outcomes, run

pytestmark = pytest.mark.slow

MEMBERS = [0, 2]
CODECS = ["none", "onebit", "int8", "powersgd", "dgc(ratio=0.01)"]


class _Training:
    """A model whose gradients depend on `position`, the number of the rank among those that train together."""

    def __init__(self, position: int, **options: Any) -> None:
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(60, 70), nn.ReLU(), nn.Linear(70, 3))
        self.position = position
        plain = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.optimizer = hp.DistributedOptimizer(plain, self.model.named_parameters(), min_compress_bytes=64, **options)

    def step(self, number: int) -> None:
        generator = torch.Generator().manual_seed(100 * number + self.position)
        self.optimizer.zero_grad()
        self.model(torch.randn(5, 60, generator=generator)).square().mean().backward()
        self.optimizer.step()

    def bytes(self) -> bytes:
        return b"".join(each.detach().numpy().tobytes() for each in self.model.parameters())


def _together(codec: str) -> bytes:
    hp.init()
    training = _Training(hp.rank(), codec=codec)
    for number in range(4):
        training.step(number)
    return training.bytes()


def _within(codec: str) -> bytes:
    hp.init(check_replicas=2)
    process_set = hp.add_process_set(MEMBERS)
    position = MEMBERS.index(hp.rank()) if process_set.included() else 9
    training = _Training(position, codec=codec, process_set=process_set)
    for number in range(4):
        training.step(number)
    if not process_set.included():
        assert "residual" not in str(hp.codec_states(training.optimizer).keys())
    return training.bytes()


@pytest.mark.parametrize("codec", CODECS)
def test_a_set_trains_to_the_bits_of_a_job_of_its_ranks(codec: str) -> None:
    alone = run(_together, 2, codec)
    within = run(_within, 3, codec)
    assert [within[rank] for rank in MEMBERS] == alone
    assert within[1] != within[0]


def _two_models() -> tuple[bytes, bytes]:
    """Ranks 0 and 1 train one model, ranks 1 and 2 another one with the same names; all train a third."""
    hp.init()
    sets = [hp.add_process_set([0, 1]), hp.add_process_set([1, 2]), hp.global_process_set]
    trainings = {each.process_set_id: _Training(hp.rank(), codec="onebit", process_set=each) for each in sets}
    for number in range(3):
        for training in trainings.values():
            training.step(number)
    return trainings[1 if hp.rank() < 2 else 2].bytes(), trainings[0].bytes()


def test_models_with_the_same_names_in_overlapping_sets_do_not_mix() -> None:
    first, second, third = run(_two_models, 3)
    assert first[0] == second[0]
    assert first[1] == second[1] == third[1]


def _saved_and_loaded() -> None:
    hp.init()
    process_set = hp.add_process_set(MEMBERS)
    position = MEMBERS.index(hp.rank()) if process_set.included() else 9
    training = _Training(position, codec="onebit", process_set=process_set)
    for number in range(3):
        training.step(number)
    saved = hp.codec_states(training.optimizer)
    exact = hp.codec_states(training.optimizer, exact=True)
    state, model = copy.deepcopy(training.optimizer.state_dict()), training.bytes()
    training.step(3)
    for states in (exact, saved):
        other = _Training(position, codec="onebit", process_set=process_set)
        other.optimizer.load_state_dict(state)
        with torch.no_grad():
            offset = 0
            for each in other.model.parameters():
                part = model[offset : offset + 4 * each.numel()]
                each.copy_(torch.frombuffer(bytearray(part), dtype=torch.float32).reshape(each.shape))
                offset += len(part)
        hp.load_codec_states(other.optimizer, states)
        other.step(3)
        if states is exact:
            assert other.bytes() == training.bytes()


def test_states_of_codecs_are_saved_and_loaded_among_the_ranks_of_the_set() -> None:
    run(_saved_and_loaded, 3)


def _broadcast_state() -> list[float]:
    hp.init()
    process_set = hp.add_process_set(MEMBERS)
    if not process_set.included():
        return []
    model = nn.Linear(2, 2)
    with torch.no_grad():
        model.weight.fill_(float(hp.rank()))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1 + hp.rank(), momentum=0.9)
    hp.broadcast_parameters(model.state_dict(), root_rank=2, process_set=process_set)
    hp.broadcast_optimizer_state(optimizer, root_rank=2, process_set=process_set)
    return [float(model.weight[0, 0]), float(optimizer.param_groups[0]["lr"])]


def test_parameters_and_state_are_broadcast_among_the_ranks_of_the_set() -> None:
    assert run(_broadcast_state, 3) == [[2.0, 2.1], [], [2.0, 2.1]]


def _sparse_and_compressed() -> bool:
    hp.init()
    process_set = hp.add_process_set(MEMBERS)
    table = nn.Embedding(10, 3, sparse=True)
    nn.init.zeros_(table.weight)
    plain = torch.optim.SGD(table.parameters(), lr=1.0)
    optimizer = hp.DistributedOptimizer(plain, table.named_parameters(), process_set=process_set, op=hp.Sum)
    table(torch.tensor([hp.rank()])).sum().backward()
    optimizer.step()
    used = table.weight.detach()[:, 0].nonzero().flatten().tolist()
    assert used == (MEMBERS if process_set.included() else [1])
    dense = nn.Linear(100, 1)
    as_half = hp.DistributedOptimizer(
        torch.optim.SGD(dense.parameters(), 0.1),
        dense.named_parameters(),
        compression=hp.Compression.fp16,
        process_set=process_set,
    )
    dense(torch.ones(1, 100)).sum().backward()
    as_half.step()
    return True


def test_sparse_gradients_and_compressors_stay_in_the_set() -> None:
    assert run(_sparse_and_compressed, 3) == [True] * 3


def _automatic() -> None:
    hp.init()
    process_set = hp.add_process_set(MEMBERS)
    model = nn.Linear(2, 2)
    for options in ({"codec": "auto"}, {"codec": "onebit", "plan": "auto"}):
        with pytest.raises(Unsupported if process_set.included() else InvalidArgument):
            hp.DistributedOptimizer(
                torch.optim.SGD(model.parameters(), 0.1),
                model.named_parameters(),
                process_set=process_set,
                **options,  # type: ignore[arg-type]
            )


def test_automatic_choices_are_among_all_ranks() -> None:
    run(_automatic, 3)


def _ended() -> None:
    hp.init()
    process_set = hp.add_process_set(MEMBERS)
    training = _Training(0, process_set=process_set)
    training.step(0)
    assert hp.remove_process_set(process_set)
    if hp.rank() in MEMBERS:
        with pytest.raises(InvalidArgument, match="remove_process_set\\(\\) has ended the process set"):
            training.step(1)
    else:
        training.step(1)  # this rank trained alone


def test_an_optimizer_of_a_removed_set_says_so() -> None:
    run(_ended, 3)


def _normalised() -> None:
    hp.init()
    process_set = hp.add_process_set(MEMBERS)
    if not process_set.included():
        return
    layer = hp.SyncBatchNorm(3, process_set=process_set)
    for model in (layer, copy.deepcopy(layer)):
        values = torch.randn(4, 3, generator=torch.Generator().manual_seed(process_set.rank()))
        everything = torch.cat([torch.randn(4, 3, generator=torch.Generator().manual_seed(each)) for each in (0, 1)])
        expected = nn.BatchNorm1d(3)(everything)[4 * process_set.rank() :][:4]
        torch.testing.assert_close(model(values), expected)
    loaded = pickle.loads(pickle.dumps(process_set))
    assert (loaded.ranks, loaded.process_set_id) == (MEMBERS, None)
    assert pickle.loads(pickle.dumps(hp.global_process_set)) is hp.global_process_set


def test_a_layer_normalises_the_batches_of_its_set_and_is_copied_with_it() -> None:
    run(_normalised, 3)


def _different_models() -> None:
    hp.init()
    process_set = hp.add_process_set(MEMBERS)
    model = nn.Linear(3 + hp.rank(), 2)
    hp.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters(), process_set=process_set)


def test_ranks_of_a_set_with_different_models_are_named() -> None:
    first, outside, second = outcomes(_different_models, 3)
    assert outside is None
    for each in (first, second):
        assert isinstance(each, Mismatch)
        assert "rank 0 has 'weight among ranks 0 and 2' (allreduce average float32[2, 3]" in str(each)
        assert "rank 2 has 'weight among ranks 0 and 2' (allreduce average float32[2, 5]" in str(each)
