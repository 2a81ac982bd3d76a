# SPDX-License-Identifier: Apache-2.0
"""Makes a class a codec that scripts then use by name."""

from __future__ import annotations

from collections import defaultdict

import torch

from hipress._library import load_core
from hipress.codecs.typed import LoadedCodec
from hipress.torch.python_codecs.declaration import declaration_of
from hipress.torch.python_codecs.layout import Layout
from hipress.torch.python_codecs.program import Program

#: Sizes at which a class must work before it is registered.
_TRIED = (1, 7, 1000)


def register_codec(kind: type, name: str | None = None, *, text: str | None = None) -> LoadedCodec:
    """Registers a class with `encode(values, state)` and `decode(tensors, shape)` as a codec of this process, and
    returns it as load_codec() does: a text for `codec=`; a call gives it options.

        class Half:
            def encode(self, values, state):
                return values.to(torch.float16)

            def decode(self, tensors, shape):
                return tensors[0].float()

        hp.DistributedOptimizer(optimizer, model.named_parameters(), codec=hp.register_codec(Half))

    Every rank calls it before it uses the name. `values` is a float32 vector, of a whole tensor or of a partition of
    it, on the processor or on the GPU that holds the gradient. docs/extending/python-codec.md has all rules.

    Arguments:
        kind: arguments of its `__init__`, which need defaults, are the codec's options. Its attributes: `states`,
            names of float32 vectors that last; `error_feedback = False`, if HiPress shall keep no residual;
            `max_bytes(count)`, the most bytes of a message's tensors, if their lengths depend on the values.
        name: small letters, digits and underscores; by default the class's name in small letters.
        text: by which ranks notice that they have registered different codecs; by default the class's source.

    A second call for the same class does nothing. Raises InvalidArgument if the class is incomplete, if its functions
    fail on random values, or if another codec has the name.
    """
    declared = declaration_of(kind, name, text)
    layouts: defaultdict[tuple[str, ...], dict[int, Layout]] = defaultdict(dict)

    def configure(texts: dict[str, str]) -> Program:
        return Program(declared, declared.read(texts), layouts[tuple(texts.values())])

    options = declared.described_options()
    trial = configure({option: text for option, text, _ in options})
    for count in _TRIED:
        trial.decoded(trial.tried(torch.linspace(-1.0, 1.0, count)), count)
        trial.bound(count)
    load_core().register_python_codec(
        declared.name,
        summary=declared.summary,
        options=options,
        states=declared.all_states,
        configure=configure,
        fingerprint=declared.fingerprint,
    )
    return LoadedCodec(declared.name)
