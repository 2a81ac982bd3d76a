# SPDX-License-Identifier: Apache-2.0
"""Topology "hierarchical" over process groups: two hosts of two ranks each, emulated by processes."""

from __future__ import annotations

import pickle
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist

import hipress.torch as hp
from hipress.torch import ddp
from hipress.torch.process_groups import GroupAverage, GroupOptions
from hipress.torch.process_groups.dtypes import TensorShape
from tests.torch.ddp import training
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

#: Tensors smaller than a partition, smaller than a partition per rank, and larger; and an empty tensor.
COUNTS = {"one": 1, "none": 0, "seven": 7, "piece": 1024, "few": 3000, "many": 70_001, "large": 400_000}
CODECS = ["none", "fp16", "onebit", "tbq(gradient_factor=0.7)", "terngrad", "dgc(ratio=0.05)", "graddrop"]
TWO_HOSTS = {"topology": "hierarchical", "ranks_per_host": 2}


def _average(codec: str, counts: dict[str, int] = COUNTS, **options: Any) -> GroupAverage:
    shapes = {name: TensorShape(count, torch.float32, 2) for name, count in counts.items()}
    host_group = options.pop("host_group", None)
    return GroupAverage(shapes, None, GroupOptions(codec=codec, min_compress_bytes=0, **options), host_group=host_group)


def _values(rank: int, step: int, counts: dict[str, int] = COUNTS) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(100 * step + rank)
    return {name: torch.randn(count, generator=generator) for name, count in counts.items()}


@training.in_process_group
def _three_steps(rank: int, codec: str, interleaved: bool) -> list[dict[str, Any]]:
    """All averages of three steps. `interleaved`: the ranks of a host do not have consecutive numbers."""
    hosts = [dist.new_group(ranks) for ranks in ([0, 2], [1, 3])] if interleaved else []
    average = _average(codec, **({"topology": "hierarchical", "host_group": hosts[rank % 2]} if hosts else TWO_HOSTS))
    results = []
    for step in range(3):
        tensors = _values(rank, step)
        # Each step averages two batches; the first step divides the tensors in another way, as DistributedDataParallel
        # does.
        cut = 2 if step == 0 else 4
        named = list(tensors.items())
        for started in [average.start(named[:cut], step), average.start(named[cut:], step)]:
            started.wait()
        results.append({name: tensor.numpy() for name, tensor in tensors.items()})
    return results


@pytest.mark.parametrize("codec", CODECS)
def test_all_ranks_get_the_same_average(tmp_path: Path, codec: str) -> None:
    results = run(_three_steps, 4, str(tmp_path), codec, codec == "fp16")
    for step in range(3):
        inputs = [_values(rank, step) for rank in range(4)]
        for name in COUNTS:
            for result in results:
                np.testing.assert_array_equal(result[step][name], results[0][step][name])
            exact = sum(each[name].double() for each in inputs).numpy() / 4
            # The two hosts' sums are rounded to float32. fp16 rounds the sums and the average.
            limit = {"none": 2.0**-22, "fp16": 2.0**-8}.get(codec)
            if limit is not None:
                np.testing.assert_allclose(results[0][step][name], exact, rtol=0, atol=limit)


@training.in_process_group
def _error_feedback(rank: int) -> tuple[Any, Any]:
    """The sum of many averages of one gradient, and the states at the end."""
    average = _average("onebit", {"a": 5000}, **TWO_HOSTS)
    total = torch.zeros(5000)
    for step in range(10):
        tensor = _values(rank, 0, {"a": 5000})["a"]
        average.start([("a", tensor)], step).wait()
        total += tensor
    return total.numpy(), average.state_dict()


def test_what_onebit_drops_is_kept(tmp_path: Path) -> None:
    results = run(_error_feedback, 4, str(tmp_path))
    exact = 10 * sum(_values(rank, 0, {"a": 5000})["a"].double() for rank in range(4)).numpy() / 4
    total = results[0][0].astype(np.float64)
    for _, states in results:
        for key, values in states.items():
            _, role, first, count = key.split("\n")
            share = 1 / 4 if role == "worker" else 1.0  # a worker's residual belongs to the sum over its host
            total[int(first) : int(first) + int(count)] += share * values["residual"]
    np.testing.assert_allclose(total, exact, rtol=1e-4, atol=1e-4)


@training.in_process_group
def _bytes_between_hosts(rank: int, codec: str, topology: dict[str, Any]) -> int:
    average = _average(codec, {"a": 1_000_000, "b": 300_000}, **topology)
    tensors = _values(rank, 0, {"a": 1_000_000, "b": 300_000})
    average.start(list(tensors.items()), 0).wait()
    if topology["topology"] == "hierarchical":
        assert average.sent_bytes == sum(size for peer, size in enumerate(average.sent_to) if peer // 2 != rank // 2)
        return average.sent_bytes
    return sum(size for peer, size in enumerate(average.sent_to) if peer // 2 != rank // 2)


@pytest.mark.parametrize("codec", ["onebit", "terngrad", "fp16"])
def test_half_as_many_bytes_leave_a_host_as_with_ps(tmp_path: Path, codec: str) -> None:
    for each in ("flat", "hosts"):
        (tmp_path / each).mkdir()
    flat = run(_bytes_between_hosts, 4, str(tmp_path / "flat"), codec, {"topology": "ps"})
    hosts = run(_bytes_between_hosts, 4, str(tmp_path / "hosts"), codec, TWO_HOSTS)
    for rank in range(4):
        assert hosts[rank] == pytest.approx(flat[rank] / 2, rel=0.02)


@training.in_process_group
def _states(rank: int, topology: dict[str, Any], saved: list[Any]) -> dict[str, Any]:
    average = _average("onebit", **topology)
    if saved:
        average.load_states_of(saved)
    else:
        for step in range(2):
            average.start(list(_values(rank, step).items()), step).wait()
    return average.state_dict()


def _held_back(saved: list[dict[str, Any]], name: str) -> np.ndarray[Any, Any]:
    """The sum that a tensor's residuals add to its next average."""
    total = np.zeros(COUNTS[name])
    for states in saved:
        for key, values in states.items():
            of, role, first, count = key.split("\n")
            if of == name:
                share = 1 / len(saved) if role == "worker" else 1.0
                total[int(first) : int(first) + int(count)] += share * values["residual"].astype(np.float64)
    return total


@pytest.mark.parametrize(
    ("before", "after", "ranks"),
    [(TWO_HOSTS, {"topology": "ps"}, 2), ({"topology": "ps"}, TWO_HOSTS, 2), (TWO_HOSTS, {"topology": "allgather"}, 3)],
)
def test_no_residual_is_lost_on_the_way_to_another_topology(
    tmp_path: Path, before: dict[str, Any], after: dict[str, Any], ranks: int
) -> None:
    for each in ("before", "after"):
        (tmp_path / each).mkdir()
    old = run(_states, 4, str(tmp_path / "before"), before, [])
    new = run(_states, 4 if after is TWO_HOSTS else ranks, str(tmp_path / "after"), after, old)
    for name in ("few", "many", "large"):
        assert np.abs(_held_back(old, name)).sum() > 0
        np.testing.assert_allclose(_held_back(new, name), _held_back(old, name), rtol=1e-5, atol=1e-6)


@training.in_process_group
def _misused(rank: int) -> None:
    hierarchical = {"topology": "hierarchical"}
    for ranks_per_host in (0, 3, 8, -1):
        with pytest.raises(hp.InvalidArgument, match="4 ranks: give the number of ranks"):
            _average("onebit", **hierarchical, ranks_per_host=ranks_per_host)
    with pytest.raises(hp.Mismatch, match=r"rank 3 .* 'ranks_per_host 1' where rank 0 has 'ranks_per_host 2'"):
        _average("onebit", **hierarchical, ranks_per_host=2 if rank < 3 else 1)
    with pytest.raises(hp.InvalidArgument, match="for topology 'hierarchical' only"):
        _average("onebit", ranks_per_host=2)
    pairs = [dist.new_group(ranks) for ranks in ([0, 1], [1, 2], [2, 3])]
    uneven = [dist.new_group(ranks) for ranks in ([0, 1, 2], [3])]
    for groups, wrong in (
        ([pairs[0], pairs[1], pairs[1], pairs[2]], r"rank 0 has the ranks \[0, 1\].* but rank 1 has \[1, 2\]"),
        ([uneven[0], uneven[0], uneven[0], uneven[1]], r"rank 3 .*not as many"),
    ):
        with pytest.raises(hp.InvalidArgument, match=wrong):
            _average("onebit", **hierarchical, host_group=groups[rank])
    with pytest.raises(hp.InvalidArgument, match="not both"):
        _average("onebit", **TWO_HOSTS, host_group=pairs[min(rank, 2)])


def test_hosts_that_do_not_cover_the_group_are_refused_on_all_ranks(tmp_path: Path) -> None:
    run(_misused, 4, str(tmp_path))


def test_ddp_trains_over_hosts(tmp_path: Path) -> None:
    results = []
    for number, hook in enumerate([None, {"codec": "none", **TWO_HOSTS}, {"codec": "onebit", **TWO_HOSTS}]):
        (tmp_path / str(number)).mkdir()
        results.append(run(training.train, 4, str(tmp_path / str(number)), hook, 20))
    for each in results:
        assert len({parameters for parameters, _ in each}) == 1
    plain, exact, onebit = (each[0] for each in results)
    # torch adds the ranks one after another; HiPress adds the ranks of a host first.
    np.testing.assert_allclose(np.frombuffer(exact[0], np.float32), np.frombuffer(plain[0], np.float32), atol=1e-5)
    assert onebit[1] < plain[1] + 0.5


@training.in_process_group
def _engine_with_hosts(rank: int) -> None:
    hp.init()
    model = torch.nn.parallel.DistributedDataParallel(training.Net())
    with pytest.raises(hp.Unsupported, match="knows the hosts"):
        ddp.compress(model, "onebit", carrier="hipress", **TWO_HOSTS)


def test_the_engine_knows_the_hosts(tmp_path: Path) -> None:
    run(_engine_with_hosts, 2, str(tmp_path))


def _leaves(folder: str, leaver: int) -> tuple[bool, float]:
    """Whether the failed step left the states unchanged, and the seconds until this rank knew that a rank is
    missing."""
    with training.process_group(folder, timeout=4.0) as (rank, _):
        average = _average("onebit", {"a": 100_000}, **TWO_HOSTS)
        average.start(list(_values(rank, 0, {"a": 100_000}).items()), 0).wait()
        dist.barrier()
        if rank == leaver:
            del average
            time.sleep(8.0)
            return True, 0.0
        before = pickle.dumps(average.state_dict())
        start = time.monotonic()
        done = average.start(list(_values(rank, 1, {"a": 100_000}).items()), 1)
        with pytest.raises(hp.TransportError, match="step 1"):
            done.wait()
        took = time.monotonic() - start
        with pytest.raises(hp.TransportError):
            average.start([], 2)
        same = pickle.dumps(average.state_dict()) == before
        del average, done
        return same, took


def test_a_lost_rank_ends_in_an_error_on_all_and_leaves_the_states(tmp_path: Path) -> None:
    for same, took in run(_leaves, 4, str(tmp_path), 3):
        assert same
        assert took < 10.0
