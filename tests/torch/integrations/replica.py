# SPDX-License-Identifier: Apache-2.0
"""A replica of test_torchft.py. Its gradient does not depend on its model, so the sum of all steps is known.

python replica.py NUMBER FOLDER [again]
"""

import datetime
import os
import signal
import sys
import time
import zlib
from pathlib import Path

import torch
import torch.distributed as dist
from torchft import Manager, Optimizer

from hipress.torch.integrations.torchft import CompressedGroup, DistributedDataParallel

#: In this step replica 2 is killed, replica 1 cannot apply what the others apply, and all end.
KILLED, SAVED, FAILED, END = 6, 16, 18, 22


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.zeros(300, 200))
        self.vector = torch.nn.Parameter(torch.zeros(7))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return (self.matrix * values).sum() + self.vector.sum()


def wait_for(folder: str, *names: str) -> None:
    while not all(Path(folder, name).exists() for name in names):
        time.sleep(0.05)


def main() -> None:
    number, folder, again = int(sys.argv[1]), sys.argv[2], len(sys.argv) > 3
    limit = datetime.timedelta(seconds=20)
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    net = Net()
    group = CompressedGroup("onebit", timeout=limit, min_compress_bytes=0)
    manager = Manager(
        pg=group,
        min_replica_size=2,
        load_state_dict=net.load_state_dict,
        state_dict=net.state_dict,
        replica_id=f"replica_{number}",
        store_addr="127.0.0.1",
        store_port=store.port,
        rank=0,
        world_size=1,
        timeout=limit,
        connect_timeout=limit,
    )
    model = DistributedDataParallel(manager, net)
    optimizer = Optimizer(manager, torch.optim.SGD(net.parameters(), lr=1.0))
    generator = torch.Generator().manual_seed(10 * number + again)
    given = torch.zeros(300, 200, dtype=torch.float64)
    retried = 0
    ready = Path(folder, f"ready-{number}{'-again' if again else ''}")
    ready.touch()
    wait_for(folder, "ready-0", "ready-1", "ready-2")
    while manager.current_step() < END:
        if manager.current_step() == KILLED + 3:  # two replicas alone would be at the end before the third is back
            wait_for(folder, "ready-2-again")
        values = torch.randn(300, 200, generator=generator)
        optimizer.zero_grad()
        loss = model(values)
        if number == 2 and not again and manager.num_participants() == 3 and manager.current_step() >= KILLED:
            torch.save({"given": given, "state": group.state_dict()}, f"{folder}/lost.pt")
            os.kill(os.getpid(), signal.SIGKILL)  # the others wait for its gradient
        loss.backward()
        step = manager.current_step()
        if number == 1 and step == FAILED and retried == 0:
            retried = 1
            manager.report_error(RuntimeError("the test says so"))
        weight = 1 / manager.num_participants() if manager.is_participating() else 0.0
        optimizer.step()
        if manager.current_step() == step + 1:
            given += values.double() * weight
        if manager.current_step() == SAVED:
            saved = {"given": given.clone(), "model": net.matrix.detach().clone(), "state": group.state_dict()}
            torch.save(saved, f"{folder}/saved-{number}.pt")
    checksum = zlib.crc32(b"".join(each.detach().numpy().tobytes() for each in net.parameters()))
    print(f"replica {number}: checksum {checksum:08x}, dropped {group.dropped}", flush=True)
    manager.shutdown()


if __name__ == "__main__":
    main()
