"""The timeline of a profile as a picture: Python lines, operators, kernels, and a device."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from itertools import pairwise

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
# A stretch in which nothing runs is cut where it is longer than this part of all that runs, and
# drawn so wide.
_LONG, _CUT = 0.25, 26
# Boxes narrower than 1 are drawn as one a place, where they are as wide as this together.
_FAINT = 0.05


@dataclass(frozen=True)
class Box:
    """A box of a lane: seconds, colour, what stands in it and what a pointer shows."""

    start: float
    seconds: float
    colour: str
    text: str
    title: str


def _named(node: Node, colour: str, text: str, title: str) -> Box:
    full = f"{title}, {time_text(node.seconds)}"
    return Box(node.start, node.seconds, colour, text, full)


def _lines(trace: Trace) -> Iterator[Box]:
    for node in trace.roots:
        if node.kind == "line":
            title = f"{short_line(node.name)} {source_text(node.name)}"
            yield _named(node, _LINE, short_line(node.name), title)


def _outermost(nodes: Iterable[Node]) -> Iterator[Node]:
    for node in nodes:
        if node.kind in ("operator", "backward", "compiling"):
            yield node
        else:
            yield from _outermost(node.children)


def _operators(trace: Trace) -> Iterator[Box]:
    for node in _outermost(trace.roots):
        name = node.name.partition("::")[2] or node.name
        yield _named(node, _OPERATOR, name, node.name)


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
        yield _named(node, COLOURS[node.loop], name, f"{node.name}: {node.loop}")


def _device(trace: Trace) -> Iterator[Box]:
    for event in trace.device_events():
        kind = classify.device_kernel(event.name)
        start = (event.time_range.start - trace.origin) * 1e-6
        seconds = (event.time_range.end - event.time_range.start) * 1e-6
        title = f"{event.name}: {kind}, {time_text(seconds)}"
        yield Box(start, seconds, COLOURS[kind], kind, title)


@dataclass(frozen=True)
class _Piece:
    """A part of the run that is drawn: from `start` to `end` in seconds, from `x` on."""

    start: float
    end: float
    x: float


@dataclass(frozen=True)
class _Scale:
    """Maps the run's seconds to the picture. Between two pieces is a cut, `cut` wide."""

    pieces: tuple[_Piece, ...]
    per_second: float
    cut: float

    def x(self, seconds: float) -> float:
        """Give the place of a moment that is in a piece."""
        piece = next((one for one in self.pieces if seconds <= one.end), self.pieces[-1])
        return piece.x + (seconds - piece.start) * self.per_second

    def moment(self, x: float) -> tuple[_Piece, float]:
        """Give the piece at a place, or after the cut there, and the seconds into it."""
        piece = [one for one in self.pieces if one.x <= x + self.cut][-1]
        return piece, max(0.0, x - piece.x) / self.per_second

    def text(self, x: float) -> str:
        """Name the moment at a place: "35 ms", and after a cut "2.1 s + 35 ms"."""
        piece, seconds = self.moment(x)
        if piece is self.pieces[0]:
            return time_text(piece.start + seconds) if seconds else "0"
        return f"{time_text(piece.start)} + {time_text(seconds)}"


def _busy(trace: Trace) -> list[tuple[float, float]]:
    """Give the stretches of the run in which something runs, in order."""
    found = [(node.start, node.start + node.seconds) for node in trace.roots]
    found += [(box.start, box.start + box.seconds) for box in _device(trace)]
    merged: list[tuple[float, float]] = []
    for start, end in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _scale(trace: Trace) -> _Scale:
    """Choose the scale: where nothing runs for long, such as during imports, the run is cut."""
    busy = _busy(trace) or [(0.0, trace.seconds or 1.0)]
    long = _LONG * sum(end - start for start, end in busy)
    kept: list[tuple[float, float]] = [busy[0]]
    for start, end in busy[1:]:
        if start - kept[-1][1] > long:
            kept.append((start, end))
        else:
            kept[-1] = kept[-1][0], end
    width = _WIDTH - _LEFT
    cut = min(_CUT, 0.3 * width / max(1, len(kept) - 1))
    drawn = sum(end - start for start, end in kept) or 1.0
    per_second = (width - cut * (len(kept) - 1)) / drawn
    x, pieces = float(_LEFT), []
    for start, end in kept:
        pieces.append(_Piece(start, end, x))
        x += (end - start) * per_second + cut
    return _Scale(tuple(pieces), per_second, cut)


def _thinned(boxes: Iterable[Box], scale: _Scale) -> Iterator[Box]:
    """Give the boxes that are wide enough to see, and one for all that are not at one place, in the
    colour of most of them.
    """
    unit = 1 / scale.per_second
    narrow: dict[int, dict[str, float]] = {}
    for box in boxes:
        if box.seconds >= unit:
            yield box
        else:
            colours = narrow.setdefault(int(scale.x(box.start)), {})
            colours[box.colour] = colours.get(box.colour, 0.0) + box.seconds
    for x, colours in narrow.items():
        seconds = sum(colours.values())
        if seconds * scale.per_second > _FAINT:
            most = max(colours, key=lambda colour: colours[colour])
            piece, into = scale.moment(x)
            title = f"short ones, {time_text(seconds)} in all"
            yield Box(piece.start + into, unit, most, "", title)


def _box(box: Box, top: float, scale: _Scale) -> str:
    x, width = scale.x(box.start), box.seconds * scale.per_second
    title = escape(box.title)
    drawn = (
        f"<rect x='{x:.1f}' y='{top}' width='{width:.1f}' height='{_LANE}' fill='{box.colour}' "
        f"stroke='#fff' stroke-width='{0.5 if width > 3 else 0}'><title>{title}</title></rect>"
    )
    letters = int((width - 8) / 7.2)
    if box.text and letters >= min(len(box.text), 4):
        text = box.text if len(box.text) <= letters else box.text[: letters - 1] + "…"
        ink = "#1d2329" if box.colour in (_LINE, _OPERATOR) else "#fff"
        drawn += (
            f"<text x='{x + 4:.1f}' y='{top + 18}' style='fill:{ink};pointer-events:none'>"
            f"{escape(text)}</text>"
        )
    return drawn


def _axis(top: float, scale: _Scale) -> str:
    ticks = []
    for i in range(6):
        x = _LEFT + (_WIDTH - _LEFT) * i / 5
        anchor = "start" if i == 0 else "end" if i == 5 else "middle"
        ticks.append(
            f"<line x1='{x:.1f}' x2='{x:.1f}' y1='0' y2='{top}' stroke='#8884'/>"
            f"<text class=axis x='{x:.1f}' y='{top + 16}' text-anchor='{anchor}'>"
            f"{scale.text(x)}</text>"
        )
    return "".join(ticks)


def _cuts(bottom: float, scale: _Scale) -> Iterator[str]:
    for before, after in pairwise(scale.pieces):
        x = after.x - scale.cut
        idle = time_text(after.start - before.end)
        yield (
            f"<rect class=cut x='{x:.1f}' y='0' width='{scale.cut:.1f}' height='{bottom - _GAP}' "
            f"fill='#8883'><title>{idle} in which no operator runs: imports, plain Python</title>"
            f"</rect><text class=axis x='{x + scale.cut / 2:.1f}' y='{bottom / 2}' "
            "text-anchor='middle' style='pointer-events:none'>⋯</text>"
        )


def timeline(trace: Trace) -> str:
    """Draw the timeline as an SVG."""
    lanes = {
        "Python": list(_lines(trace)),
        "operators": list(_operators(trace)),
        "kernels": list(_kernels(trace)),
        "device": list(_device(trace)),
    }
    shown = {name: boxes for name, boxes in lanes.items() if boxes}
    scale = _scale(trace)
    bottom = len(shown) * (_LANE + _GAP)
    parts = [_axis(bottom, scale), *_cuts(bottom, scale)]
    for i, (name, boxes) in enumerate(shown.items()):
        top = i * (_LANE + _GAP)
        parts.append(f"<text x='0' y='{top + 18}'>{name}</text>")
        parts += [_box(box, top, scale) for box in _thinned(boxes, scale)]
    return (
        f"<svg class=timeline viewBox='0 0 {_WIDTH} {bottom + 24}' role=img "
        f"aria-label='timeline'>{''.join(parts)}</svg>"
    )
