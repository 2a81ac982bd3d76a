# SPDX-License-Identifier: Apache-2.0
"""WeightStream carries the tensors of PyTorch models through a stream of versions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
import torch

import hipress.torch as hp
from hipress.errors import InvalidArgument, Unsupported


def model(dtype: Any) -> Any:
    layers = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.BatchNorm1d(30), torch.nn.Linear(30, 4))
    return layers.to(dtype)


def equal(one: Any, other: Any) -> bool:
    theirs = other.state_dict()
    return all(torch.equal(tensor, theirs[name]) for name, tensor in one.state_dict().items())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_a_model_follows_its_trainer(tmp_path: Path, dtype: Any) -> None:
    trainer, follower = model(dtype), model(dtype)
    optimizer = torch.optim.SGD(trainer.parameters(), lr=0.1)
    published, followed = hp.WeightStream(tmp_path), hp.WeightStream(tmp_path)
    for step in range(1, 4):
        optimizer.zero_grad()
        trainer(torch.randn(8, 20, dtype=dtype)).square().mean().backward()
        optimizer.step()
        assert published.publish(trainer.state_dict()) == published.version == step
        assert followed.follow(follower.state_dict(), 1.0) == followed.version == step
        assert equal(trainer, follower)


def test_tied_and_transposed_tensors_are_followed(tmp_path: Path) -> None:
    def tensors(seed: int) -> dict[str, Any]:
        torch.manual_seed(seed)
        tied = torch.randn(4, 6)
        return {
            "encoder": tied,
            "decoder": tied,
            "transposed": torch.randn(6, 4).t(),
            "eight": torch.randn(3).to(torch.float8_e4m3fn),
        }

    trainer, follower = tensors(0), tensors(1)
    published, followed = hp.WeightStream(tmp_path), hp.WeightStream(tmp_path)
    for _ in range(2):
        published.publish(trainer)
        followed.follow(follower, 1.0)
        for name, tensor in trainer.items():
            assert torch.equal(tensor.float(), follower[name].float())
        trainer["encoder"][1, 2] += 1
        trainer["transposed"][1, 2] += 1


def test_a_version_does_not_change_with_the_training_that_goes_on(tmp_path: Path) -> None:
    class Slow(dict[str, bytes]):
        """A store that reads the parts after publish() has returned to the caller."""

        def names(self) -> Iterable[str]:
            return list(self)

        def read(self, name: str) -> bytes:
            return self[name]

        def write(self, name: str, parts: Any) -> None:
            trainer["weight"] += 1
            self[name] = b"".join(bytes(part) for part in parts)

        def delete(self, name: str) -> None:
            self.pop(name, None)

    trainer, follower = {"weight": torch.zeros(100)}, {"weight": torch.ones(100)}
    store = Slow()
    hp.WeightStream(store).publish(trainer)
    hp.WeightStream(store).follow(follower, 1.0)
    assert torch.equal(follower["weight"], torch.zeros(100))


def test_what_is_no_dense_tensor_is_refused_by_name(tmp_path: Path) -> None:
    stream = hp.WeightStream(tmp_path)
    with pytest.raises(Unsupported, match=r"'rows' \(torch.float32\) is sparse"):
        stream.publish({"rows": torch.eye(3).to_sparse()})
    with pytest.raises(InvalidArgument, match="'extra' is a dict"):
        stream.publish({"extra": {}})  # type: ignore[dict-item]
