"""A profile as a tree: Python line → operator → sub-operators → kernels."""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import torch
from torch._C._autograd import DeviceType
from torch.autograd.profiler_util import FunctionEvent


@dataclass(frozen=True)
class Tensor:
    """An operand as the profiler saw it; strides in elements, `device` is "cpu" or "cuda". Tensors
    with one `id` are one tensor, at whichever time; it is None where the profiler does not know.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype
    device: str = "cpu"
    id: int | None = None

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
    (of a device, or iterlab's own), "compiling" (torch.compile at work) or "range".

    Times are in seconds; `start` from the beginning of the profile, `own` without the children.
    `operands` has the tensor arguments of an operator, those of lists one by one, None for others.
    `loop` says how its kernel is classified, "" where it has none of its own. `forward` is the
    Python line that a node of autograd is the backward of, `launch` a device kernel's grid and
    block; "" where they are not known.
    """

    kind: str
    name: str
    start: float
    seconds: float
    own: float = 0.0
    operands: tuple[Tensor | None, ...] = ()
    loop: str = ""
    forward: str = ""
    launch: str = ""
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

    @cached_property
    def on_device(self) -> float:
        """The seconds that kernels of a device took in the node and all below it."""
        own = self.kind == "kernel" and not self.name.startswith("iterlab::")
        return self.seconds if own else sum(child.on_device for child in self.children)

    @cached_property
    def compiling(self) -> float:
        """The seconds that torch.compile took to make kernels in the node and all below it."""
        if self.kind == "compiling":
            return self.seconds
        return sum(child.compiling for child in self.children)

    @property
    def line(self) -> str:
        """The Python line that the node belongs to, "model.py:12", or "" where none is known: of a
        backward, the line that it is the backward of.
        """
        for node in (self, *self.above()):
            if node.forward or node.kind == "line":
                return node.forward or node.name
        return ""


@dataclass(frozen=True)
class GraphBreak:
    """The Python line where torch.compile split a graph, and why."""

    line: str
    reason: str


@dataclass(frozen=True)
class Trace:
    """What a run did: the roots of the tree, its seconds, and why torch.compile split graphs.

    `origin` is the time of the first event, in the profiler's microseconds. `tells_memory` says
    whether tensors of one `id` are one tensor, and not several at one address, one after another.
    `unseen_threads` counts threads that the run started and the profiler did not see.
    """

    roots: tuple[Node, ...]
    seconds: float
    origin: float
    graph_breaks: tuple[GraphBreak, ...]
    profiler: torch.profiler.profile
    tells_memory: bool = True
    unseen_threads: int = 0

    @cached_property
    def compiling(self) -> float:
        """The seconds that torch.compile took to make its kernels."""
        return sum(root.compiling for root in self.roots)

    @cached_property
    def work(self) -> float:
        """The seconds in operators and kernels: without compilation, imports and plain Python."""
        return sum(root.seconds for root in self.roots) - self.compiling

    @cached_property
    def on_device(self) -> float:
        """The seconds that kernels of a device took."""
        return sum(root.on_device for root in self.roots)

    def device_events(self) -> list[FunctionEvent]:
        """Give what ran on a GPU; ranges that a program names are no work."""
        return [
            event
            for event in events_of(self.profiler)
            if event.device_type == DeviceType.CUDA
            and not getattr(event, "is_user_annotation", False)
        ]

    def walk(self) -> Iterator[Node]:
        """Give every node."""
        for root in self.roots:
            yield from root.walk()


def source_text(line: str) -> str:
    """Give the text of "file.py:12", "" where it cannot be read."""
    path, _, number = line.rpartition(":")
    return linecache.getline(path, int(number)).strip() if number.isdigit() else ""


def short_line(line: str) -> str:
    """Shorten "/some/where/model.py:12" to "model.py:12"."""
    path, _, number = line.rpartition(":")
    return f"{Path(path).name}:{number}"


def events_of(profiler: torch.profiler.profile) -> list[FunctionEvent]:
    """Give what ran; a profile of memory has a row for each allocation as well."""
    events: list[FunctionEvent] = list(profiler.events())  # type: ignore[no-untyped-call]
    return [event for event in events if event.name != "[memory]"]
