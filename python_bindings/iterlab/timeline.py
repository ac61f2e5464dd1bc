"""The timeline of a profile as a picture: Python lines, operators, kernels, and a device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

from iterlab import classify
from iterlab.trace import Node, Trace, short_line, source_text
from iterlab.units import time_text

# One colour a kind, distinguishable with any colour vision (after Okabe and Ito); dark enough for
# white text. What is slow is warm.
COLOURS = {
    classify.VENDOR: "#5b6673",
    classify.ITERLAB: "#0072b2",
    classify.VECTORIZED: "#007a5a",
    classify.COMPILED: "#6a51a3",
    classify.REDUCTION: "#3a7ca5",
    classify.COPY: "#c2571a",
    classify.UNROLLED: "#a8577e",
    classify.STRIDED: "#b3261e",
    classify.SCALAR: "#946200",
    classify.OTHER: "#7d7461",
}
_LINE, _OPERATOR = "#8fa3b8", "#b4bfca"

# Of the picture, in its own units: a report is about 1150 wide.
_WIDTH, _LEFT, _LANE, _GAP = 1150, 90, 26, 8
# Narrower than this, a box is left out.
_NARROW = 0.25


@dataclass(frozen=True)
class Box:
    """A box of a lane: seconds, colour, what stands in it and what a pointer shows."""

    start: float
    seconds: float
    colour: str
    text: str
    title: str


def _lines(trace: Trace) -> Iterator[Box]:
    for node in trace.roots:
        if node.kind == "line":
            title = f"{short_line(node.name)} {source_text(node.name)}"
            yield Box(node.start, node.seconds, _LINE, short_line(node.name), title)


def _outermost(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        if node.kind in ("operator", "backward", "compiling"):
            yield node
        else:
            yield from _outermost(node.children)


def _operators(trace: Trace) -> Iterator[Box]:
    for node in _outermost(trace.roots):
        name = node.name.partition("::")[2] or node.name
        yield Box(node.start, node.seconds, _OPERATOR, name, node.name)


def _working(nodes: Iterable[Node]) -> Iterator[Node]:
    """Give the nodes that did work on the host, outer ones first."""
    for node in nodes:
        on_host = node.kind != "kernel" or node.name.startswith("iterlab::")
        if node.loop in COLOURS and on_host:
            yield node
        yield from _working(node.children)


def _kernels(trace: Trace) -> Iterator[Box]:
    for node in _working(trace.roots):
        # What works inside it is drawn over it, and would hide its name.
        name = "" if any(_working(node.children)) else node.name.partition("::")[2]
        yield Box(node.start, node.seconds, COLOURS[node.loop], name, f"{node.name}: {node.loop}")


def _device(trace: Trace) -> Iterator[Box]:
    for event in trace.device_events():
        kind = classify.device_kernel(event.name)
        start = (event.time_range.start - trace.origin) * 1e-6
        seconds = (event.time_range.end - event.time_range.start) * 1e-6
        yield Box(start, seconds, COLOURS[kind], kind, f"{event.name}: {kind}")


def _box(box: Box, top: float, scale: float) -> str:
    x, width = _LEFT + box.start * scale, box.seconds * scale
    if width < _NARROW:
        return ""
    title = escape(f"{box.title}, {time_text(box.seconds)}")
    drawn = (
        f"<rect x='{x:.2f}' y='{top}' width='{width:.2f}' height='{_LANE}' fill='{box.colour}' "
        f"stroke='#fff' stroke-width='{0.5 if width > 3 else 0}'><title>{title}</title></rect>"
    )
    letters = int((width - 8) / 7.2)
    if box.text and letters >= min(len(box.text), 4):
        text = box.text if len(box.text) <= letters else box.text[: letters - 1] + "…"
        ink = "#1d2329" if box.colour in (_LINE, _OPERATOR) else "#fff"
        drawn += (
            f"<text x='{x + 4:.2f}' y='{top + 18}' style='fill:{ink};pointer-events:none'>"
            f"{escape(text)}</text>"
        )
    return drawn


def _axis(seconds: float, top: float, scale: float) -> str:
    ticks = []
    for i in range(6):
        x = _LEFT + seconds * scale * i / 5
        anchor = "start" if i == 0 else "end" if i == 5 else "middle"
        ticks.append(
            f"<line x1='{x:.1f}' x2='{x:.1f}' y1='0' y2='{top}' stroke='#8884'/>"
            f"<text class=axis x='{x:.1f}' y='{top + 16}' text-anchor='{anchor}'>"
            f"{time_text(seconds * i / 5) if i else '0'}</text>"
        )
    return "".join(ticks)


def timeline(trace: Trace) -> str:
    """Draw the timeline as an SVG."""
    lanes = {
        "Python": list(_lines(trace)),
        "operators": list(_operators(trace)),
        "kernels": list(_kernels(trace)),
        "device": list(_device(trace)),
    }
    shown = {name: boxes for name, boxes in lanes.items() if boxes}
    scale = (_WIDTH - _LEFT) / (trace.seconds or 1.0)
    bottom = len(shown) * (_LANE + _GAP)
    parts = [_axis(trace.seconds, bottom, scale)]
    for i, (name, boxes) in enumerate(shown.items()):
        top = i * (_LANE + _GAP)
        parts.append(f"<text x='0' y='{top + 18}'>{name}</text>")
        parts += [_box(box, top, scale) for box in boxes]
    return (
        f"<svg class=timeline viewBox='0 0 {_WIDTH} {bottom + 24}' role=img "
        f"aria-label='timeline'>{''.join(parts)}</svg>"
    )
