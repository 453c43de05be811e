"""What the jobs of check.py run: each a few lines that do one thing to a card or to its host.

usage: programs.py seen            what card this process sees
       programs.py hold MIB        takes so much of the card and keeps it
       programs.py tree MIB        eight children, each its own session and re-parented, each with so much of the card
       programs.py eat MIB         takes so much of the host's memory
       programs.py steady SECONDS  computes on the card for so long
"""
import json
import os
import sys
import time

MIB = 2**20


def report(result):
    path = os.environ.get("SWEEP_REPORT")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps({"result": result}) + "\n")


def take(mib):
    import torch

    block = torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")
    block.fill_(1)
    torch.cuda.synchronize()
    return block


def seen():
    import torch

    card = torch.cuda.get_device_properties(0)
    report({
        "visible": os.environ.get("CUDA_VISIBLE_DEVICES"),
        "uuid": f"GPU-{card.uuid}",
        "cards": torch.cuda.device_count(),
    })


def hold(mib):
    block = take(mib)
    print("held", block.numel() // MIB, flush=True)
    time.sleep(3600)


def tree(mib):
    for _ in range(8):
        if os.fork() == 0:
            os.setsid()
            # The parent of the one that stays ends at once: the system becomes its parent.
            if os.fork() > 0:
                os._exit(0)
            hold(mib)
    time.sleep(3600)


def eat(mib):
    kept = []
    for _ in range(mib // 64):
        kept.append(bytearray(os.urandom(1)) * (64 * MIB))
        print(len(kept) * 64, flush=True)
    time.sleep(2)
    report({"mib": mib})


def steady(seconds):
    import torch

    one = torch.rand(1024, 1024, device="cuda")
    end, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        (one @ one).sum().item()
        rounds += 1
    report({"rounds": rounds})


if __name__ == "__main__":
    globals()[sys.argv[1]](*map(int, sys.argv[2:]))
