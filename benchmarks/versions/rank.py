# SPDX-License-Identifier: Apache-2.0
"""A rank of versions.py. It uses only functions that all versions of HiPress have, and runs in one environment."""

import json
import socket
import sys
import time

import torch

import hipress.torch as hp

#: Number of synchronisations before the first turn.
WARM_UPS = 50


def main() -> None:
    given = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    hp.init()
    sets = {}
    for size in given["sizes"]:
        names = [f"{size} bytes, {at}" for at in range(given["tensors"])]
        sets[size] = [(name, torch.ones(max(size // 4, 1))) for name in names]

    def average(size: int) -> None:
        for operation in [hp.allreduce_async_(tensor, name=name, codec=given["codec"]) for name, tensor in sets[size]]:
            operation.wait()

    for size in sets:
        for _ in range(WARM_UPS):
            average(size)
    peer = socket.create_connection(("127.0.0.1", given["port"])).makefile("rw") if hp.rank() == 0 else None
    while True:
        # Rank 0 reads the size, and rank 1 waits for it without using a processor.
        size = int(peer.readline() or 0) if peer else 0
        size = int(hp.broadcast(torch.tensor([size]), 0, name="size").item())
        if size == 0:
            return
        average(size)
        wall, processor = time.perf_counter(), time.process_time()
        for _ in range(given["repeats"]):
            average(size)
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        of_both = hp.allreduce(torch.tensor([processor], dtype=torch.float64), name="processor time").item() * hp.size()
        if peer:
            peer.write(json.dumps([wall / given["repeats"], of_both / given["repeats"]]) + "\n")
            peer.flush()


if __name__ == "__main__":
    main()
