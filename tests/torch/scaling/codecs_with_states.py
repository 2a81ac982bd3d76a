# SPDX-License-Identifier: Apache-2.0
"""The built-in codecs that keep states, from the list of all codecs: a new codec is tested like the others."""

from __future__ import annotations

import inspect

from hipress import _core, codecs


def _keeping() -> list[str]:
    found: dict[str, str] = {}
    for kind in (getattr(codecs, name) for name in codecs.__all__):
        if not isinstance(kind, type) or kind in (codecs.Codec, codecs.LoadedCodec):
            continue
        has_feedback = "error_feedback" in inspect.signature(kind).parameters
        for text in (kind(), kind(error_feedback=True) if has_feedback else None):
            made = None if text is None else _core.create_codec(text)
            if made is not None and (made.states or (made.low_rank is not None and made.low_rank[2])):
                found.setdefault(made.signature, str(text))
    return list(found.values())


def has_factors(text: str) -> bool:
    """Whether ranks add factors in place of matrices."""
    return _core.create_codec(text).low_rank is not None


#: By themselves, or with error feedback.
KEEPING = _keeping()
#: Those that a rank encodes without the others.
ENCODED = [text for text in KEEPING if not has_factors(text) and _core.create_codec(text).summed is None]
