"""What this machine's memory gives: the time of a contiguous add with a call's traffic."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import torch

from iterlab.physical import undisturbed
from iterlab.timing import once

# Fewer bytes than this take no time beside the call itself.
LEAST_TRAFFIC = 4096
# Beyond this many bytes the rate no longer depends on the size; a smaller probe is enough.
_LARGEST = 192 * 1024 * 1024
# Rounds of which the fastest counts: what disturbs a machine only ever slows it down. There are at
# least so many, and for at least so many seconds.
_ROUNDS, _SECONDS = 5, 0.02
_CUDA_CALLS = 50
# ATen shares no fewer elements between threads.
_ALONE = 32767


def contiguous_add(traffic: int, device: str = "cpu") -> Callable[[], None]:
    """Make a contiguous float32 add with `traffic` bytes, or with less: those of `probed`."""
    x, y, out = (torch.ones(max(1, probed(traffic) // 12), device=device) for _ in range(3))

    def add() -> None:
        torch.add(x, y, out=out)
        if device.startswith("cuda"):
            torch.cuda.synchronize()

    return add


def probed(traffic: int) -> int:
    """Give the bytes that stand for `traffic`."""
    return min(max(traffic, 12), _LARGEST)


def _cuda_seconds(traffic: int, device: str) -> float:
    """Time adds that follow each other on the device: without what a call takes on the host."""
    x, y, out = (torch.ones(max(1, traffic // 12), device=device) for _ in range(3))
    rounds: list[float] = []
    for _ in range(_ROUNDS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        start.record()
        for _ in range(_CUDA_CALLS):
            torch.add(x, y, out=out)
        end.record()
        end.synchronize()
        rounds.append(start.elapsed_time(end) * 1e-3 / _CUDA_CALLS)
    return min(rounds)


def _add_on_one_thread(traffic: int) -> Callable[[], None]:
    """Make a contiguous float32 add of the CPU with `traffic` bytes that wakes no other thread: on
    a machine with other work, each waits for its turn.
    """
    x, y, out = (torch.ones(max(1, traffic // 12)) for _ in range(3))
    starts = range(0, len(x), _ALONE)
    calls = [[one[start : start + _ALONE] for one in (x, y, out)] for start in starts]

    def add() -> None:
        for x, y, out in calls:
            torch.add(x, y, out=out)

    return add


def _fastest(work: Callable[[], None], calls: int) -> float:
    rounds: list[float] = []
    while len(rounds) < _ROUNDS or sum(rounds) * calls < _SECONDS:
        rounds.append(once(work, calls))
    return min(rounds)


@cache
def _seconds(traffic: int, device: str, threads: int) -> float:
    if device.startswith("cuda"):
        return _cuda_seconds(traffic, device)
    calls = max(1, 2**18 // traffic)
    adds = [contiguous_add(traffic, device)]
    if device == "cpu" and threads > 1:
        adds.append(_add_on_one_thread(traffic))
    return min(_fastest(add, calls) for add in adds)


def add_seconds(traffic: int, device: str = "cpu") -> float:
    """Give the seconds that a contiguous float32 add takes here with `traffic` bytes, on as many
    threads as torch uses, or on one where that is faster.

    It is measured on first use for each power of two, in less than a second, and remembered.
    """
    bytes_moved = max(traffic, LEAST_TRAFFIC)
    near = probed(1 << round(math.log2(bytes_moved)))
    where = "cpu" if device == "meta" else device
    with undisturbed():
        seconds: float = _seconds(near, where, torch.get_num_threads())
    return seconds * bytes_moved / near
