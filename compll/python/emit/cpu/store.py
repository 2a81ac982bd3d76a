# SPDX-License-Identifier: Apache-2.0
"""How a loop on a processor stores a vector: to a buffer, the output, a new state, or the message."""

from __future__ import annotations

from hipress.compll.emit.cpu.steps import CpuSink, CpuSteps
from hipress.compll.emit.cpu.tile_pass import CpuPass
from hipress.compll.emit.scope import message_type, stored_type
from hipress.compll.passes import plan


def _element(work: CpuPass, sink: plan.StoreTo) -> None:
    tile, type_, place = work.tile, work.vectors.element(sink.vector), sink.place
    match place.kind:
        case "buffer":
            kept = stored_type(type_)
            member = work.function.member(f"v_{work.names(place.name)}", f"{kept}*", " = nullptr")
            tile.before[f"to {member}"] = f"{kept}* const to_{member} = f->{member} + tile;"
            tile.lines.append(f"to_{member}[i] = {work.storable(sink.vector)};")
        case "gradient":
            tile.before["output"] = "float* const output = f->output + tile;\nprefetchElements(output + kTile, count);"
            value = tile.element(sink.vector)
            tile.lines.append(f"output[i] = kAccumulate ? output[i] + {value} : {value};")
        case "state":
            value = tile.element(sink.vector)
            work.check_state(place.name, value)
            array = work.array(value, "float", states_only=True)
            after = f"f->after_{work.names(place.name)} + tile"
            work.after.append(f"if (kStates) storeTile<level>({after}, {array}, count, f->stream);")
            # The fence belongs to the thread that streamed: another thread's fence does not order these stores.
            work.epilogue = ["if (kStates && f->stream) streamFence();"]
        case "message":
            field = f"f->message + f->o_{place.item}"
            array = work.array(work.packable(sink.vector), message_type(type_))
            if type_.packed:
                work.after.append(f"packTile<level>({array}, count, {tile.bits(type_)}, {field}, tile);")
            else:
                size = type_.message_bytes
                work.after.append(f"copyTile({array}, {size} * count, {field} + {size} * tile);")


def _before(steps: CpuSteps, sink: plan.StoreTo, over: str) -> None:
    if sink.place.kind == "buffer":
        type_ = stored_type(steps.vectors.element(sink.vector))
        steps.reserve(f"v_{steps.names(sink.place.name)}", type_, steps.scope.count(over))


STORE = CpuSink(_element, _before)
