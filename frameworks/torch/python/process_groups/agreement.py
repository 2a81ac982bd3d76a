# SPDX-License-Identifier: Apache-2.0
"""Whether the ranks of a process group have been given the same: found before the first step, with the difference."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

import torch

from hipress.errors import HipressError, Mismatch, TransportError
from hipress.torch.process_groups.group_calls import Group, gather_all

CPU = torch.device("cpu")


def check_alike(group: Group, text: str, device: torch.device = CPU) -> None:
    """Raises Mismatch, on all ranks of the group, with the first line in which a rank's text differs from rank 0's.

    `device`: of the tensors that the group takes.

    Raises TransportError if a rank of the group does not take part, within the group's timeout.
    """
    try:
        _check_alike(group, text, device)
    except HipressError:
        raise
    except RuntimeError as error:  # what torch makes of Gloo's errors
        raise TransportError(
            f"rank {group.rank()} of a process group of {group.size()} ranks could not compare its arguments with the "
            f"others': all ranks must make the same call, with a group of the same ranks, within the group's timeout: "
            f"{error}"
        ) from error


def agreeing(group: Group, device: torch.device = CPU) -> Callable[[Mapping[str, str]], None]:
    """A function that raises Mismatch, on all ranks of the group, with the first value that a rank has differently."""
    return lambda values: check_alike(group, "\n".join(f"{key}: {value}" for key, value in values.items()), device)


def _check_alike(group: Group, text: str, device: torch.device) -> None:
    digest = torch.frombuffer(bytearray(hashlib.sha256(text.encode()).digest()), dtype=torch.uint8)
    digests = gather_all(group, digest.to(device))
    if all(torch.equal(digests[0], other) for other in digests):
        return
    texts = gather_texts(group, text, device)
    for rank, other in enumerate(texts):
        if other != texts[0]:
            raise Mismatch(f"rank {rank} of the process group differs from rank 0: {_difference(other, texts[0])}")


def gather_texts(group: Group, text: str, device: torch.device = CPU) -> list[str]:
    """All ranks' texts, in their order."""
    own = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8)
    sizes = gather_all(group, torch.tensor([own.numel()], device=device))
    padded = torch.zeros(int(max(sizes)), dtype=torch.uint8)
    padded[: own.numel()] = own
    padded = padded.to(device)
    return [bytes(one[: int(n)].tolist()).decode() for one, n in zip(gather_all(group, padded), sizes, strict=True)]


def _difference(text: str, reference: str) -> str:
    lines, others = text.splitlines(), reference.splitlines()
    for line, other in zip(lines, others, strict=False):
        if line != other:
            return f"it has '{line}' where rank 0 has '{other}'"
    longer = lines[len(others) :] or others[len(lines) :]
    return f"only one of the two has '{longer[0]}'"
