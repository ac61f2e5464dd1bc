"""What a profile should make one look at: hidden copies, slow paths, gaps, graph breaks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from iterlab.classify import COPY, REDUCTION, STRIDED, UNROLLED, VIEW, cpu_loop
from iterlab.planning import dtype_name
from iterlab.rate import add_seconds
from iterlab.trace import Node, Trace
from iterlab.units import bytes_text, shape_text, time_text

# A finding below this part of the run is not worth a look.
_LEAST_SHARE = 0.0001
# A reduction that reaches less than this part of the memory rate is slow.
_SLOW_SHARE = 0.25
# Launching takes a device about this long; only longer gaps are the host's.
_GAP_SECONDS = 10e-6


@dataclass(frozen=True)
class Finding:
    """One thing to look at. `kind` is "hidden copy", "copy", "slow path", "no kernel", "gaps" or
    "graph break"; `seconds` is what it took in all `count` times; `advice` is what to change.
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


def _asked_for(node: Node) -> str:
    """Give the call of the code that is nothing but this copy, "" where it hides in another."""
    around = [one for one in (node, *node.above()) if one.kind in ("operator", "backward")]
    names = [one.name for one in around]
    plain = ("aten::copy_", "aten::clone", "aten::contiguous", "aten::to", "aten::_to_copy")
    return names[-1].removeprefix("aten::") if all(name in plain for name in names) else ""


def _inside(node: Node) -> str:
    """Name the outermost operator around a copy, or the node of autograd."""
    around = [one.name for one in node.above() if one.kind in ("operator", "backward")]
    return around[-1] if around else node.name


def _copy(node: Node) -> Finding | None:
    given = [one for one in node.operands[:2] if one is not None]
    if not given or (node.name == "aten::copy_" and len(given) < 2):
        return None
    target, source = given[0], given[-1]
    if source.sizes == () or target.bytes == 0:
        return None
    layouts = f"strides {shape_text(source.strides)} → {shape_text(target.strides)}"
    if target.dtype != source.dtype:
        what = f"cast {dtype_name(source.dtype)} → {dtype_name(target.dtype)}"
        advice = "keep one dtype: store the operand in the dtype that its reader computes in"
    elif 0 in source.strides:
        what = f"broadcast made in memory: {layouts}"
        advice = "nothing for the bias of a linear; elsewhere leave it expanded"
    elif source.strides != target.strides:
        what = f"layout copy: {layouts}"
        advice = "keep the layout: make the operand in the one that its reader wants"
    else:
        what, advice = "copy", "write into the place where the result is wanted"
    size = f"of {shape_text(source.sizes)}, {bytes_text(target.bytes)}"
    asked = _asked_for(node)
    if asked:
        return Finding("copy", node.line, f"{what} {size} by `{asked}`", advice, node.seconds)
    where = f"hides in `{_inside(node)}`"
    return Finding("hidden copy", node.line, f"{what} {size} {where}", advice, node.seconds)


def _slow(node: Node) -> Finding | None:
    facts, loop = cpu_loop(node)
    layouts = ", ".join(
        f"{dtype_name(one.dtype)}{shape_text(one.sizes)} strides {shape_text(one.strides)}"
        for one in node.operands
        if one is not None and one.sizes
    )
    if node.loop in (STRIDED, UNROLLED):
        why = loop.why if loop is not None else "the operands differ in layout"
        what = f"`{node.name}` runs {node.loop}, because {why}: {layouts}"
        advice = "give its operands one layout and dtype"
        if facts is not None:
            best = add_seconds(facts.bytes)
            advice += f", or call iterlab.{facts.op}; memory allows {time_text(best)}"
        return Finding("slow path", node.line, what, advice, node.own or node.seconds)
    if node.loop == REDUCTION and facts is not None:
        share = add_seconds(facts.bytes) / max(node.seconds, 1e-9)
        if share < _SLOW_SHARE and facts.bytes > 2**20:
            what = f"`{node.name}` reaches {share:.2f} of the memory rate: {layouts}"
            advice = f"call iterlab.{facts.op}"
            return Finding("slow path", node.line, what, advice, node.seconds)
    return None


def _device_kernel(node: Node) -> Finding | None:
    if node.loop not in (STRIDED, UNROLLED) or node.parent is None:
        return None
    found = _slow(replace(node.parent, loop=node.loop))
    return None if found is None else replace(found, seconds=node.seconds)


def _of_nodes(nodes: Iterable[Node]) -> Iterator[Finding]:
    for node in nodes:
        found = None
        if node.kind == "kernel":
            found = _device_kernel(node)
        elif node.loop == COPY or (node.name == "aten::copy_" and node.loop != VIEW):
            found = _copy(node)
        elif node.loop:
            found = _slow(node)
        if found is not None:
            yield found


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


def findings(trace: Trace) -> list[Finding]:
    """Find what to look at in a classified trace, what took longest first."""
    merged = _merged(_of_nodes(trace.walk()))
    large = [one for one in merged if one.seconds > _LEAST_SHARE * trace.seconds]
    large.sort(key=lambda one: -one.seconds)
    breaks = [
        Finding(
            "graph break",
            "",
            reason.splitlines()[0] if reason else "torch.compile",
            "see TORCH_LOGS=graph_breaks",
            0.0,
            count,
        )
        for reason, count in trace.graph_breaks
    ]
    return [*large, *_gaps(trace), *breaks, *_views(trace)]
