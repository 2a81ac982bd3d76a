# SPDX-License-Identifier: Apache-2.0
"""How a kernel on a GPU stores a vector: to a buffer, the output, a new state, or the message."""

from __future__ import annotations

from hipress.compll.emit.cuda.steps import CudaSteps
from hipress.compll.emit.cuda.tile import Load
from hipress.compll.emit.cuda.tile_pass import CudaPass
from hipress.compll.emit.scope import c_type, message_type, stored_type
from hipress.compll.emit.target import SinkLowering
from hipress.compll.ir.expressions import TRIT
from hipress.compll.passes import plan


def _element(work: CudaPass, sink: plan.StoreTo) -> None:
    tile, place = work.tile, sink.place
    match place.kind:
        case "buffer":
            kept = stored_type(work.vectors.element(sink.vector))
            tile.store(tile.pointer(f"v_{work.names(place.name)}"), kept, work.storable(sink.vector))
        case "gradient":
            value = tile.element(sink.vector)
            if work.summing:
                tile.lines.append(f"sum.put(k, j, {value});")
                return
            output = tile.pointer("output")
            row = f"if (kAccumulate) cuda::readRow(some, {output} + i, given, &Given::old);"
            old = tile.given("old", Load("float", f"kAccumulate ? {output}[i] : 0.0f", row))
            tile.store(output, "float", f"kAccumulate ? {old} + {value} : {value}")
        case "state":
            value = tile.element(sink.vector)
            work.check_state(place.name, value)
            tile.store(tile.pointer(f"after_{work.names(place.name)}"), "float", value, "if (kStates) ")
        case "message":
            _to_message(work, sink.vector, place.item)


def _to_message(work: CudaPass, vector: str, item: int) -> None:
    tile, type_ = work.tile, work.vectors.element(vector)
    kept = message_type(type_)
    if type_ == TRIT:
        tile.store(tile.pointer(f"trits_{item}"), "uint8_t", f"static_cast<uint8_t>({tile.element(vector)})")
        return
    field = tile.copied(f"f->message + f->o_{item}", f"field_{item}")
    if type_.packed:
        work.after.append(
            f"cuda::packTile(block, {work.stage_packed(vector)}, count, {tile.bits(type_)}, {field}, tile);"
        )
        return
    value = tile.packable(tile.element(vector), type_)
    value = value if kept == c_type(type_) else f"static_cast<{kept}>({value})"
    if item in work.function.aligned:
        typed = tile.copied(f"reinterpret_cast<{kept}*>(f->message + f->o_{item})", f"typed_{item}")
        tile.store(typed, kept, value)
    else:
        place = f"{field} + {type_.message_bytes} * static_cast<size_t>(i)"
        tile.lines.append(f"cuda::putBytes<{kept}>({place}, {value});")


def _before(steps: CudaSteps, sink: plan.StoreTo, over: str) -> None:
    if sink.place.kind == "buffer":
        type_ = stored_type(steps.vectors.element(sink.vector))
        steps.function.buffer(f"v_{steps.names(sink.place.name)}", type_, steps.function.most(over))
    elif _trits(steps, sink):
        steps.function.buffer(f"trits_{sink.place.item}", "uint8_t", steps.function.most(sink.vector))


def _after(steps: CudaSteps, sink: plan.StoreTo, over: str) -> None:
    """The digits of a byte may be of two tiles, so a second kernel packs them."""
    if not _trits(steps, sink):
        return
    item, count = sink.place.item, steps.counted(sink.vector)
    steps.kernel(
        f"cuda::packTrits(block, f->trits_{item}, {count}, f->message + f->o_{item});", steps.function.most(sink.vector)
    )


def _trits(steps: CudaSteps, sink: plan.StoreTo) -> bool:
    return sink.place.kind == "message" and steps.vectors.element(sink.vector) == TRIT


STORE = SinkLowering(_element, _before, _after)
