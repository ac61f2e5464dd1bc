"""A profile as a tree: Python line → operator → sub-operators → kernels."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent
from torch.overrides import TorchFunctionMode

from iterlab.measured import quiet_profile

Operands = dict[tuple[int, str], tuple["Tensor | None", ...]]

_MARK = "python line: "
_BACKWARD = "autograd::engine::evaluate_function: "
_LIBRARIES = tuple(str(Path(file).parent) for file in (torch.__file__, __file__))


@dataclass(frozen=True)
class Tensor:
    """An operand as the profiler saw it; strides in elements."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    def meta(self) -> torch.Tensor:
        """Make a tensor without data that has this layout."""
        return torch.empty_strided(self.sizes, self.strides, dtype=self.dtype, device="meta")

    @property
    def bytes(self) -> int:
        """The bytes of its elements."""
        count = self.dtype.itemsize
        for size in self.sizes:
            count *= size
        return count


@dataclass
class Node:
    """A row of the tree. `kind` is "line", "operator", "backward" (a node of autograd), "kernel"
    (of a device, or iterlab's own) or "range".

    Times are in seconds; `start` from the beginning of the profile, `own` without the children.
    `operands` has the tensor arguments of an operator, None for others. `loop` says how its kernel
    is classified, "" where it has none of its own.
    """

    kind: str
    name: str
    start: float
    seconds: float
    own: float = 0.0
    operands: tuple[Tensor | None, ...] = ()
    loop: str = ""
    parent: Node | None = field(default=None, repr=False)
    children: list[Node] = field(default_factory=list)

    def walk(self) -> Iterator[Node]:
        """Give the node and all below it."""
        yield self
        for child in self.children:
            yield from child.walk()

    def above(self) -> Iterator[Node]:
        """Give what stands above the node, nearest first."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    @property
    def line(self) -> str:
        """The Python line that the node belongs to, "model.py:12", or "" where none is known."""
        for node in (self, *self.above()):
            if node.kind == "line":
                return node.name
        return ""


@dataclass(frozen=True)
class Trace:
    """What a run did: the roots of the tree, its seconds, and why torch.compile split graphs.

    `origin` is the time of the first event, in the profiler's microseconds.
    """

    roots: tuple[Node, ...]
    seconds: float
    origin: float
    graph_breaks: tuple[tuple[str, int], ...]
    profiler: torch.profiler.profile

    def device_events(self) -> list[FunctionEvent]:
        """Give what ran on a GPU."""
        return [event for event in _events(self.profiler) if event.device_type == DeviceType.CUDA]

    def walk(self) -> Iterator[Node]:
        """Give every node."""
        for root in self.roots:
            yield from root.walk()


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


def source_text(line: str) -> str:
    """Give the text of "file.py:12", "" where it cannot be read."""
    path, _, number = line.rpartition(":")
    return linecache.getline(path, int(number)).strip() if number.isdigit() else ""


def short_line(line: str) -> str:
    """Shorten "/some/where/model.py:12" to "model.py:12"."""
    path, _, number = line.rpartition(":")
    return f"{Path(path).name}:{number}"


def _operand(found: Any) -> Tensor | None:
    sizes, dtype = getattr(found, "sizes", None), getattr(found, "dtype", None)
    if sizes is None or not isinstance(dtype, torch.dtype):
        return None
    strides = tuple(found.strides)
    return Tensor(tuple(sizes), strides, dtype) if len(strides) == len(sizes) else None


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
            found[event.correlation_id, event.name] = tuple(map(_operand, inputs))
    return found


def _node(event: FunctionEvent, origin: float, operands: Operands) -> Node:
    start = (event.time_range.start - origin) * 1e-6
    seconds = (event.time_range.end - event.time_range.start) * 1e-6
    name, kind = event.name, "operator" if "::" in event.name else "range"
    if name.startswith(_MARK):
        name, kind = name.removeprefix(_MARK), "line"
    elif name.startswith(_BACKWARD):
        name, kind = name.removeprefix(_BACKWARD).rpartition("::")[2], "backward"
    elif "[" in name and name.startswith("iterlab::"):
        kind = "kernel"
    node = Node(kind, name, start, seconds, event.self_cpu_time_total * 1e-6)
    node.operands = operands.get((event.id, event.name), ())
    children = [_node(child, origin, operands) for child in event.cpu_children]
    children += [
        Node("kernel", kernel.name, start, kernel.duration * 1e-6, kernel.duration * 1e-6)
        for kernel in event.kernels
    ]
    if kind == "backward":  # the node itself is a row of its own below the engine's
        nested = (one.children if one.name.endswith(name) else [one] for one in children)
        children = [one for some in nested for one in some]
    for child in children:
        child.parent = node
    node.children = children
    return node


def _events(profiler: torch.profiler.profile) -> list[FunctionEvent]:
    return list(profiler.events())  # type: ignore[no-untyped-call]


def _tree(events: list[FunctionEvent], origin: float, operands: Operands) -> tuple[Node, ...]:
    top = [
        event
        for event in events
        if event.device_type == DeviceType.CPU and event.cpu_parent is None
    ]
    top.sort(key=lambda event: event.time_range.start)
    return tuple(_node(event, origin, operands) for event in top)


def _graph_breaks() -> dict[str, int]:
    dynamo = sys.modules.get("torch._dynamo.utils")
    return dict(dynamo.counters["graph_break"]) if dynamo is not None else {}


def warm_up(work: Callable[[], object]) -> None:
    """Run `work` as `record` will: what torch.compile makes now is then found again."""
    with _Lines():
        work()


def record(work: Callable[[], object]) -> Trace:
    """Run `work` once under the profiler."""
    before = _graph_breaks()
    with quiet_profile(record_shapes=True) as profiler, _Lines():
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
    breaks = {
        reason: count - before.get(reason, 0)
        for reason, count in _graph_breaks().items()
        if count > before.get(reason, 0)
    }
    events = _events(profiler)
    origin = min((event.time_range.start for event in events), default=0.0)
    roots = _tree(events, origin, _operands_of(profiler))
    end = max((event.time_range.end for event in events), default=origin)
    return Trace(roots, (end - origin) * 1e-6, origin, tuple(breaks.items()), profiler)
