"""What a profile should make one look at: hidden copies, slow paths, gaps, graph breaks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from iterlab.classify import COPY, RAISED, REDUCTION, SCALAR, STRIDED, UNROLLED, VIEW, Twin, twin
from iterlab.copies import Rereads, describe, layout_text
from iterlab.planning import dtype_name
from iterlab.rate import add_seconds
from iterlab.trace import Node, Trace
from iterlab.units import shape_text, time_text

# A finding below this part of the run is not worth a look.
_LEAST_SHARE = 0.00001
# A reduction, or a kernel without vectors, that reaches less than this part of the memory rate is
# slow.
_SLOW_SHARE = 0.25
# A smaller one takes as long as its call.
_LEAST_TRAFFIC = 2**20
# Launching takes a device about this long; only longer gaps are the host's.
_GAP_SECONDS = 10e-6


@dataclass(frozen=True)
class Finding:
    """One thing to look at. `kind` is "hidden copy", "repeated copy", "copy", "slow path",
    "no kernel", "gaps", "graph break", "compiling" or "threads"; `seconds` is what it took in all
    `count` times; `advice` is what to change.
    """

    kind: str
    line: str
    what: str
    advice: str
    seconds: float
    count: int = 1

    def __str__(self) -> str:
        times = f", {self.count} times" if self.count > 1 else ""
        took = f" ({time_text(self.seconds)}{times})" if self.seconds else times
        return f"{self.kind}: {self.what}{took}"


def _seconds(node: Node) -> float:
    """Give what a node took: on a device where it has kernels there."""
    return node.on_device or node.seconds


def _own_seconds(node: Node) -> float:
    """Give what a node took itself: a cast that it calls is a copy, which is found on its own."""
    return node.on_device or node.own or node.seconds


def _copy(node: Node, rereads: Rereads) -> Finding | None:
    found = describe(node, rereads)
    if found is None:
        return None
    return Finding(found.kind, node.line, found.what, found.advice, _seconds(node))


def _operands(node: Node) -> str:
    return ", ".join(
        f"{dtype_name(one.dtype)}{shape_text(one.sizes)} {layout_text(one)}"
        for one in node.operands
        if one is not None and one.sizes and 0 not in one.sizes
    )


def _own_call(node: Node, found: Twin) -> str:
    """Name iterlab's operator that does the same."""
    inplace = "_" if node.name.endswith("_") else ""
    return f"call iterlab.{found.facts.op}{inplace}"


def _allowed(node: Node, found: Twin) -> float:
    """Give the seconds that memory allows for the call."""
    return add_seconds(found.facts.bytes, _device(node))


def _device(node: Node) -> str:
    return "cuda" if any(one and one.device == "cuda" for one in node.operands) else "cpu"


def _slow_loop(node: Node, loop: str, seconds: float) -> Finding:
    """Describe an operator that runs a slow loop for `seconds`."""
    found = twin(node)
    why = found.loop.why if found is not None and found.loop is not None else "operands differ"
    what = f"`{node.name}` runs {loop}, because {why}: {_operands(node)}"
    if node.line and any(one.kind == "backward" for one in node.above()):
        what += ", in the backward of this line"
    advice = "give its operands one layout and dtype"
    if found is not None:
        best = time_text(_allowed(node, found))
        advice += f", or {_own_call(node, found)}; memory allows {best} a call"
    return Finding("slow path", node.line, what, advice, seconds)


def _far_from_memory(nodes: Iterable[Node]) -> Iterator[Finding]:
    """Find calls that are far from what memory allows, by the fastest of equal ones: others may
    have been the first, or disturbed.
    """
    groups: dict[tuple[str, str, str], list[Node]] = {}
    for node in nodes:
        groups.setdefault((node.line, node.name, _operands(node)), []).append(node)
    for (line, name, operands), group in groups.items():
        found = twin(group[0])
        if found is None or found.facts.bytes < _LEAST_TRAFFIC:
            continue
        fastest = min(map(_own_seconds, group))
        best = _allowed(group[0], found)
        if best < _SLOW_SHARE * fastest:
            why = "" if found.loop is None else f", because {found.loop.why}"
            what = f"`{name}` takes at least {time_text(fastest)} a call{why}: {operands}"
            advice = f"{_own_call(group[0], found)}; memory allows {time_text(best)} a call"
            seconds = sum(map(_own_seconds, group))
            yield Finding("slow path", line, what, advice, seconds, len(group))


def _of_kernel(node: Node) -> Finding | None:
    """Judge a kernel of a device; a copy is judged by its operator."""
    parent = node.parent
    if parent is None:
        return None
    if node.loop in (STRIDED, UNROLLED):
        return _slow_loop(parent, node.loop, node.seconds)
    if node.loop == COPY and ("Nhwc" in node.name or "nhwc" in node.name):
        what = f"layout copy between NCHW and NHWC of {_operands(parent)}, by the vendor's library"
        advice = "give input and weight one layout: .to(memory_format=torch.channels_last)"
        return Finding("hidden copy", node.line, what, advice, node.seconds)
    return None


def _of_nodes(trace: Trace) -> Iterator[Finding]:
    rereads = Rereads(trace)
    for node in trace.walk():
        found = None
        if node.kind == "kernel":
            found = _of_kernel(node)
        elif node.loop == RAISED:
            continue
        elif node.loop == COPY or (node.name in ("aten::copy_", "aten::cat") and node.loop != VIEW):
            found = _copy(node, rereads)
        elif node.loop in (STRIDED, UNROLLED):
            found = _slow_loop(node, node.loop, _own_seconds(node))
        if found is not None:
            yield found
    slow = (node for node in trace.walk() if node.loop in (REDUCTION, SCALAR))
    yield from _far_from_memory(
        node.parent if node.kind == "kernel" and node.parent else node for node in slow
    )


def _gaps(trace: Trace) -> Iterator[Finding]:
    """Find where the device waits for the host."""
    device = sorted(
        (event.time_range.start, event.time_range.end) for event in trace.device_events()
    )
    gaps = [
        (after[0] - before[1]) * 1e-6
        for before, after in pairwise(device)
        if (after[0] - before[1]) * 1e-6 > _GAP_SECONDS
    ]
    if gaps:
        yield Finding(
            "gaps",
            "",
            f"the device waits between kernels, longest {time_text(max(gaps))}",
            "fewer, larger calls: torch.compile, CUDA graphs, or out= and in-place variants",
            sum(gaps),
            len(gaps),
        )


def _views(trace: Trace) -> Iterator[Finding]:
    views = [node for node in trace.walk() if node.loop == VIEW]
    if views:
        seconds = sum(node.seconds for node in views)
        what = "operators that only make views; they launch nothing"
        yield Finding(
            "no kernel", "", what, "nothing: they cost the host's time alone", seconds, len(views)
        )


def _merged(found: Iterable[Finding]) -> list[Finding]:
    merged: dict[tuple[str, str, str], Finding] = {}
    for one in found:
        key = (one.kind, one.line, one.what)
        before = merged.get(key)
        merged[key] = (
            one
            if before is None
            else replace(
                before, seconds=before.seconds + one.seconds, count=before.count + one.count
            )
        )
    return list(merged.values())


def _graph_breaks(trace: Trace) -> Iterator[Finding]:
    for one in trace.graph_breaks:
        what = f"torch.compile splits a graph here: {one.reason}"
        advice = "keep such code out of the compiled function; TORCH_LOGS=graph_breaks says more"
        yield Finding("graph break", one.line, what, advice, 0.0)


def _compiling(trace: Trace) -> Iterator[Finding]:
    count = sum(node.kind == "compiling" for node in trace.walk())
    if count:
        what = "torch.compile makes its kernels; the other times here are without it"
        advice = "nothing the first time; where it goes on, TORCH_LOGS=recompiles says why"
        yield Finding("compiling", "", what, advice, trace.compiling, count)


def _threads(trace: Trace) -> Iterator[Finding]:
    count = trace.unseen_threads
    if count:
        threads = "a thread, and what it" if count == 1 else f"{count} threads, and what they"
        what = f"the code started {threads} ran is not in this profile"
        advice = "iterlab profile --all-threads has it, but tells no repeated copies"
        yield Finding("threads", "", what, advice, 0.0)


def findings(trace: Trace) -> list[Finding]:
    """Find what to look at in a classified trace, what took longest first."""
    merged = _merged(_of_nodes(trace))
    large = [one for one in merged if one.seconds > _LEAST_SHARE * trace.work]
    large.sort(key=lambda one: -one.seconds)
    rest = (_threads(trace), _graph_breaks(trace), _gaps(trace), _compiling(trace), _views(trace))
    return [*large, *(one for some in rest for one in some)]
