# SPDX-License-Identifier: Apache-2.0
"""The option --device of the programs in this folder."""

from __future__ import annotations

import argparse

import torch

import hipress.torch as hp


def add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--device", choices=("cpu", "cuda"), default="cpu", help="cuda: one GPU for each rank of a host"
    )


def chosen(arguments: argparse.Namespace) -> torch.device:
    """The device of --device. Call it after hp.init(): ranks take the GPUs of their host in turn."""
    if arguments.device == "cuda":
        if not torch.cuda.is_available():
            raise SystemExit("--device cuda: PyTorch finds no GPU here")
        torch.cuda.set_device(hp.local_rank() % torch.cuda.device_count())
    return torch.device(arguments.device)
