# SPDX-License-Identifier: Apache-2.0
"""prefix_sum and prefix_max: element i combines the elements up to element i."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

import hipress
from hipress import _core
from hipress.compll import Interpreter, compile_text
from hipress.errors import CorruptPayload, InvalidArgument
from tests.compll.build import compilers
from tests.compll.emit.cuda.build import host_library
from tests.compll.emit.cuda.table import Call, CudaCodec, Memory
from tests.compll.operators.differential import same_on_all_targets
from tests.compll.programs import decoder, encoder, floats, vector

_GAPS = """
void GapsEncode(float* gradient, uint8* compressed) {
    int* index = take(filter(range(gradient.size), [&](int i) -> bool { return gradient[i] > 0 || i % 255 == 254; }),
                      gradient.size / 4);
    uint8* gap = map(range(index.size), index, [&](int i, int at) -> uint8 { return at - index[i - 1]; });
    compressed = concat(index.size, gap, gather(gradient, index));
}

void GapsDecode(uint8* compressed, float* gradient) {
    extract(compressed, int32 n, uint8 gap[n], float value[n]);
    gradient = scatter(fill(gradient.size, 0.0), prefix_sum(gap), value);
}
"""

#: Runs of equal signs: the length of each run, and the sign.
_RUNS = """
void RunsEncode(float* gradient, uint8* compressed) {
    int* start = filter(range(gradient.size), [&](int i) -> bool {
        return i % 255 == 0 || (gradient[i] > 0) != (gradient[i - 1] > 0);
    });
    uint8* length = map(range(start.size), start, [&](int r, int at) -> uint8 {
        return (r + 1 < start.size ? start[r + 1] : gradient.size) - at;
    });
    uint1* up = map(gather(gradient, start), [&](float x) -> uint1 { return x > 0; });
    compressed = concat(start.size, take(length, gradient.size), take(up, gradient.size));
}

void RunsDecode(uint8* compressed, float* gradient) {
    extract(compressed, int32 n, uint8 length[n], uint1 up[n]);
    int* end = prefix_sum(length);
    int* start = map(end, length, [&](int e, uint8 l) -> int { return e - l; });
    require(end[n - 1] == gradient.size);
    int* run = prefix_sum(scatter(fill(gradient.size, 0), start, 1));
    int* first = prefix_max(scatter(fill(gradient.size, 0), start, start));
    gradient = map(range(gradient.size), run, first, [&](int i, int r, int f) -> float {
        return (up[r - 1] ? 1.0 : -1.0) + 0.001 * (i - f);
    });
}
"""

_WHOLE = """
void WholeEncode(float* gradient, uint8* compressed) {
    int* large = map(gradient, [&](float x) -> int { return 1e9 * x; });
    int* total = prefix_sum(large);
    int* most = prefix_max(map(large, range(gradient.size), [&](int x, int i) -> int { return x / 2 + i; }));
    compressed = concat(total, most);
}

void WholeDecode(uint8* compressed, float* gradient) {
    extract(compressed, int32 total[gradient.size], int32 most[gradient.size]);
    gradient = map(total, most, [&](int t, int m) -> float { return t ^ m; });
}
"""


def _integers(*values: int) -> str:
    chosen = "".join(f"i == {i} ? {value} : " for i, value in enumerate(values))
    return f"int* v = map(range({len(values)}), [&](int i) -> int {{ return {chosen}0; }});"


def test_meaning() -> None:
    one = floats(1)
    assert vector("prefix_sum(v)", "int", one, _integers(3, 0, -5, 7)).tolist() == [3, 3, -2, 5]
    assert vector("prefix_max(v)", "int", one, _integers(-3, -4, 0, 7, 6)).tolist() == [-3, -3, 0, 7, 7]
    assert vector("prefix_sum(v)", "int", one, _integers(2**31 - 1, 1, 1)).tolist() == [2**31 - 1, -(2**31), 1 - 2**31]
    assert vector("prefix_max(v)", "int", one, _integers(1 - 2**31)).tolist() == [1 - 2**31]
    assert vector("prefix_sum(fill(0, 5))", "int", one).tolist() == []
    bits = "uint1* b = map(gradient, [&](float x) -> uint1 { return x > 0; });"
    assert vector("prefix_sum(b)", "int", floats(1, -1, 2, 3), bits).tolist() == [1, 1, 2, 3]


def test_the_result_is_as_long_as_the_vector() -> None:
    run = encoder("""
        int* at = filter(range(gradient.size), [&](int i) -> bool { return gradient[i] > 0; });
        int* both = map(prefix_sum(at), prefix_max(at), at, [&](int s, int m, int a) -> int { return s + m - a; });
        compressed = concat(take(both, gradient.size / 2));
    """)
    assert run.max_encoded_bytes(10) == 20
    assert np.frombuffer(run.encode(floats(1, -1, 1, 1)), "<i4").tolist() == [0, 2]


def _gaps_message(*gaps: int) -> bytes:
    return struct.pack("<i", len(gaps)) + bytes(gaps) + np.ones(len(gaps), "<f4").tobytes()


def test_indices_from_gaps_are_checked_as_other_indices() -> None:
    run = Interpreter(compile_text(_GAPS))
    assert run.decode(_gaps_message(0, 2, 1), 4).tolist() == [1, 0, 1, 1]
    for gaps, reason in (
        ((0, 2, 2), "index 4 in a vector of 4"),
        ((1, 0), "index 1 follows 1"),
        ((255,), "index 255"),
    ):
        with pytest.raises(CorruptPayload, match=reason):
            run.decode(_gaps_message(*gaps), 4)


def test_sums_of_gaps_that_wrap_around_are_refused() -> None:
    run = decoder("""
        extract(compressed, int32 gap[3]);
        gradient = scatter(fill(gradient.size, 0.0), prefix_sum(gap), 1.0);
    """)
    assert run.decode(struct.pack("<3i", 1, 1, 1), 4).tolist() == [0, 1, 1, 1]
    for gaps in ((2, 2**31 - 1, 2**31 - 1), (0, -1, 5), (2**31 - 1, 1, 0), (-(2**31), 0, 0)):
        with pytest.raises(CorruptPayload, match="scatter: index"):
            run.decode(struct.pack("<3i", *gaps), 4)
    wrong = encoder("compressed = concat(scatter(gradient, prefix_sum(fill(2, 5)), 0.0));")
    with pytest.raises(InvalidArgument, match="index 5 in a vector of 3"):
        wrong.encode(floats(1, 2, 3))


def test_runs_are_repeated_by_their_lengths() -> None:
    run = Interpreter(compile_text(_RUNS))
    message = run.encode(np.array([1, 2, -1, -1, -1, 3], np.float32))
    assert message == struct.pack("<i", 3) + bytes([2, 3, 1, 0b101])
    assert np.allclose(run.decode(message, 6), [1, 1.001, -1, -0.999, -0.998, 1])
    for lengths in ((2, 3, 2), (2, 0, 4), (255, 255, 8)):
        with pytest.raises(CorruptPayload):
            run.decode(struct.pack("<i", 3) + bytes([*lengths, 0b101]), 6)


@pytest.mark.slow  # it compiles
@pytest.mark.parametrize("program", [_GAPS, _RUNS], ids=["gaps", "runs"])
def test_all_targets_do_the_same(program: str, tmp_path: Path) -> None:
    same_on_all_targets(program, tmp_path)


@pytest.mark.slow  # it compiles
def test_threads_and_tiles_join_their_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share vectors of more than 2^18 elements. A GPU's block of threads joins up to 4096 tiles at a time."""
    monkeypatch.setenv("HIPRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("CXX", str(compilers.quick(tmp_path)))
    (tmp_path / "whole.cll").write_text(_WHOLE)
    program = compile_text(_WHOLE)
    cpu = _core.create_codec(hipress.load_codec(tmp_path / "whole.cll"))
    cuda = CudaCodec(host_library(program, tmp_path), program, Memory(), {})
    gradient = np.random.default_rng(1).standard_normal(4100 * 1024 + 3).astype(np.float32)
    expected = Interpreter(program).encode(gradient)
    assert all(cpu.encode(gradient, threads=threads) == expected for threads in (1, 3, 3, 3))
    assert cuda.encode(gradient, None, Call()) == expected
