# SPDX-License-Identifier: Apache-2.0
"""Which parameters are synchronised together: a model's layers, dealt out to the fragments in turn."""

from __future__ import annotations

from collections.abc import Sequence

from hipress.errors import InvalidArgument


def _layer(name: str) -> str:
    """ "blocks.3.mlp.weight" belongs to "blocks.3", "embedding.weight" to "embedding"."""
    parts = name.split(".")
    for place, part in enumerate(parts[:-1]):
        if part.isdecimal():
            return ".".join(parts[: place + 1])
    return parts[0]


def _dealt(names: Sequence[str], count: int) -> list[list[str]]:
    # Layers i, i + P, i + 2P, ...: the paper's strided pattern.
    layers = list(dict.fromkeys(_layer(name) for name in names))
    if count > len(layers):
        raise InvalidArgument(
            f"fragments={count}: the model has only {len(layers)} layers with trainable parameters, and a fragment has "
            "at least one; name the fragments' parameters to split layers"
        )
    fragment_of = {layer: place % count for place, layer in enumerate(layers)}
    return [[name for name in names if fragment_of[_layer(name)] == each] for each in range(count)]


def _listed(names: Sequence[str], fragments: Sequence[Sequence[str]]) -> list[list[str]]:
    chosen: dict[str, int] = {}
    for place, prefixes in enumerate(fragments):
        if isinstance(prefixes, str):
            raise InvalidArgument(f"fragments[{place}]={prefixes!r}: give a list of names for each fragment")
        for prefix in prefixes:
            found = [name for name in names if name == prefix or name.startswith(f"{prefix}.")]
            if not found:
                raise InvalidArgument(f"fragments[{place}] names '{prefix}', which has no trainable parameter")
            for name in found:
                if name in chosen:
                    raise InvalidArgument(f"'{name}' is in fragments {chosen[name]} and {place}: it belongs to one")
                chosen[name] = place
    missing = [name for name in names if name not in chosen]
    if missing:
        raise InvalidArgument(f"'{missing[0]}' is in none of the {len(fragments)} fragments")
    if len(set(chosen.values())) < len(fragments):
        raise InvalidArgument("a fragment has no parameters")
    return [[name for name in names if chosen[name] == each] for each in range(len(fragments))]


def fragments_of(names: Sequence[str], fragments: int | Sequence[Sequence[str]]) -> list[list[str]]:
    """The names of each fragment's parameters, in the model's order.

    `fragments`: so many, of whole layers; or for each fragment the names of its modules and parameters. Raises
    InvalidArgument if a parameter would be in none or in two.
    """
    if isinstance(fragments, int):
        return _dealt(names, fragments)
    return _listed(names, fragments)
