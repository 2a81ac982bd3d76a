# SPDX-License-Identifier: Apache-2.0
"""SparseLoCo's messages: their bytes and values, the values that are left out, and damaged messages."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest
import torch

from hipress.errors import CorruptPayload
from hipress.torch.tiles import kept_code
from hipress.torch.tiles.ascending import AscendingCode
from hipress.torch.tiles.layout import Tiles
from hipress.torch.tiles.message import SparseMessage
from hipress.torch.tiles.packing import pack_2bit, unpack_2bit
from tests.torch.tiles import kept_decoder, plain

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
    assert all(len(kept_decoder.used(payload.numpy().tobytes())) <= message.bytes for payload, _ in encoded)
    total = np.zeros(shape, np.float32)
    for (_, left), each in zip(encoded, wanted, strict=True):
        sent = plain.sent(each.numpy(), k)
        np.testing.assert_allclose(left["w"].numpy(), each.numpy() - sent, rtol=0, atol=1e-6 * float(each.abs().max()))
        total += sent
    average = message.averages([payload for payload, _ in encoded])["w"]
    assert average.shape == torch.Size(shape)
    np.testing.assert_allclose(average.numpy(), total / np.float32(3), rtol=1e-6, atol=1e-7)


def test_a_matrix_takes_at_most_10_bits_for_each_64th_value_and_less_where_rows_differ() -> None:
    elements = 1024 * 1024
    message = SparseMessage({"w": torch.Size((1024, 1024))}, 64)
    assert message.bytes == elements // 4096 * (64 * 2 + 64 * 6 + 127) // 8 + 8 + 12
    sizes = []
    for spread in (0.0, 1.0):
        rows, columns = (torch.exp(spread * _values((1024,), seed)) for seed in (1, 2))
        payload = message.encoded({"w": _values((1024, 1024)) * rows[:, None] * columns})[0]
        sizes.append(len(kept_decoder.used(payload.numpy().tobytes())))
    assert 230 < 4 * elements / sizes[0] < 250  # 7.4 bits for an index of 64 out of 4,096, and less than 2 for a bin
    assert 4 * elements / sizes[1] > 280


def test_without_the_adaptive_code_the_same_values_travel_plainly() -> None:
    sizes, wanted = {"w": torch.Size((128, 70))}, {"w": _values((128, 70))}
    coded, plain_one = (SparseMessage(sizes, 64, adaptive=each) for each in (True, False))
    payload, left = plain_one.encoded(wanted)
    assert payload[8:12].tolist() == [0, 0, 0, 0]
    assert torch.equal(coded.averages([payload])["w"], plain_one.averages([coded.encoded(wanted)[0]])["w"])
    assert torch.equal(left["w"], coded.encoded(wanted)[1]["w"])


def test_values_that_no_code_makes_shorter_travel_plainly() -> None:
    # One value of each tile, anywhere: what was learned of earlier ones says nothing of the next.
    values = torch.rand((64, 64 * 3), generator=torch.Generator().manual_seed(3)) - 0.5
    for k, is_coded in ((1, False), (64, True)):
        message = SparseMessage({"w": torch.Size(values.shape)}, k)
        payload, left = message.encoded({"w": values})
        assert (int(payload[8:12].view(torch.int32)) > 0) == is_coded
        torch.testing.assert_close(message.averages([payload])["w"] + left["w"], values)


@pytest.mark.parametrize("k", [8, 64])
def test_a_decoder_made_from_the_document_finds_the_same_values(k: int) -> None:
    shapes = {"matrix": (130, 70), "vector": (70,), "small": (2,), "more": (96, 64)}
    message = SparseMessage({name: torch.Size(shape) for name, shape in shapes.items()}, k)
    wanted = {name: _values(shape, seed) for seed, (name, shape) in enumerate(shapes.items())}
    payload, left = message.encoded(wanted)
    sent = kept_decoder.decoded(payload.numpy().tobytes(), shapes, k)
    for name, each in wanted.items():
        torch.testing.assert_close(sent[name] + left[name].numpy(), each.numpy(), rtol=1e-6, atol=1e-7)
        assert 0 < np.count_nonzero(sent[name]) <= each.numel()


def test_long_messages_are_coded_in_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = {"a": _values((200, 130), 1), "b": _values((70,), 2), "c": _values((128, 320), 3)}
    sizes = {name: each.shape for name, each in wanted.items()}
    whole = SparseMessage(sizes, 64)
    monkeypatch.setattr(kept_code, "STRETCH", 10_000)
    parted = SparseMessage(sizes, 64)
    (one, left), (several, left_too) = whole.encoded(wanted), parted.encoded(wanted)
    assert not torch.equal(one, several)
    for name in wanted:
        assert torch.equal(whole.averages([one])[name], parted.averages([several])[name])
        assert torch.equal(left[name], left_too[name])
    bad = several.clone()
    bad[12 + 24 + 3] = 255  # of the first stretch's size
    with pytest.raises(CorruptPayload, match="rank 1 ends before its last value"):
        parted.averages([several, _sealed(bad)])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_tensor_is_never_larger_than_its_values(shape: tuple[int, ...]) -> None:
    size = torch.Size(shape).numel()
    assert SparseMessage({"w": torch.Size(shape)}, 64).bytes - 12 <= 4 * size


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
    for place in range(len(kept_decoder.used(good.numpy().tobytes()))):
        for bit in range(8):
            bad = good.clone()
            bad[place] ^= 1 << bit
            with pytest.raises(CorruptPayload, match=r"rank 1 (begins|does not have)"):
                message.averages([good, bad])


def _sealed(bad: torch.Tensor) -> torch.Tensor:
    checksum = zlib.crc32(kept_decoder.used(bad.numpy().tobytes())[8:]).to_bytes(4, "little")
    bad[4:8] = torch.tensor(list(checksum), dtype=torch.uint8)
    return bad


def test_a_message_with_a_right_checksum_is_not_trusted_either() -> None:
    message, good = _small()
    heads = 8 + 4 + 8  # the sizes of the heads of matrix, scalar and vector
    indices = 12 + heads + 2  # header, heads, eight bins
    plain = good.clone()
    plain[8:] = 0
    plain[12 : 12 + heads] = good[12 : 12 + heads]
    code = AscendingCode(1, 8, 103)  # has the same form as a code of 8 numbers below 99
    for wrong in ([0, 1, 2, 3, 4, 5, 6, 99], [0, 1, 1, 3, 4, 5, 6, 7], [1, 0, 2, 3, 4, 5, 6, 7]):
        bad = plain.clone()
        bad[indices : indices + code.bytes] = torch.from_numpy(code.packed(np.array([wrong])))
        with pytest.raises(CorruptPayload, match="rank 1 the indices of a tile do not ascend, or are not below 99"):
            message.averages([good, _sealed(bad)])
    bad = good.clone()
    bad[12:14] = torch.tensor([torch.inf]).bfloat16().view(torch.uint8)
    with pytest.raises(CorruptPayload, match="'matrix': a bin's mean is not finite"):
        message.averages([_sealed(bad), good])


def test_coded_values_that_end_elsewhere_are_refused() -> None:
    message = SparseMessage({"w": torch.Size((70, 70))}, 64)
    good = message.encoded({"w": _values((70, 70))})[0]
    end = len(kept_decoder.used(good.numpy().tobytes()))
    for longer in (1, 2):
        bad = good.clone()
        bad[8] += longer
        bad[end + longer - 1] = 1
        with pytest.raises(CorruptPayload, match="rank 1 the coded values end after"):
            message.averages([good, _sealed(bad)])
    for place, value, problem in ((end + 1, 1, "goes on behind its end"), (11, 255, "does not have its checksum")):
        bad = good.clone()
        bad[place] = value
        with pytest.raises(CorruptPayload, match=f"rank 1 {problem}"):
            message.averages([good, bad])
