# SPDX-License-Identifier: Apache-2.0
"""SparseLoCo's messages: their bytes and values, the values that are left out, and damaged messages."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest
import torch

from hipress.errors import CorruptPayload
from hipress.torch.tiles.ascending import AscendingCode
from hipress.torch.tiles.layout import Tiles
from hipress.torch.tiles.message import SparseMessage
from hipress.torch.tiles.packing import pack_2bit, unpack_2bit
from tests.torch.tiles import plain

SHAPES = [
    (),
    (1,),
    (5,),
    (64,),
    (65,),
    (300,),
    (1, 1),
    (64, 64),
    (128, 192),
    (67, 131),
    (97, 3),
    (8, 3, 5, 5),
    (2, 4096),
]


def _values(shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32))


@pytest.mark.parametrize("shape", SHAPES)
def test_tiles_hold_every_element_once(shape: tuple[int, ...]) -> None:
    tiles, values = Tiles(torch.Size(shape)), _values(shape) + 10
    cut = tiles.cut(values)
    assert cut.shape == (tiles.count, tiles.size)
    assert tiles.height <= 64
    assert tiles.width <= 64
    assert torch.equal(tiles.joined(cut), values)
    assert int(cut.count_nonzero()) == values.numel()
    assert sorted(int(n) for each in plain.tiles(shape) for n in each) == list(range(values.numel()))


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 5, 63, 64, 65])
def test_packed_numbers_come_back(count: int) -> None:
    generator = np.random.default_rng(count)
    codes = generator.integers(0, 4, count, dtype=np.uint8)
    assert np.array_equal(unpack_2bit(pack_2bit(codes), count), codes)


def test_the_published_bytes() -> None:
    assert pack_2bit(np.array([1, 2, 3, 0, 3], np.uint8)).tolist() == [0b00111001, 3]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("k", [1, 7, 64, 4096])
def test_the_average_and_the_rest_are_those_of_the_definition(shape: tuple[int, ...], k: int) -> None:
    message = SparseMessage({"w": torch.Size(shape)}, k)
    wanted = [_values(shape, rank) * 10.0 ** (3 - 2 * rank) for rank in range(3)]
    encoded = [message.encoded({"w": each}) for each in wanted]
    assert all(payload.numel() == message.bytes for payload, _ in encoded)
    total = np.zeros(shape, np.float32)
    for (_, left), each in zip(encoded, wanted, strict=True):
        sent = plain.sent(each.numpy(), k)
        np.testing.assert_allclose(left["w"].numpy(), each.numpy() - sent, rtol=0, atol=1e-6 * float(each.abs().max()))
        total += sent
    average = message.averages([payload for payload, _ in encoded])["w"]
    assert average.shape == torch.Size(shape)
    np.testing.assert_allclose(average.numpy(), total / np.float32(3), rtol=1e-6, atol=1e-7)


def test_a_matrix_takes_10_bits_for_each_64th_value() -> None:
    elements = 1024 * 4096
    message = SparseMessage({"w": torch.Size((1024, 4096))}, 64)
    assert message.bytes == elements // 4096 * (64 * 2 + 64 * 6 + 127) // 8 + 16 + 8
    assert 204 < 4 * elements / message.bytes < 206


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tensor_is_never_larger_than_its_values(shape: tuple[int, ...]) -> None:
    size = torch.Size(shape).numel()
    assert SparseMessage({"w": torch.Size(shape)}, 64).bytes - 8 <= 4 * size


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("shape", [(3,), (65,), (70, 70)])
def test_a_value_that_is_not_finite_reaches_every_rank_and_no_residual(shape: tuple[int, ...], value: float) -> None:
    message = SparseMessage({"w": torch.Size(shape), "other": torch.Size((80, 80))}, 64)
    wanted = {"w": _values(shape), "other": _values((80, 80))}
    good = message.encoded(wanted)
    bad, left = message.encoded(
        {**wanted, "w": wanted["w"].clone().index_put((torch.tensor([1]),), torch.tensor(value))}
    )
    assert list(left) == ["other"]
    averages = message.averages([good[0], bad])
    assert not averages["w"].isfinite().all()
    assert averages["other"].isfinite().all()


@pytest.mark.parametrize(
    "make",
    [
        torch.zeros,
        lambda *shape: torch.full(shape, 3.4e38),
        lambda *shape: torch.full(shape, 1e-45),
        lambda *shape: torch.ones(shape).index_fill(1, torch.arange(10), -3.4e38),
    ],
    ids=["zeros", "huge", "denormal", "both signs"],
)
def test_awkward_values_stay_finite(make: Callable[..., torch.Tensor]) -> None:
    message = SparseMessage({"w": torch.Size((70, 70))}, 64)
    payload, left = message.encoded({"w": make(70, 70)})
    average = message.averages([payload])["w"]
    assert average.isfinite().all()
    torch.testing.assert_close((average.double() + left["w"]).float(), make(70, 70), rtol=1e-6, atol=0)


def _small() -> tuple[SparseMessage, torch.Tensor]:
    message = SparseMessage({"matrix": torch.Size((9, 11)), "scalar": torch.Size(()), "vector": torch.Size((40,))}, 8)
    return message, message.encoded({"matrix": _values((9, 11)), "scalar": _values(()), "vector": _values((40,))})[0]


def test_truncated_and_altered_bytes_are_refused() -> None:
    message, good = _small()
    assert list(message.averages([good, good])) == ["matrix", "scalar", "vector"]
    for size in range(good.numel()):
        with pytest.raises(CorruptPayload, match="rank 1 has"):
            message.averages([good, good[:size]])
    with pytest.raises(CorruptPayload, match="rank 0 has"):
        message.averages([torch.cat([good, good[:1]]), good])
    for place in range(good.numel()):
        for bit in range(8):
            bad = good.clone()
            bad[place] ^= 1 << bit
            with pytest.raises(CorruptPayload, match=r"rank 1 (begins|does not have)"):
                message.averages([good, bad])


def _sealed(bad: torch.Tensor) -> torch.Tensor:
    checksum = zlib.crc32(bad[8:].numpy().tobytes()).to_bytes(4, "little")
    bad[4:8] = torch.tensor(list(checksum), dtype=torch.uint8)
    return bad


def test_a_message_with_a_right_checksum_is_not_trusted_either() -> None:
    message, good = _small()
    indices = 8 + 16 + 2  # the size of header, levels and eight bins
    code = AscendingCode(1, 8, 103)  # has the same form as a code of 8 numbers below 99
    for wrong in ([0, 1, 2, 3, 4, 5, 6, 99], [0, 1, 1, 3, 4, 5, 6, 7], [1, 0, 2, 3, 4, 5, 6, 7]):
        bad = good.clone()
        bad[indices : indices + code.bytes] = torch.from_numpy(code.packed(np.array([wrong])))
        with pytest.raises(CorruptPayload, match="'matrix': the indices of a tile do not ascend, or are not below 99"):
            message.averages([good, _sealed(bad)])
    bad = good.clone()
    bad[8:12] = torch.from_numpy(np.array([np.inf], np.float32).view(np.uint8))
    with pytest.raises(CorruptPayload, match="'matrix': a bin's mean is not finite"):
        message.averages([_sealed(bad), good])
