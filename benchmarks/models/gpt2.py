# SPDX-License-Identifier: Apache-2.0
"""GPT-2 small (Radford et al.) with the names of Hugging Face's GPT2Model.

The head that predicts tokens shares the weights of the embedding, so it adds no tensor; the loss uses it.
"""

from __future__ import annotations

import torch
from torch import nn

_WIDTH = 768
_HEADS = 12
_TOKENS = 128
_VOCABULARY = 50257


class _Projection(nn.Module):
    """A layer whose weight has the shape (inputs, outputs), as in GPT-2."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) * 0.02)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        flat = torch.addmm(self.bias, values.reshape(-1, values.shape[-1]), self.weight)
        return flat.view(*values.shape[:-1], -1)


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_attn = _Projection(_WIDTH, 3 * _WIDTH)
        self.c_proj = _Projection(_WIDTH, _WIDTH)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        batch, tokens, _ = values.shape
        parts = self.c_attn(values).split(_WIDTH, dim=2)
        query, key, value = (part.view(batch, tokens, _HEADS, -1).transpose(1, 2) for part in parts)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        result: torch.Tensor = self.c_proj(mixed.transpose(1, 2).reshape(values.shape))
        return result


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(_WIDTH)
        self.attn = _Attention()
        self.ln_2 = nn.LayerNorm(_WIDTH)
        self.mlp = nn.ModuleDict({"c_fc": _Projection(_WIDTH, 4 * _WIDTH), "c_proj": _Projection(4 * _WIDTH, _WIDTH)})

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        values = values + self.attn(self.ln_1(values))
        hidden = nn.functional.gelu(self.mlp["c_fc"](self.ln_2(values)), approximate="tanh")
        result: torch.Tensor = values + self.mlp["c_proj"](hidden)
        return result


class Gpt2(nn.Module):
    """The model. Its input is token numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.wte = nn.Embedding(_VOCABULARY, _WIDTH)
        self.wpe = nn.Embedding(1024, _WIDTH)
        self.h = nn.Sequential(*(_Block() for _ in range(12)))
        self.ln_f = nn.LayerNorm(_WIDTH)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The scores of the next token."""
        values = self.ln_f(self.h(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))))
        result: torch.Tensor = values @ self.wte.weight.t()
        return result


def loss(model: nn.Module, batch: int) -> torch.Tensor:
    """The loss of random texts of 128 tokens."""
    tokens = torch.randint(_VOCABULARY, (batch, _TOKENS + 1))
    scores = model(tokens[:, :-1])
    return nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
