"""A call measured: its time, the kernels that ran by name, page faults and allocations."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent

from iterlab.rate import contiguous_add, probed
from iterlab.timing import Times, once

Call = Callable[[], object]

# Rounds end after this many, or when so many seconds are spent.
_ROUNDS, _SECONDS = 15, 1.0
# The first calls under a profiler pay for its buffers and for memory that it moved.
_PROFILED = 4


@dataclass(frozen=True)
class Measured:
    """What a call took: the median of its rounds in seconds, and half the distance between their
    quartiles as a part of it.

    `kernels` are the innermost rows of a profile of one call, (name, seconds), in order: iterlab's
    own name their path. `page_faults` and `allocated` (bytes) are of one call after others have
    warmed up. `memory_seconds` is what a contiguous add with the call's traffic took in the same
    rounds, None where the traffic is not known.
    """

    seconds: float
    spread: float
    kernels: tuple[tuple[str, float], ...]
    page_faults: int
    allocated: int
    memory_seconds: float | None

    def to_dict(self) -> dict[str, Any]:
        """Give the measurement as plain data, for JSON."""
        return asdict(self)


class _Profile(torch.profiler.profile):
    """Torch's profiler, which does not import Inductor for one of its settings: that takes 2 s."""

    def prepare_trace(self) -> None:
        lazy: set[str] = getattr(torch, "_lazy_modules", set())
        asked = "_inductor" in lazy and "torch._inductor" not in sys.modules
        if asked:
            lazy.remove("_inductor")
        try:
            super().prepare_trace()
        finally:
            if asked:
                lazy.add("_inductor")


def is_profiling() -> bool:
    """Say whether a profiler of torch is active. There is one at most: a second ends the first."""
    return torch.autograd.profiler._is_profiler_enabled


def refuse_nesting() -> None:
    """Raise RuntimeError inside a profile: one of its own would end the one around it."""
    if is_profiling():
        raise RuntimeError("iterlab: expected no active profiler, got a call inside one's block")


def quiet_profile(**options: Any) -> torch.profiler.profile:
    """Make a profiler of the CPU, and of CUDA where there is a device."""
    refuse_nesting()
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    else:  # where no GPU can refuse to be profiled, the profiler's log says when it starts and ends
        os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    return _Profile(activities=activities, acc_events=True, **options)


def _leaves(event: FunctionEvent) -> list[tuple[str, float]]:
    """Give what ran at the bottom of an operator, in order: device kernels where it has any; the
    operator's own time where that is more than a twentieth of it.
    """
    if event.kernels:
        return [(kernel.name, kernel.duration * 1e-6) for kernel in event.kernels]
    leaves = [leaf for child in event.cpu_children for leaf in _leaves(child)]
    if any(name.endswith("]") for name, _ in leaves):  # iterlab names its kernels
        return leaves
    if not leaves or event.self_cpu_time_total > 0.05 * event.cpu_time_total > 1.0:
        leaves.append((event.name, event.self_cpu_time_total * 1e-6))
    return leaves


def kernels_of(call: Call) -> tuple[tuple[tuple[str, float], ...], int]:
    """Run a call a few times under the profiler; give the last's kernels and bytes allocated."""
    with quiet_profile(profile_memory=True) as profiler:
        for _ in range(_PROFILED):
            call()
    events: list[FunctionEvent] = list(profiler.events())
    return last_call(events, _PROFILED)


def last_call(
    events: Sequence[FunctionEvent], calls: int
) -> tuple[tuple[tuple[str, float], ...], int]:
    """Give the kernels and the bytes allocated of the last of some equal calls in a profile.

    A device's kernels are rows beside the operators, without one above them and later than what
    launched them; an operator knows its own, and what was allocated in it.
    """
    top = [
        event
        for event in events
        if event.device_type == DeviceType.CPU and event.cpu_parent is None and "::" in event.name
    ]
    last = top[-(len(top) // calls) :]
    leaves = [leaf for event in last for leaf in _leaves(event)]
    allocated = sum(
        max(0, event.cpu_memory_usage) + max(0, event.device_memory_usage) for event in last
    )
    return tuple(leaf for leaf in leaves if leaf[0] != "iterlab::plan"), int(allocated)


def _page_faults() -> int:
    try:
        from resource import RUSAGE_SELF, getrusage
    except ImportError:  # not a Unix
        return 0
    return getrusage(RUSAGE_SELF).ru_minflt


def measure(call: Call, device: str = "cpu", traffic: int | None = None) -> Measured:
    """Measure a call that moves `traffic` bytes: it runs about twenty times, taking turns with a
    contiguous add. Raises RuntimeError inside a profile.
    """
    refuse_nesting()

    def timed() -> float:
        start = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    for _ in range(3):
        timed()
    before = _page_faults()
    rounds = [timed()]
    faults = _page_faults() - before
    add = contiguous_add(traffic, device) if traffic else None
    adds = [once(add)] if add is not None else []
    while len(rounds) < _ROUNDS and sum(rounds) + sum(adds) < _SECONDS:
        rounds.append(timed())
        if add is not None:
            adds.append(once(add))
    kernels, allocated = kernels_of(call)
    times = Times(tuple(rounds))
    memory = None
    if traffic and adds:
        memory = Times(tuple(adds)).median * traffic / probed(traffic)
    return Measured(times.median, times.spread, kernels, faults, allocated, memory)
