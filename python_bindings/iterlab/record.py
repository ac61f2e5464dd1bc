"""Records a run under torch's profiler, and makes its tree."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch._C._profiler import _ExperimentalConfig
from torch.autograd.profiler_util import FunctionEvent
from torch.overrides import TorchFunctionMode

from iterlab.measured import is_profiling, quiet_profile
from iterlab.trace import GraphBreak, Node, Tensor, Trace, events_of

Operands = dict[tuple[int, str], tuple[Tensor | None, ...]]
Thread = tuple[int, int | None]

_MARK = "python line: "
_BACKWARD = "autograd::engine::evaluate_function: "
_COMPILING = ("dynamo", "entire_frame_compile")
_LIBRARIES = tuple(str(Path(file).parent) for file in (torch.__file__, __file__))


def _user_line() -> str:
    """Give the line of the nearest frame outside torch and iterlab."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(
        (*_LIBRARIES, "<frozen")
    ):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class _Lines(TorchFunctionMode):
    """Names the Python line of each call as a range around it."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        # Dynamo reads this as a call and nothing else.
        if torch.compiler.is_compiling():
            return func(*args, **(kwargs or {}))
        with torch._C._profiler._RecordFunctionFast(_MARK + _user_line()):
            return func(*args, **(kwargs or {}))


def _operand(found: Any) -> Tensor | None:
    sizes, dtype = getattr(found, "sizes", None), getattr(found, "dtype", None)
    if sizes is None or not isinstance(dtype, torch.dtype):
        return None
    strides = tuple(found.strides)
    if len(strides) != len(sizes):
        return None
    return Tensor(tuple(sizes), strides, dtype, found.device.type, found.id)


def _flat(inputs: Iterable[Any]) -> Iterator[Any]:
    for one in inputs:
        yield from one if isinstance(one, list) else (one,)


def _operands_of(profiler: torch.profiler.profile) -> Operands:
    """Give the operands that kineto saw, by event: strides are not in torch's own event list."""
    found: Operands = {}
    assert profiler.profiler is not None and profiler.profiler.kineto_results is not None
    pending = list(profiler.profiler.kineto_results.experimental_event_tree())
    while pending:
        event = pending.pop()
        pending += event.children
        inputs = getattr(event.extra_fields, "inputs", None)
        if inputs:
            found[event.correlation_id, event.name] = tuple(map(_operand, _flat(inputs)))
    return found


def _launches(profiler: torch.profiler.profile) -> dict[tuple[int, str], list[str]]:
    """Give the grid and block of device kernels in order, by the event that launched them and name.

    Before torch 2.13, a profile tells neither.
    """
    assert profiler.profiler is not None and profiler.profiler.kineto_results is not None
    found: dict[tuple[int, str], list[str]] = {}
    for event in profiler.profiler.kineto_results.events():
        if event.device_type() == DeviceType.CUDA and hasattr(event, "metadata_json"):
            shape = launch_text(event.metadata_json())
            found.setdefault((event.linked_correlation_id(), event.name()), []).append(shape)
    return found


def launch_text(metadata: str) -> str:
    """Give what "grid": [128, 1, 1], "block": [256, 1, 1] says as "grid 128, block 256"."""
    sizes = {
        what: " × ".join(size for size in text.replace(" ", "").split(",") if size != "1") or "1"
        for what, text in re.findall(r'"(grid|block)"\s*:\s*\[([\d, ]+)\]', metadata)
    }
    return ", ".join(f"{what} {sizes[what]}" for what in ("grid", "block") if what in sizes)


def _forward_lines(events: Iterable[FunctionEvent]) -> dict[Thread, str]:
    """Give the Python line of each autograd node by its sequence number and thread: that of the
    last operator that has them, which is the one that made the node.
    """
    last: dict[Thread, FunctionEvent] = {}
    for event in events:
        forward = event.scope == 0 and not event.name.startswith(_BACKWARD)
        if event.device_type != DeviceType.CPU or event.sequence_nr < 0 or not forward:
            continue
        before = last.setdefault((event.sequence_nr, event.thread), event)
        if event.time_range.start >= before.time_range.start:
            last[event.sequence_nr, event.thread] = event
    return {thread: _line_around(event) for thread, event in last.items()}


def _line_around(event: FunctionEvent) -> str:
    around: FunctionEvent | None = event
    while around is not None and not around.name.startswith(_MARK):
        around = around.cpu_parent
    return "" if around is None else around.name.removeprefix(_MARK)


class _Nodes:
    """Makes the tree of a profile."""

    def __init__(self, profiler: torch.profiler.profile, events: list[FunctionEvent]) -> None:
        self.origin = min((event.time_range.start for event in events), default=0.0)
        self.operands = _operands_of(profiler)
        self.launches = _launches(profiler)
        self.forward = _forward_lines(events)

    def node(self, event: FunctionEvent) -> Node:
        start = (event.time_range.start - self.origin) * 1e-6
        seconds = (event.time_range.end - event.time_range.start) * 1e-6
        name, kind = event.name, "operator" if "::" in event.name else "range"
        if name.startswith(_MARK):
            name, kind = name.removeprefix(_MARK), "line"
        elif name.startswith(_BACKWARD):
            name, kind = name.removeprefix(_BACKWARD).rpartition("::")[2], "backward"
        elif "[" in name and name.startswith("iterlab::"):
            kind = "kernel"
        elif name in _COMPILING or name.endswith("(dynamo_timed)"):
            return Node("compiling", "torch.compile compiles", start, seconds, seconds)
        node = Node(kind, name, start, seconds, event.self_cpu_time_total * 1e-6)
        node.operands = self.operands.get((event.id, event.name), ())
        if kind == "backward":
            node.forward = self.forward.get((event.sequence_nr, event.fwd_thread), "")
        node.children = self.children(event, node)
        return node

    def line_around(self, event: FunctionEvent) -> Node:
        """Put a range, such as an optimizer's step, below its Python line, where all that runs in
        it is of that line.
        """
        inside = self.node(event)
        names = {one.name for one in inside.children if one.kind == "line"}
        if inside.kind != "range" or len(names) != 1:
            return inside
        line = Node("line", names.pop(), inside.start, inside.seconds)
        line.children, inside.parent = [inside], line
        nested = (one.children if one.kind == "line" else [one] for one in inside.children)
        inside.children = [one for some in nested for one in some]
        for child in inside.children:
            child.parent = inside
        return line

    def children(self, event: FunctionEvent, node: Node) -> list[Node]:
        # What has the operator's own id is the profiler's work ("Activity Buffer Request"), and has
        # the operator's kernels once more.
        children = [self.node(child) for child in event.cpu_children if child.id != event.id]
        for kernel in event.kernels:
            seconds = kernel.duration * 1e-6
            found = Node("kernel", kernel.name, node.start, seconds, seconds)
            launches = self.launches.get((event.id, kernel.name))
            found.launch = launches.pop(0) if launches else ""
            children.append(found)
        if node.kind == "backward":  # the node itself is a row of its own below the engine's
            nested = (one.children if one.name.endswith(node.name) else [one] for one in children)
            children = [one for some in nested for one in some]
        for child in children:
            child.parent = node
        return children


def _graph_breaks() -> list[tuple[str, str]]:
    """Give the Python line and the reason of each graph break of this process so far."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    if dynamo is None:
        return []
    breaks = []
    for one in dynamo.graph_break_reasons:
        frames = [frame for frame in one.user_stack if not frame.filename.startswith(_LIBRARIES)]
        if frames:  # others are breaks of the mode that names lines, which runs between graphs
            line = f"{frames[-1].filename}:{frames[-1].lineno}"
            breaks.append((line, one.reason.strip().splitlines()[0]))
    return breaks


@contextmanager
def _started_threads() -> Iterator[list[str]]:
    """Collect the names of the threads that start inside the block, but for those of torch."""
    names: list[str] = []
    start = threading.Thread.start

    def noted(thread: threading.Thread) -> None:
        if not sys._getframe(1).f_code.co_filename.startswith(_LIBRARIES):
            names.append(thread.name)
        start(thread)

    threading.Thread.start = noted  # type: ignore[assignment, method-assign]
    try:
        yield names
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


def _schedules() -> dict[int | None, str]:
    """What Linux counts of each other thread, daemons left out: it stays while a thread waits."""
    own = (threading.current_thread(), threading.main_thread())
    found = {}
    for one in threading.enumerate():
        if not (one.daemon or one in own):
            with suppress(OSError):  # the thread has ended, or the system is another
                path = Path(f"/proc/self/task/{one.native_id}/schedstat")
                found[one.native_id] = path.read_text()
    return found


def warm_up(work: Callable[[], object]) -> bool:
    """Run `work` as `record` will: what torch.compile makes now is then found again. Say whether
    other threads may have a part in the work: threads that it starts, or those of a pool that ran.
    """
    before = _schedules()
    with _Lines(), _started_threads() as started:
        work()
    after = _schedules()
    return bool(started) or any(after.get(one) != text for one, text in before.items())


def _breaks_since(before: int) -> tuple[GraphBreak, ...]:
    # One break may come up twice: where it happens, and where the rest of the function starts.
    reasons: dict[str, set[str]] = {}
    for line, reason in _graph_breaks()[before:]:
        reasons.setdefault(line, set()).add(reason)
    return tuple(GraphBreak(line, ", ".join(sorted(some))) for line, some in reasons.items())


def read(profiler: torch.profiler.profile, breaks: tuple[GraphBreak, ...] = ()) -> Trace:
    """Make the tree of what a profiler recorded."""
    events = events_of(profiler)
    nodes = _Nodes(profiler, events)
    top = [one for one in events if one.device_type == DeviceType.CPU and one.cpu_parent is None]
    top.sort(key=lambda event: event.time_range.start)
    end = max((event.time_range.end for event in events), default=nodes.origin)
    roots = tuple(nodes.line_around(event) for event in top)
    return Trace(roots, (end - nodes.origin) * 1e-6, nodes.origin, breaks, profiler)


def record(work: Callable[[], object], all_threads: bool = False) -> Trace:
    """Run `work` once under the profiler. Raises RuntimeError where it runs a profiler of its own:
    that ends this one, and nothing is left of what ran before.

    A profile of all threads has no memory: it doesn't tell tensors apart that had one address.
    """
    before = len(_graph_breaks())
    profiler = quiet_profile(
        record_shapes=True,
        profile_memory=not all_threads,
        experimental_config=_ExperimentalConfig(profile_all_threads=all_threads),
    )
    with profiler, _Lines(), _started_threads() as started:
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        complete = is_profiling()
    if not complete:
        raise RuntimeError(
            "iterlab: expected work without a profiler of its own: what it ran, such as "
            "torch.profiler, ended this profile, and nothing of it is left"
        )
    unseen = 0 if all_threads else len(started)
    trace = read(profiler, _breaks_since(before))
    return replace(trace, tells_memory=not all_threads, unseen_threads=unseen)
