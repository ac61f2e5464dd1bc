"""Timing: peers take turns, so that what disturbs the machine disturbs all of them."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch

Work = Callable[[], object]

# A median whose rounds spread by more than this part of it says little.
UNSTEADY = 0.5


@dataclass(frozen=True)
class Times:
    """Times of one peer, in seconds a call, one for each round."""

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        """The median, in seconds."""
        return statistics.median(self.rounds)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a part of the median."""
        if len(self.rounds) < 2:
            return 0.0
        first, _, third = statistics.quantiles(self.rounds, n=4, method="inclusive")
        return (third - first) / 2 / self.median


def once(work: Work, calls: int = 1) -> float:
    """Time one round of `calls` calls; seconds a call."""
    start = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - start) / calls


def interleaved(
    peers: Mapping[str, Work], rounds: int = 7, least: float = 0.002, most: float = 2.0
) -> dict[str, Times]:
    """Time peers that take turns.

    After a call that warms up, each of `rounds` rounds runs every peer once, or as often as it
    takes to last `least` seconds. A peer that has taken more than `most` seconds in all sits out.
    A turn begins with two calls that are not timed, so that the caches hold what the peer itself
    leaves there, and each round has an order of its own: of operands that a large cache holds, each
    reading in a row is faster than the one before, whoever reads.
    """
    seconds, spent, times = {}, dict.fromkeys(peers, 0.0), {name: [] for name in peers}  # type: ignore[var-annotated]
    for name, work in peers.items():
        first = once(work)  # warms up; a short one is timed again
        seconds[name] = first if first > 10 * least else once(work)
    orders = random.Random(0)
    for _ in range(rounds):
        for name, work in orders.sample(list(peers.items()), len(peers)):
            if spent[name] > most:
                continue
            if seconds[name] < 10 * least:
                work()
                work()
            calls = max(1, int(least / max(seconds[name], 1e-9)))
            taken = once(work, calls)
            spent[name] += taken * calls
            times[name].append(taken)
    return {name: Times(tuple(rounds_of)) for name, rounds_of in times.items()}


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run torch, and so iterlab, on `count` threads inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
