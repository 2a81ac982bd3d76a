# SPDX-License-Identifier: Apache-2.0
"""Writes results of benchmarks as Markdown tables.

A result is a list of rows, which benchmarks/README.md describes; None: it was not measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Row = dict[str, Any]
Result = list[Row] | None
NOT_MEASURED = "not measured"


def table(heads: str, lines: Iterable[Sequence[str]]) -> str:
    """A table. `heads` has "|" between the heads; a column whose head ends with ":" is aligned on the right."""
    names = [head.strip() for head in heads.split("|")]
    rule = "|".join("--:" if name.endswith(":") else "---" for name in names)
    rows = ["|".join(f" {cell} " for cell in line) for line in lines]
    return "\n".join(f"|{row}|" for row in ["|".join(f" {name.rstrip(':')} " for name in names), rule, *rows]) + "\n"


def seconds(value: float | None) -> str:
    """Seconds with three digits, in milliseconds below one second."""
    if value is None:
        return "–"
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"


def times(value: float | None, digits: int = 2) -> str:
    """A ratio as text."""
    return "–" if value is None else f"{value:.{digits}f} ×"


def fastest(result: Result, codec: str | None = None) -> Row | None:
    """The row of HiPress with the fastest topology; None if there is no row of HiPress."""
    ours = [row for row in result or [] if row.get("topology") and row["system"] != "best"]
    ours = [row for row in ours if codec is None or row["codec"] == codec]
    return min(ours, key=lambda row: float(row["time_s"]), default=None)


def time_of(result: Result, system: str) -> float | None:
    """The time of a peer system; None if it was not measured."""
    return next((row["time_s"] for row in result or [] if row["system"] == system), None)


def sync_table(results: Mapping[str, Result]) -> str:
    """A row for each model and system, HiPress' rows first."""
    lines: list[tuple[str, ...]] = []
    for model, result in results.items():
        if result is None:
            lines.append((model, NOT_MEASURED, *[""] * 7))
            continue
        rows = [row for row in result if row["system"] != "best"]
        ours = sorted((row for row in rows if row.get("topology")), key=lambda row: float(row["time_s"]))
        half = time_of(result, "gloo-fp16")
        others = [row for row in rows if not row.get("topology")]
        lines += [(model, *_system_cells(row, half)) for row in [*ours, *others]]
    heads = "Model | System | Time: | Speedup: | Beside torch's fp16 hook: | Limit of the link: | of the codec:"
    return table(f"{heads} | Time / limit: | Cores busy:", lines)


def gain(row: Row, ratio: float | None, digits: int = 2) -> str:
    """How many times as fast as a peer a system is; bold if HiPress is slower."""
    is_ours = bool(row.get("topology")) or str(row["system"]).startswith(("hipress", "hook-"))
    text = times(ratio, digits)
    return f"**{text}**" if is_ours and ratio is not None and ratio < 1 else text


def beside(row: Row, peer_s: float | None) -> str:
    """The gain over a peer with this time."""
    return gain(row, None if peer_s is None or row["time_s"] is None else peer_s / float(row["time_s"]))


#: Peers: who computes, over which library, and the type of gradients on the wire.
_PEERS = {
    "gloo-fp32": "DDP's all-reduce (Gloo), float32",
    "gloo-fp16": "torch's fp16 hook (Gloo), float16",
    "powersgd": "torch's PowerSGD hook (Gloo), float32 factors",
    "horovod": "Horovod (Gloo), float32",
}


def _system_cells(row: Row, half: float | None) -> tuple[str, ...]:
    name = _PEERS.get(row["system"], str(row["system"]))
    if row["time_s"] is None:
        return (name, NOT_MEASURED, *[""] * 6)
    if name.startswith("hook-"):
        name = f"DDP's hook, `{row['codec']}`"
    elif row.get("topology"):
        name = f"HiPress `{row['codec']}`, `{row['topology']}`"
    busy = row.get("cpu_limit_s")
    return (
        name,
        seconds(row["time_s"]),
        gain(row, row["speedup_ratio"]),
        beside(row, half),
        seconds(row.get("link_limit_s")),
        seconds(row.get("compute_limit_s")),
        times(row.get("limit_ratio")),
        "–" if busy is None else f"{min(1.0, busy / row['time_s']):.0%}",
    )


def none_table(results: Mapping[tuple[str, str, str], Result]) -> str:
    """The table of HiPress and Gloo without compression. The keys are hosts, rate and model."""
    lines = []
    for key, result in results.items():
        ours, gloo = fastest(result, "none"), time_of(result, "gloo-fp32")
        if ours is None or gloo is None:
            lines.append((*key, NOT_MEASURED, "", ""))
            continue
        time_s = float(ours["time_s"])
        longer = f"{time_s / gloo:.2f}"
        longer = f"**{longer}**" if time_s > gloo else longer
        lines.append((*key, f"{seconds(time_s)} (`{ours['topology']}`)", seconds(gloo), longer))
    return table("Hosts | Links | Model | HiPress `none`: | Gloo: | HiPress / Gloo:", lines)


def adapters_table(result: Result) -> str:
    """The table of all frameworks' adapters with one gradient set."""
    if result is None:
        return NOT_MEASURED.capitalize() + ".\n"
    first = result[0]
    lines = []
    for row in result:
        if row["time_s"] is None:
            lines.append((f"`{row['system']}`", NOT_MEASURED, *[""] * 4))
            continue
        spread = f"{seconds(row['time_min_s'])} to {seconds(row['time_max_s'])}"
        longer = f"{row['time_s'] / first['time_s']:.2f}"
        sent = f"{row['bytes_sent'] / 1e6:.2f} MB"
        lines.append((f"`{row['system']}`", seconds(row["time_s"]), spread, longer, seconds(row["cpu_s"]), sent))
    caption = f"{first['model']}, {first['nodes']} hosts, links of {first['rate']}, `{first['codec']}`, "
    caption += f"`{first['topology']}`.\n\n"
    heads = "Adapter | Time: | From, to: | Time / first: | Processor time of a rank: | Sent by a rank:"
    return caption + table(heads, lines)


def ablation_table(result: Result) -> str:
    """The table of one ablation, with a caption."""
    if result is None:
        return NOT_MEASURED.capitalize() + ".\n"
    first = result[0]
    lines = [
        (
            f"{row['group']}: {row['variant']}",
            seconds(row["time_s"]),
            times(row["time_gain_ratio"]),
            seconds(row["step_s"]),
            times(row["step_gain_ratio"]),
            seconds(max(0.0, row["stall_s"])),
        )
        for row in result
    ]
    backward = "all gradients at once" if first["backward_s"] is None else f"backward {seconds(first['backward_s'])}"
    # Older results have no such column.
    limit = first.get("port_limit_bytes")
    switch = "" if limit is None else f", {limit // 1024} KiB of queue at each port of the switch"
    caption = f"{first['nodes']} hosts at {first['rate']}{switch}, `{first['topology']}`; {backward}, forward "
    caption += f"{seconds(first['forward_s'])}; {max(row['rounds'] for row in result)} turns.\n\n"
    return caption + table("Row | Averaged after: | Gain: | Next forward over after: | Gain: | Waits:", lines)


#: What carried the tensors of a training step. Older results of GPUs are of Gloo, too.
_CARRIERS = {"gloo": "Gloo", "nccl": "NCCL", "engine": "HiPress' engine"}


def train_table(results: Mapping[str, Result]) -> str:
    """A row for each model and system."""
    lines: list[tuple[str, ...]] = []
    for model, result in results.items():
        if result is None:
            lines.append((model, NOT_MEASURED, *[""] * 6))
        halves = [time for name in ("ddp-fp16", "ddp-bf16") if (time := time_of(result, name)) is not None]
        for row in result or []:
            if row["time_s"] is None:
                lines.append((model, str(row["system"]), NOT_MEASURED, *[""] * 5))
                continue
            alone, ratio = seconds(row["alone_s"]), times(row["time_alone_ratio"])
            gains = gain(row, row["speedup_ratio"]), beside(row, min(halves, default=None))
            lines.append((model, str(row["system"]), _carrier(row), seconds(row["time_s"]), alone, ratio, *gains))
    heads = "Model | System | Over | Step: | Computing alone: | Step / computing: | Speedup:"
    return table(f"{heads} | Beside torch's 16-bit hook:", lines)


def chosen_table(results: Mapping[str, Result]) -> str:
    """A row for each rate of the links and system; the last column has what `codec="auto"` has chosen."""
    lines: list[tuple[str, ...]] = []
    for rate, result in results.items():
        if result is None:
            lines.append((rate, NOT_MEASURED, *[""] * 5))
        half = time_of(result, "ddp-fp16")
        for row in result or []:
            choice = f"`{row['chosen']}`, after {row['steps_to_choose']} steps" if row["chosen"] else ""
            gains = gain(row, row["speedup_ratio"]), beside(row, half)
            lines.append((rate, str(row["system"]), seconds(row["time_s"]), seconds(row["alone_s"]), *gains, choice))
    heads = "Links | System | Step: | Computing alone: | Speedup: | Beside torch's fp16 hook:"
    return table(f"{heads} | Chosen", lines)


def _carrier(row: Row) -> str:
    """What carried a system's gradients."""
    system = str(row["system"])
    if system.startswith("hipress"):
        return _CARRIERS["engine"]
    if system.startswith("dist-sync"):
        return "MXNet's servers"
    return _CARRIERS[row.get("group") or "gloo"]


def gpu_train_table(results: Mapping[str, Result]) -> str:
    """The same for trainings on a GPU; a sentence before the table names the GPU."""
    rows = [row for result in results.values() for row in result or []]
    if not rows:
        return NOT_MEASURED.capitalize() + ".\n"
    return f"The GPU is an {rows[0]['device']}.\n\n{train_table(results)}"


def codec_table(result: Result) -> str:
    """A row for each codec."""
    lines = [
        (
            f"`{row['codec']}`",
            times(row["encode_memcpy_ratio"]),
            times(row["decode_memcpy_ratio"]),
            "–" if row["torch_encode_ratio"] is None else f"{row['torch_encode_ratio']:.0f} ×",
            f"{row['size_bytes'] / row['bytes']:.0f} ×",
        )
        for row in result or []
    ]
    if not lines:
        return NOT_MEASURED.capitalize() + ".\n"
    return table("Codec | Encode / memcpy: | Decode / memcpy: | Faster than in torch: | Smaller:", lines)


def gpu_codec_table(result: Result) -> str:
    """A row for each codec on a GPU."""
    lines = [
        (
            f"`{row['codec']}`",
            times(row["encode_copy_ratio"]),
            times(row["decode_copy_ratio"]),
            f"{row['encode_ms']:.3g} ms",
            f"{row['decode_ms']:.3g} ms",
            f"{row['size_bytes'] / row['bytes']:.0f} ×",
        )
        for row in result or []
    ]
    if not result:
        return NOT_MEASURED.capitalize() + ".\n"
    first = result[0]
    size = f"{first['size_bytes'] / 1e6:.0f} MB"
    caption = f"{first['gpu']}, a tensor of {size}, which it copies in {first['copy_ms']:.3g} ms.\n\n"
    return caption + table("Codec | Encode / copy: | Decode / copy: | Encode: | Decode: | Smaller:", lines)


def error_tables(result: Result) -> str:
    """Two tables of vNMSE by codec: one training with every topology and number of ranks, and all trainings with ps."""
    rows = result or []
    if not rows:
        return NOT_MEASURED.capitalize() + ".\n"
    found = {(row["training"], row["codec"], row["topology"], row["ranks"]): row for row in rows}
    trainings, codecs, topologies, counts = (list(dict.fromkeys(key[at] for key in found)) for at in range(4))
    pairs = [(topology, ranks) for topology in topologies for ranks in counts]
    shown = "characters" if "characters" in trainings else trainings[-1]

    def line(codec: object, keys: Sequence[tuple[object, ...]]) -> tuple[str, ...]:
        bits = float(found[keys[0]]["bits_per_element"])
        errors = (f"{float(found[key]['vnmse']):.2g}" if key in found else "–" for key in keys)
        return f"`{codec}`", f"{bits:.3g}", *errors

    by_topology = [line(codec, [(shown, codec, *pair) for pair in pairs]) for codec in codecs]
    by_training = [line(codec, [(each, codec, topologies[0], counts[0]) for each in trainings]) for codec in codecs]
    heads = " | ".join(f"{topology}, {ranks}:" for topology, ranks in pairs)
    return "\n".join(
        [
            f"The training run `{shown}`, by topology and number of ranks:\n",
            table(f"Codec | Bits: | {heads}", by_topology),
            f"All training runs over {topologies[0]} with {counts[0]} ranks:\n",
            table(f"Codec | Bits: | {' | '.join(f'{each}:' for each in trainings)}", by_training),
        ]
    )


def weight_stream_table(result: Result) -> str:
    """A row for each share of changed elements."""
    if not result:
        return NOT_MEASURED.capitalize() + ".\n"
    lines = [
        (
            f"{row['changed_percent']:g} %",
            f"{row['sent_percent']:.2f} %",
            f"{row['publish_gbps']:.1f} GB/s",
            f"{row['follow_gbps']:.1f} GB/s",
            times(row["publish_memcpy_ratio"], 1),
            times(row["follow_memcpy_ratio"], 1),
        )
        for row in result
    ]
    heads = "Changed | Sent: | Published per core: | Followed per core: | Publish / memcpy: | Follow / memcpy:"
    size = f"{result[0]['size_bytes'] / 1e6:.0f} MB of bfloat16"
    return f"{size}, changed at random places; bytes of the model per second.\n\n" + table(heads, lines)


def loopback_table(results: Mapping[tuple[str, str], Result]) -> str:
    """The table of averaging on the loopback. The keys are ranks and size."""
    lines = []
    for (ranks, size), result in results.items():
        if result is None:
            lines.append((ranks, size, NOT_MEASURED, "", ""))
        for row in result or []:
            name = f"HiPress `{row['codec']}`" if row.get("topology") else str(row["system"])
            lines.append((ranks, size, name, seconds(row["time_s"]), gain(row, row["speedup_ratio"])))
    return table("Ranks | Size | System | Time: | Speedup:", lines)


def adapter_table(result: Result) -> str:
    """A row for each framework."""
    lines = [
        (
            str(row["framework"]),
            str(row["tensors"]),
            seconds(row["alone_s"]),
            seconds(row["distributed_s"]),
            f"{row['adapter_per_tensor_s'] * 1e6:.3g} µs",
        )
        for row in result or []
    ]
    if not lines:
        return NOT_MEASURED.capitalize() + ".\n"
    return table("Framework | Tensors: | Step: | with HiPress: | Adapter, per tensor:", lines)


def accuracy_table(result: Result) -> str:
    """A row for each topology and codec, a column for each framework."""
    if not result:
        return NOT_MEASURED.capitalize() + ".\n"
    frameworks = list(dict.fromkeys(str(row["framework"]) for row in result))
    settings = dict.fromkeys((str(row["topology"]), str(row["codec"])) for row in result)
    lines = []
    differences = []
    for topology, codec in settings:
        rows = {row["framework"]: row for row in result if (row["topology"], row["codec"]) == (topology, codec)}
        accuracies = {name: float(row["accuracy_percent"]) for name, row in rows.items()}
        differences.append(max(accuracies.values()) - min(accuracies.values()))
        cells = [f"{accuracies[name]:.2f} %" if name in accuracies else "–" for name in frameworks]
        sent = max(row["bytes"] for row in rows.values())
        lines.append((f"`{topology}`", f"`{codec}`", *cells, f"{sent / 1000:,.1f} kB"))
    first = result[0]
    caption = (
        f"{first['ranks']} ranks, {first['epochs']} epochs; means of {first['seeds']} seeds. The frameworks differ by "
    )
    caption += f"at most {max(differences):.2f} points.\n\n"
    heads = " | ".join(f"{name}:" for name in frameworks)
    return caption + table(f"Topology | Codec | {heads} | Sent per step and rank:", lines)


def precision_table(result: Result) -> str:
    """A row for each training run of the laboratory exercise, with the data sets side by side."""
    if not result:
        return NOT_MEASURED.capitalize() + ".\n"
    sets = list(dict.fromkeys(row["data"] for row in result))
    lines = []
    for ranks, name in dict.fromkeys((row["ranks"], row["format"]) for row in result):
        rows = {row["data"]: row for row in result if (row["ranks"], row["format"]) == (ranks, name)}
        cells = []
        for data in sets:
            one = rows[data]
            sent = f"{one['bytes'] / 1000:,.1f} kB" if ranks > 1 else "–"
            cells += [f"{one['accuracy_percent']:.2f} %", seconds(one["time_s"]), sent]
        lines.append(("alone" if ranks == 1 else name, str(ranks), *cells))
    heads = " | ".join(f"{data}: accuracy: | time: | sent per step and rank:" for data in sets)
    return table(f"Gradients | Ranks: | {heads}", lines)
