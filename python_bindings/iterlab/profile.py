"""Profiles a function: one tree from Python lines to kernels, and what to look at in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from iterlab.classify import COPY, KINDS, SCALAR, STRIDED, UNROLLED, classify
from iterlab.findings import Finding, findings
from iterlab.measured import refuse_nesting
from iterlab.physical import outside_graphs
from iterlab.record import record, warm_up
from iterlab.trace import Node, Trace, short_line, source_text
from iterlab.units import time_text

# Rows that took less than this part of the run are left out of the printed tree.
_LEAST_SHARE = 0.005
# Names and source lines are cut to no less than this.
_LEAST_NAME = 12
# So many findings are printed; the report has all.
_PRINTED = 12


@dataclass(frozen=True)
class Row:
    """Nodes of one name below one parent, as one row: how often, how long in all, how long without
    the rows below, in seconds; what torch.compile took is in rows of its own alone. `on_device` in
    kernels of a device; `launch` has the grids and blocks of a device's kernel.
    """

    kind: str
    name: str
    loop: str
    count: int
    seconds: float
    own: float
    on_device: float
    launch: str
    rows: tuple[Row, ...]

    @property
    def busy(self) -> float:
        """What the row cost: the device's time where it has any, else the host's."""
        return self.on_device or self.seconds

    def to_dict(self) -> dict[str, Any]:
        """Give the row and those below as plain data."""
        return vars(self) | {"rows": [row.to_dict() for row in self.rows]}


def merge(nodes: Iterable[Node]) -> tuple[Row, ...]:
    """Merge nodes of one name and kind of kernel into rows, what took longest first."""
    nodes = list(nodes)
    loops: dict[tuple[str, str], set[str]] = {}
    for node in nodes:
        loops.setdefault((node.kind, node.name), set()).add(node.loop)
    groups: dict[tuple[str, str, str], list[Node]] = {}
    for node in nodes:
        # Of some calls the profile doesn't show that they did work; they belong to those that did.
        known = loops[node.kind, node.name] & set(KINDS)
        loop = node.loop or (next(iter(known)) if len(known) == 1 else "")
        groups.setdefault((node.kind, node.name, loop), []).append(node)
    rows = [
        Row(
            kind,
            name,
            loop,
            len(group),
            sum(node.seconds - node.compiling * (kind != "compiling") for node in group),
            sum(node.own for node in group),
            sum(node.on_device for node in group),
            "; ".join(dict.fromkeys(node.launch for node in group if node.launch)),
            merge(child for node in group for child in node.children),
        )
        for (kind, name, loop), group in groups.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.on_device, -row.seconds)))


class Profile:
    """One run: `.rows` is its tree, merged; `.findings` what to look at; `.trace` everything.

    Prints itself on a terminal, in a notebook and with rich; `save_html` and `save_chrome_trace`
    write files.
    """

    def __init__(self, trace: Trace) -> None:
        classify(trace)
        self.trace = trace
        self.findings: list[Finding] = findings(trace)
        self.rows = merge(trace.roots)

    @cached_property
    def kinds(self) -> dict[str, float]:
        """Seconds by kind of kernel, in the order of `iterlab.classify.KINDS`."""
        found = dict.fromkeys(KINDS, 0.0)
        for node in self.trace.walk():
            if node.loop in found:
                found[node.loop] += node.own or node.seconds
        return {kind: seconds for kind, seconds in found.items() if seconds}

    @cached_property
    def table(self) -> tuple[tuple[str, str, int, float], ...]:
        """Operators and kernels that did work: (name, kind, count, seconds), longest first."""
        found: dict[tuple[str, str], tuple[int, float]] = {}
        for node in self.trace.walk():
            if node.loop in KINDS:
                count, seconds = found.get((node.name, node.loop), (0, 0.0))
                own = node.own or node.seconds
                found[node.name, node.loop] = (count + 1, seconds + own)
        rows = [(name, kind, count, seconds) for (name, kind), (count, seconds) in found.items()]
        return tuple(sorted(rows, key=lambda row: -row[3]))

    @property
    def summary(self) -> str:
        """The run in a few words: how long in all, in operators, and in compilation."""
        parts = [f"{time_text(self.trace.seconds)} in all"]
        if self.trace.compiling:
            parts.append(f"{time_text(self.trace.compiling)} compiling")
        return ", ".join([*parts, f"{time_text(self.trace.work)} in operators"])

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain data, for JSON."""
        return {
            "seconds": self.trace.seconds,
            "kinds": self.kinds,
            "findings": [vars(one) for one in self.findings],
            "rows": [row.to_dict() for row in self.rows],
            "table": [list(row) for row in self.table],
        }

    def shown(self, rows: Iterable[Row], share: float) -> Iterator[Row]:
        """Give the rows that took at least this part of the run: of the device's time where there
        is any, else of the time in operators.
        """
        on_device = self.trace.on_device
        for row in rows:
            cost, total = (
                (row.on_device, on_device) if on_device else (row.seconds, self.trace.work)
            )
            if cost >= share * total and row.kind != "compiling":
                yield row

    def _branch(self, tree: Tree, rows: Iterable[Row]) -> None:
        for row in self.shown(rows, _LEAST_SHARE):
            self._branch(tree.add(_FittedRow(row)), row.rows)

    def __rich__(self) -> RenderableType:
        kinds = ", ".join(f"{kind} {time_text(seconds)}" for kind, seconds in self.kinds.items())
        tree = Tree(Text(f"{self.summary}: {kinds or 'no kernels'}", style="bold"))
        self._branch(tree, self.rows)
        parts: list[RenderableType] = [tree]
        if self.findings:
            parts += [Text(""), Text("What to look at", style="bold"), _findings(self.findings)]
        return Group(*parts)

    def __str__(self) -> str:
        console = Console(file=StringIO(), width=150, color_system=None, force_terminal=False)
        console.print(self)
        assert isinstance(console.file, StringIO)
        return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())

    def __repr__(self) -> str:
        return f"<Profile of {time_text(self.trace.seconds)}, {len(self.findings)} findings>"

    def _repr_html_(self) -> str:
        from iterlab.report import body

        return body(self)

    def html_page(self, title: str = "iterlab profile") -> str:
        """Give a whole HTML page, which opens from disk and loads nothing."""
        from iterlab.report import page

        return page(self, title)

    def save_html(self, path: str | Path, title: str = "iterlab profile") -> None:
        """Write the report to a file."""
        Path(path).write_text(self.html_page(title), encoding="utf-8")

    def save_chrome_trace(self, path: str | Path) -> None:
        """Write the trace for chrome://tracing or Perfetto."""
        self.trace.profiler.export_chrome_trace(str(path))


def label(row: Row) -> tuple[str, str]:
    """Give what a row is called, and the source of a Python line."""
    if row.kind == "line":
        return short_line(row.name), source_text(row.name)
    return row.name, ""


@dataclass(frozen=True)
class _FittedRow:
    """A row of the tree on one line of a terminal: long names and source lines are cut."""

    row: Row

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield row_text(self.row, options.max_width)


def row_text(row: Row, width: int) -> Text:
    """Write a row of the tree for a terminal, on one line of `width` characters where it can."""
    after = Text()
    if row.count > 1:
        after.append(f"  ×{row.count}", style="dim")
    if row.loop:
        slow = row.loop in (STRIDED, SCALAR, UNROLLED, COPY)
        after.append(f"  [{row.loop}]", style="yellow" if slow else "green")
    if row.launch:
        after.append(f"  {row.launch}", style="dim")
    before = Text(f"{time_text(row.busy):>8}  ")
    room = max(_LEAST_NAME, width - len(before) - len(after))
    name, source = label(row)
    name = name if len(name) <= room else f"{name[: room - 1]}…"
    before.append(name, style="cyan" if row.kind == "line" else "")
    room -= len(name) + 2
    if source and room >= _LEAST_NAME:
        cut = source if len(source) <= room else f"{source[: room - 1]}…"
        before.append(f"  {cut}", style="bold")
    return before + after


def _findings(found: Sequence[Finding]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    for fixed in (True, True, False):
        table.add_column(no_wrap=fixed)
    for one in found[:_PRINTED]:
        text = Text(one.what)
        text.append(f"\n→ {one.advice}", style="yellow")
        times = f" ×{one.count}" if one.count > 1 else ""
        took = f"{time_text(one.seconds)}{times}" if one.seconds else times.strip()
        where = short_line(one.line) if one.line else ""
        table.add_row(Text(f"{one.kind}\n{where}", style="bold"), took, text)
    if len(found) > _PRINTED:
        table.add_row(
            Text(f"{len(found) - _PRINTED} more"), "", Text("in the report (--html FILE)")
        )
    return table


@outside_graphs
def profile(function: Callable[..., object], *args: Any, **kwargs: Any) -> Profile:
    """Profile a call of `function` with these arguments.

    It runs twice: the first run warms up and is not counted. Python lines are those of the nearest
    frame outside torch. Where the first run starts threads, all threads count, without lines, and
    no repeated copies are found. Raises RuntimeError inside another profile, and where the function
    runs a profiler of its own.

    >>> print(iterlab.profile(model, x))
    >>> iterlab.profile(model, x).save_html("report.html")
    """
    refuse_nesting()
    work = partial(function, *args, **kwargs)
    return Profile(record(work, all_threads=warm_up(work)))
