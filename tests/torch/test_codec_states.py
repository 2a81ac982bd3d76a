# SPDX-License-Identifier: Apache-2.0
"""Residuals are saved and loaded to the bit on as many ranks, and without loss on another number of ranks."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import hipress.torch as hp
from tests.adapter.hosts import start
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

#: Every built-in codec with states.
STATEFUL = ["onebit", "tbq", "dgc(ratio=0.01)", "graddrop(ratio=0.01)", "int8(error_feedback=true)", "int4"]
ELEMENTS = 5 * 1024 + 7


class Training:
    """Parameters with an optimizer; their gradients depend on rank and step only."""

    def __init__(self, codecs: list[str], topology: str = "ps") -> None:
        self.weights = {f"w{number}": nn.Parameter(torch.zeros(ELEMENTS)) for number in range(len(codecs))}
        codec_for = {f"w{number}": codec for number, codec in enumerate(codecs)}
        self.weights["small"] = nn.Parameter(torch.zeros(7))
        way: Any = {"codec_for": codec_for, "topology": topology, "partitions": 3, "min_compress_bytes": 1024}
        plain = torch.optim.SGD(self.weights.values(), lr=0.1)
        self.optimizer = hp.DistributedOptimizer(plain, self.weights.items(), **way)

    def gradient(self, name: str, rank: int, step: int) -> torch.Tensor:
        generator = torch.Generator().manual_seed(1000 * step + 100 * rank + ord(name[-1]))
        return torch.randn(self.weights[name].shape, generator=generator)

    def steps(self, numbers: range) -> None:
        for step in numbers:
            self.optimizer.zero_grad()
            losses = [(each * self.gradient(name, hp.rank(), step)).sum() for name, each in self.weights.items()]
            torch.stack(losses).sum().backward()
            self.optimizer.step()

    def bytes(self) -> bytes:
        return b"".join(each.detach().numpy().tobytes() for each in self.weights.values())

    def saved(self) -> bytes:
        file = io.BytesIO()
        codecs = hp.codec_states(self.optimizer, exact=True)
        torch.save({"weights": self.weights, "optimizer": self.optimizer.state_dict(), "codecs": codecs}, file)
        return file.getvalue()

    def load(self, saved: bytes) -> None:
        state = torch.load(io.BytesIO(saved), weights_only=True)
        with torch.no_grad():
            for name, each in self.weights.items():
                each.copy_(state["weights"][name])
        self.optimizer.load_state_dict(state["optimizer"])
        hp.load_codec_states(self.optimizer, state["codecs"])


def _straight(topology: str, hosts: list[int]) -> tuple[bytes, bytes]:
    """The state that is saved after 50 steps, and the parameters after 100."""
    start(hosts)
    training = Training(STATEFUL, topology)
    training.steps(range(50))
    saved = training.saved()
    training.steps(range(50, 100))
    return saved, training.bytes()


def _resumed(topology: str, hosts: list[int], by_rank: list[tuple[bytes, bytes]]) -> tuple[bytes, set[str]]:
    """Loads the state and trains for 50 steps. Returns the parameters and the names of the loaded residuals."""
    start(hosts)
    hp.allreduce(torch.zeros(3))  # shifts the core's numbers of the gradients
    training = Training(STATEFUL, topology)
    training.load(by_rank[hp.rank()][0])
    states = hp.codec_states(training.optimizer, exact=True)
    training.steps(range(50, 100))
    return training.bytes(), {key for key, each in states.items() if "/residual" in key and each.any()}


@pytest.mark.parametrize(("topology", "hosts"), [("ps", []), ("ring", []), ("hierarchical", [0, 0, 1])])
def test_fifty_steps_saved_and_fifty_more_equal_a_hundred_to_the_bit(topology: str, hosts: list[int]) -> None:
    straight = run(_straight, 3, topology, hosts)
    resumed = run(_resumed, 3, topology, hosts, straight)
    assert [parameters for parameters, _ in resumed] == [parameters for _, parameters in straight]
    wanted = {f"w{number}/residual" for number in range(len(STATEFUL))}
    assert set.union(*(held_back for _, held_back in resumed)) == wanted


def _on_another_number_of_ranks(saved: dict[str, torch.Tensor] | None, folder: str) -> Any:
    """With `saved` None: trains three steps with onebit and returns the states. Otherwise loads them, makes a step
    without a codec, and returns the values that arrived beside the gradients."""
    hp.init()
    training = Training(["none" if saved is not None else "onebit"])
    if saved is None:
        training.steps(range(3))
        saved = hp.codec_states(training.optimizer)
        if hp.rank() == 0:
            torch.save(saved, f"{folder}/codecs.pt")
        return saved, {}
    hp.load_codec_states(training.optimizer, torch.load(f"{folder}/codecs.pt", weights_only=True))
    training.steps(range(3, 4))
    arrived = {name: each.grad for name, each in training.weights.items()}
    exact = {name: sum(training.gradient(name, rank, 3) for rank in range(hp.size())) for name in arrived}
    return {name: (arrived[name] - exact[name] / hp.size(), saved.get(f"{name}/residual")) for name in arrived}, {}


def test_what_rank_zero_saved_reaches_the_average_of_another_number_of_ranks(tmp_path: Path) -> None:
    saved = run(_on_another_number_of_ranks, 3, None, str(tmp_path))[0][0]
    assert saved["w0/residual"].abs().max() > 0.1
    for more, _ in run(_on_another_number_of_ranks, 2, saved, str(tmp_path)):
        for difference, residual in more.values():
            wanted = torch.zeros_like(difference) if residual is None else residual
            torch.testing.assert_close(difference, wanted, rtol=1e-5, atol=1e-6)


def _formats(folder: str) -> None:
    """States come back unchanged from DCP and from safetensors' arrays."""
    import torch.distributed.checkpoint as dcp

    hp.init()
    training = Training(["onebit"])
    training.steps(range(2))
    states = hp.codec_states(training.optimizer, exact=True)
    dcp.save({"codecs": states}, checkpoint_id=f"{folder}/{hp.rank()}", no_dist=True)
    np.savez(f"{folder}/{hp.rank()}.npz", **{key: each.numpy() for key, each in states.items()})  # type: ignore[arg-type]
    assert all(each.dtype in (torch.float32, torch.float64, torch.int64, torch.uint8) for each in states.values())
    assert all(each.is_contiguous() for each in states.values())
    training.steps(range(2, 4))
    loaded = {key: torch.zeros_like(each) for key, each in states.items()}
    dcp.load({"codecs": loaded}, checkpoint_id=f"{folder}/{hp.rank()}", no_dist=True)
    for source in (loaded, np.load(f"{folder}/{hp.rank()}.npz")):
        hp.load_codec_states(training.optimizer, source)
        again = hp.codec_states(training.optimizer, exact=True)
        assert all(torch.equal(again[key], states[key]) for key in states)


def test_states_go_through_distributed_checkpoint_and_through_arrays(tmp_path: Path) -> None:
    run(_formats, 2, str(tmp_path))


def _refused() -> None:
    hp.init()
    training = Training(["onebit"])
    with pytest.raises(hp.InvalidArgument, match="takes an optimizer of"):
        hp.codec_states(torch.optim.SGD([torch.zeros(1)], lr=0.1))
    states = hp.codec_states(training.optimizer)
    with pytest.raises(hp.InvalidArgument, match="'w0:shape' of the codecs' states is no array"):
        hp.load_codec_states(training.optimizer, {**states, "w0:shape": torch.zeros(3, dtype=torch.bfloat16)})
    seen = []

    def within_backward(_: Any) -> None:
        with pytest.raises(hp.InvalidArgument, match="while gradients are in flight") as raised:
            hp.codec_states(training.optimizer)
        seen.append(raised)

    hook = training.weights["w0"].register_post_accumulate_grad_hook(within_backward)
    training.steps(range(1))
    hook.remove()
    assert seen


def test_wrong_calls_are_refused() -> None:
    run(_refused, 2)
