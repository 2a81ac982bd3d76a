# SPDX-License-Identifier: Apache-2.0
"""Complex tensors travel as pairs of real numbers, through everything that goes over the engine."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import hipress.torch as hp
from hipress.torch.synchronizer import GradientSynchronizer
from tests.torch.ranks import run

pytestmark = pytest.mark.slow

#: By type: the relative precision of its parts.
PRECISION = {torch.complex64: 2.0**-23, torch.complex128: 2.0**-52, torch.complex32: 2.0**-9}
#: int8 divides a block by its greatest value, which is below 5 here, and encodes twice.
INT8 = 0.1
ROWS, COLUMNS = 40, 30


def _values(rank: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rank)
    parts = torch.randn(ROWS, COLUMNS, 2, generator=generator, dtype=torch.float64)
    return torch.view_as_complex(parts).to(dtype)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to(torch.complex128)


def _close(found: torch.Tensor, wanted: torch.Tensor, bound: float) -> None:
    assert found.is_complex()
    assert float((_wide(found) - _wide(wanted)).abs().max()) <= bound


class _Case:
    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self.name = str(dtype)
        self.all = [_values(rank, dtype) for rank in range(2)]
        self.own = self.all[hp.rank()]
        self.mean = (_wide(self.all[0]) + _wide(self.all[1])) / 2
        self.exact = 8 * PRECISION[dtype]


def _each_type(check: Callable[[_Case], None]) -> None:
    hp.init()
    for dtype in PRECISION:
        check(_Case(dtype))


def _collectives(case: _Case) -> None:
    own, name = case.own, case.name
    _close(hp.allreduce(own, name=name), case.mean, case.exact)
    _close(hp.allreduce(own, name=name, op=hp.Sum), 2 * case.mean, 2 * case.exact)
    _close(hp.allreduce(own, name=name, prescale_factor=0.5, postscale_factor=4), 2 * case.mean, 2 * case.exact)
    _close(hp.allreduce_(own.clone(), name=name), case.mean, case.exact)
    _close(hp.allreduce(own, name=f"{name} int8", codec="int8"), case.mean, INT8)
    _close(hp.allreduce(own, name=f"{name} fp16", compression=hp.Compression.fp16), case.mean, 2.0**-8)
    _close(hp.broadcast(own, 1), case.all[1], 0)
    _close(hp.allgather(own), torch.cat(case.all), 0)
    half = ROWS // 2
    part = slice(half * hp.rank(), half * hp.rank() + half)
    _close(hp.alltoall(own), torch.cat([each[part] for each in case.all]), 0)
    _close(hp.reducescatter(own), case.mean[part], case.exact)
    sparse = own.to_sparse()
    found = hp.sparse_allreduce_async(sparse, f"{name} sparse", hp.Average).wait()
    dense = torch.sparse_coo_tensor(found._indices(), _wide(found._values()), found.shape).to_dense()
    _close(dense, case.mean, case.exact)


def _run_collectives() -> None:
    _each_type(_collectives)


def test_collectives_combine_and_move_them() -> None:
    run(_run_collectives, 2)


def _views(case: _Case) -> None:
    """torch conjugates and negates lazily: the memory has other values."""
    own, name = case.own, case.name
    _close(hp.allreduce(own.conj(), name=name), case.mean.conj(), case.exact)
    _close(hp.broadcast(own.conj(), 1), case.all[1].conj(), 0)
    _close(hp.allgather(own.conj()), torch.cat(case.all).conj(), 0)
    _close(
        hp.reducescatter(own.conj(), op=hp.Sum)[:1], 2 * case.mean.conj()[ROWS // 2 * hp.rank()][None], 2 * case.exact
    )
    with pytest.raises(hp.InvalidArgument, match=r"conjugates or negates lazily.*resolve_conj"):
        hp.allreduce_(own.clone().conj(), name=name)
    if case.dtype != torch.complex32:
        negated = own.conj().imag
        assert negated.is_neg()
        torch.testing.assert_close(hp.allgather(negated), torch.cat(case.all).conj().imag.clone())


def _run_views() -> None:
    _each_type(_views)


def test_lazily_conjugated_and_negated_views_are_resolved() -> None:
    run(_run_views, 2)


def _refused(case: _Case) -> None:
    own, name = case.own, case.name
    dtype = name.removeprefix("torch.")
    for op in (hp.Min, hp.Max, hp.Product):
        text = f"op={op!r} of tensor '{name}' with elements of type {dtype}: .* Average and Sum only"
        with pytest.raises(hp.Unsupported, match=text):
            hp.allreduce(own, name=name, op=op)
        with pytest.raises(hp.Unsupported, match=text):
            hp.reducescatter(own, name=name, op=op)
    with pytest.raises(hp.InvalidArgument, match="a scalar has no first dimension"):
        hp.allgather(own[0, 0], name=name)
    with pytest.raises(hp.Mismatch, match="of complex numbers"):
        hp.allreduce(own if hp.rank() == 0 else torch.view_as_real(own), name=f"{name} other")


def _run_refused() -> None:
    _each_type(_refused)


def test_what_has_no_meaning_for_them_is_refused() -> None:
    run(_run_refused, 2)


def _derivatives(case: _Case) -> None:
    """As torch.distributed.nn's: the gradient goes through the same operation; nothing is conjugated."""
    own = case.own.clone().requires_grad_()
    given = [_values(7 + rank, case.dtype) for rank in range(2)]
    hp.allreduce(own, name=f"{case.name} derivative").backward(given[hp.rank()])
    assert own.grad is not None
    _close(own.grad, (_wide(given[0]) + _wide(given[1])) / 2, case.exact)
    own.grad = None
    hp.allgather(own).backward(torch.cat(given))
    _close(own.grad, given[hp.rank()], case.exact)


def _run_derivatives() -> None:
    _each_type(_derivatives)


def test_derivatives_go_through_the_same_operation() -> None:
    run(_run_derivatives, 2)


def _optimizers(case: _Case) -> None:
    for codec, bound in (("none", case.exact), ("int8", INT8)):
        parameter = torch.nn.Parameter(torch.zeros(ROWS, COLUMNS, dtype=case.dtype))
        optimizer = hp.DistributedOptimizer(
            torch.optim.SGD([parameter], lr=1.0), [(f"{case.name} {codec}", parameter)], codec=codec
        )
        # The derivative of conj() is a lazily conjugated view.
        parameter.conj().backward(case.own.clone())
        assert parameter.grad is not None
        _close(parameter.grad, case.mean.conj(), bound)
        optimizer.step()
        _close(parameter, -case.mean.conj(), bound)
        optimizer.zero_grad()
        if hp.rank() == 0:
            parameter.backward(case.own.clone())
        optimizer.synchronize()
        _close(parameter.grad, _wide(case.all[0]) / 2, bound)


def _run_optimizers() -> None:
    _each_type(_optimizers)


def test_gradients_are_averaged() -> None:
    run(_run_optimizers, 2)


def _residuals(case: _Case) -> None:
    """What onebit drops comes back: the sum of many averages of one gradient is their number times the average."""
    from hipress.adapter.synchronizer import SynchronizationOptions

    if case.dtype == torch.complex32:
        return  # its residuals are exact, but the sums in this test are rounded
    tensors = GradientSynchronizer([(case.name, case.own)], SynchronizationOptions(codec="onebit"))
    total = torch.zeros_like(case.mean)
    for _ in range(30):
        values = case.own.clone()
        tensors.wait(tensors.submit(0, values))
        total += _wide(values)
    tensors.set_codec("none")
    values = case.own.clone()
    tensors.wait(tensors.submit(0, values))  # with the residual
    total += _wide(values)
    assert float((total / 31 - case.mean).abs().max()) < 1e-4


def _run_residuals() -> None:
    _each_type(_residuals)


def test_residuals_keep_both_parts() -> None:
    run(_run_residuals, 2)


def _states(case: _Case) -> None:
    if case.dtype == torch.complex32:
        return
    parameter = torch.nn.Parameter(case.own.clone())
    optimizer = torch.optim.SGD([parameter], lr=0.5, momentum=0.9)
    parameter.conj().backward(case.own.clone())
    optimizer.step()
    hp.broadcast_parameters({"p": parameter, "lazy": case.own.clone().conj()}, 0)
    hp.broadcast_optimizer_state(optimizer, 0)
    _close(parameter, _wide(case.all[0]) - 0.5 * _wide(case.all[0]).conj(), case.exact)
    _close(optimizer.state[parameter]["momentum_buffer"], case.all[0].conj(), 0)


def _run_states() -> None:
    _each_type(_states)


def test_the_root_gives_parameters_and_momentum() -> None:
    run(_run_states, 2)


def test_weights_are_published_and_followed(tmp_path: Path) -> None:
    weights = {str(dtype): _values(0, dtype) for dtype in PRECISION}
    weights["lazy"] = weights["torch.complex64"].clone().conj()
    hp.WeightStream(tmp_path).publish(weights)
    found: dict[str, Any] = {name: torch.zeros_like(each.resolve_conj()) for name, each in weights.items()}
    hp.WeightStream(tmp_path).follow(found, timeout=5)
    for name, each in weights.items():
        assert torch.equal(torch.view_as_real(found[name]), torch.view_as_real(each.resolve_conj()))


def test_a_model_writes_the_numbers_that_travel(tmp_path: Path) -> None:
    from hipress.torch.model_gradients import gradients_of

    model = torch.nn.Linear(5, 3, dtype=torch.complex64)
    found = {each.name: (each.elements, each.dtype) for each in gradients_of(model).gradients}
    assert found == {"weight": (30, "float32"), "bias": (6, "float32")}
