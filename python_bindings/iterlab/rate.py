"""What this machine's memory gives: the time of a contiguous add with a call's traffic."""

from __future__ import annotations

import math
from functools import cache

import torch

from iterlab.physical import undisturbed
from iterlab.timing import once

# Beyond this many bytes the rate no longer depends on the size; a smaller probe is enough.
_LARGEST = 192 * 1024 * 1024
# Rounds of which the fastest counts: what disturbs a machine only ever slows it down.
_ROUNDS = 5


@cache
def _probe(traffic: int, device: str, threads: int) -> float:
    count = max(1, traffic // 12)
    x, y, out = (torch.ones(count, device=device) for _ in range(3))
    calls = max(1, 2**22 // traffic)

    def work() -> None:
        for _ in range(calls):
            torch.add(x, y, out=out)
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    return min(once(work) for _ in range(_ROUNDS)) / calls


def add_seconds(traffic: int, device: str = "cpu") -> float:
    """Give the seconds that a contiguous float32 add takes here with `traffic` bytes, on as many
    threads as torch uses.

    It is measured on first use for each power of two, in less than a second, and remembered.
    """
    near = 1 << round(math.log2(max(traffic, 4096)))
    probed = min(near, _LARGEST)
    where = "cpu" if device == "meta" else device
    with undisturbed():
        seconds: float = _probe(probed, where, torch.get_num_threads())
    return seconds * max(traffic, 4096) / probed
