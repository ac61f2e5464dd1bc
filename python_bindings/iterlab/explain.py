"""Explains a call: its plan in words, the reason for its path, what the caller could change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from io import StringIO
from typing import Any

import torch
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from iterlab import reasons
from iterlab.advice import Advice, advise
from iterlab.planning import Plan, ReductionPlan, dtype_name, plan
from iterlab.table import OpEntry, find
from iterlab.units import bytes_text, loop_text, shape_text

Op = str | torch._ops.OpOverload[..., Any] | torch._ops.OpOverloadPacket[..., Any]


@dataclass(frozen=True)
class Section:
    """A part of an explanation: lines of (label, text), and a table whose first row is its head."""

    title: str
    lines: tuple[tuple[str, str], ...]
    table: tuple[tuple[str, ...], ...] = ()


class Explanation:
    """What a call does and why. `.plan` is the object that the kernel would get.

    Prints itself on a terminal, in a notebook and with rich; `to_dict` gives it as data.
    """

    def __init__(
        self,
        schema: str,
        facts: Plan | ReductionPlan,
        sections: Sequence[Section],
        advice: Advice | None,
    ) -> None:
        self.schema = schema
        self.plan = facts
        self.sections = tuple(sections)
        self.advice = advice

    @cached_property
    def summary(self) -> str:
        """The path and its reason in one line."""
        return reasons.summary(self.plan)

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain data, for JSON."""
        return {
            "schema": self.schema,
            "summary": self.summary,
            "plan": self.plan.to_dict(),
            "advice": None if self.advice is None else vars(self.advice),
            "sections": [
                {"title": section.title, "lines": dict(section.lines), "table": section.table}
                for section in self.sections
            ],
        }

    def __rich__(self) -> RenderableType:
        parts: list[RenderableType] = [Text(self.schema, style="bold cyan")]
        for section in self.sections:
            parts += [Text(""), Text(section.title, style="bold")]
            parts += [Padding(part, (0, 0, 0, 2)) for part in _rich_parts(section)]
        if self.advice is not None:
            parts += [Text(""), _marked(f"→ {self.advice}", "yellow")]
        return Group(*parts)

    def __str__(self) -> str:
        console = Console(file=StringIO(), width=110, color_system=None, force_terminal=False)
        console.print(self)
        assert isinstance(console.file, StringIO)
        return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())

    def __repr__(self) -> str:
        return f"<Explanation of {self.plan.op}: {self.summary}>"

    def _repr_html_(self) -> str:
        body = [f"<p class=schema>{escape(self.schema)}</p>"]
        for section in self.sections:
            body += [f"<h3>{escape(section.title)}</h3>", *_html_parts(section)]
        if self.advice is not None:
            body.append(f"<p class=advice>→ {_code_html(str(self.advice))}</p>")
        return f"<div class=iterlab-explain><style>{_CSS}</style>{''.join(body)}</div>"

    def html_page(self) -> str:
        """Give a whole HTML page, which opens from disk."""
        return (
            "<!doctype html><html lang=en><head><meta charset=utf-8>"
            "<meta name=viewport content='width=device-width, initial-scale=1'>"
            f"<title>iterlab: {escape(self.plan.op)}</title></head>"
            "<body style='margin:2rem auto;max-width:60rem;padding:1rem;color-scheme:light dark'>"
            f"{self._repr_html_()}</body></html>\n"
        )


_CSS = """
.iterlab-explain{font:14px/1.5 system-ui,sans-serif}
.iterlab-explain .schema{font:600 14px/1.5 ui-monospace,monospace;overflow-wrap:anywhere}
.iterlab-explain h3{font-size:14px;margin:1.2em 0 .3em;border-bottom:1px solid #8886}
.iterlab-explain table{border-collapse:collapse;margin:.2em 0 .4em}
.iterlab-explain th,.iterlab-explain td{text-align:left;padding:.1em 1.4em .1em 0}
.iterlab-explain th,.iterlab-explain td{vertical-align:top;border:0}
.iterlab-explain th{font-weight:500;opacity:.65}
.iterlab-explain code,.iterlab-explain .mono{font-family:ui-monospace,monospace;font-size:.93em}
.iterlab-explain .advice{border-left:3px solid #d9930d;background:#d9930d22}
.iterlab-explain .advice{padding:.5em .8em;margin-top:1.2em}
""".replace("\n", "")


def _marked(text: str, style: str = "") -> Text:
    """Set what stands between backquotes apart."""
    marked = Text(style=style)
    for i, part in enumerate(text.split("`")):
        marked.append(part if i % 2 == 0 else f"`{part}`", style="bold" if i % 2 else "")
    return marked


def _rich_parts(section: Section) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if section.table:
        head, *rows = section.table
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
        for title in head:
            table.add_column(title)
        for row in rows:
            table.add_row(*row)
        parts.append(table)
    if section.lines:
        grid = Table.grid(padding=(0, 3, 0, 0))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column()
        for label, text in section.lines:
            grid.add_row(label, _marked(text))
        parts.append(grid)
    return parts


def _code_html(text: str) -> str:
    parts = escape(text).split("`")
    return "".join(part if i % 2 == 0 else f"<code>{part}</code>" for i, part in enumerate(parts))


def _html_parts(section: Section) -> list[str]:
    parts = []
    if section.table:
        head, *rows = section.table
        titles = "".join(f"<th>{escape(cell)}</th>" for cell in head)
        cells = ("".join(f"<td class=mono>{escape(cell)}</td>" for cell in row) for row in rows)
        parts.append(
            f"<table><tr>{titles}</tr>{''.join(f'<tr>{row}</tr>' for row in cells)}</table>"
        )
    if section.lines:
        rows_html = (
            f"<tr><th>{escape(label)}</th><td>{_code_html(text)}</td></tr>"
            for label, text in section.lines
        )
        parts.append(f"<table>{''.join(rows_html)}</table>")
    return parts


def resolve(op: Op) -> tuple[str, torch._ops.OpOverload[..., Any] | None]:
    """Give the name of an operator of `torch.ops.iterlab` ("add", "add_"), and the overload where
    one is given.

    Raises ValueError for the operator of another library, TypeError for what is no operator.
    """
    if isinstance(op, str):
        return op.removeprefix("iterlab::"), None
    if isinstance(op, torch._ops.OpOverload):
        qualified, overload = op._schema.name, op
    elif isinstance(op, torch._ops.OpOverloadPacket):
        qualified, overload = op._qualified_op_name, None
    else:
        raise TypeError(
            f"iterlab: expected the name of an operator or one of torch.ops.iterlab, got {op!r}"
        )
    library, _, name = qualified.partition("::")
    if library != "iterlab":
        raise ValueError(f"iterlab: expected an operator of torch.ops.iterlab, got {qualified}")
    return name, overload


def _overload(
    name: str, entry: OpEntry, args: Sequence[Any], out: object
) -> torch._ops.OpOverload[..., Any]:
    """Find the overload that a call with these arguments gets."""
    numbers = [
        operand
        for operand, given in zip(entry.inputs, args, strict=False)
        if not isinstance(given, torch.Tensor)
    ]
    parts = ["Scalar", *numbers] if numbers else []
    parts += ["out"] if out is not None else []
    packet = getattr(torch.ops.iterlab, name)
    if ("_".join(parts) or "default") not in packet.overloads():
        raise TypeError(f"iterlab::{name}: expected a tensor as {numbers[0]}, got a number")
    found: torch._ops.OpOverload[..., Any] = getattr(packet, "_".join(parts) or "default")
    return found


def _operand_text(operand: object) -> tuple[str, str, str]:
    if isinstance(operand, torch.Tensor):
        return dtype_name(operand.dtype), shape_text(operand.shape), shape_text(operand.stride())
    return type(operand).__name__, f"number {operand}", ""


def _call_section(
    entry: OpEntry,
    args: Sequence[Any],
    out: torch.Tensor | None,
    inplace: bool,
    facts: Plan | ReductionPlan,
) -> Section:
    shape = facts.shape if isinstance(facts, Plan) else facts.output_shape
    rows = [("operand", "dtype", "shape", "strides (elements)", "")]
    for name, operand in zip(entry.inputs, args, strict=False):
        rows.append((name, *_operand_text(operand), ""))
    if inplace:
        rows.append(("result", *_operand_text(args[0]), "written in place"))
    elif out is not None and not facts.resizes_output:
        rows.append(("out", *_operand_text(out), "given"))
    else:
        strides = shape_text(facts.output_strides)
        dtype = facts.result_dtype if out is None else dtype_name(out.dtype)
        rows.append(("out", dtype, shape_text(shape), strides, "new" if out is None else "resized"))
    return Section("Operands", (), tuple(rows))


def _plan_sections(entry: OpEntry, args: Sequence[Any], facts: Plan) -> list[Section]:
    rows = [("operand", "dtype", "layout", "byte strides", "tiles of it are")]
    for one in facts.operands:
        staged = reasons.staged(one, facts)
        rows.append((one.name, one.dtype, one.layout, shape_text(one.strides), staged))
    lines = [
        ("broadcast", reasons.broadcast(entry, args, facts)),
        ("promotion", reasons.promotion(entry, args, facts)),
        ("dims", reasons.dims(facts)),
    ]
    run = [
        ("path", f"{facts.path}, because {reasons.path(facts)} ({facts.reason})"),
        ("tile", reasons.tile(facts)),
        ("memory", f"{bytes_text(facts.bytes)}, each element once"),
        ("threads", reasons.threads(entry, facts.bytes)),
        (
            "also legal",
            ", ".join(path for path in facts.legal_paths if path != facts.path) or "nothing else",
        ),
    ]
    return [Section("Shapes and types", tuple(lines)), Section("Loop", tuple(run), tuple(rows))]


def _reduction_sections(entry: OpEntry, facts: ReductionPlan) -> list[Section]:
    types = [
        ("dims", reasons.reduced(facts)),
        ("types", reasons.reduction_types(facts)),
    ]
    rows = [
        ("dims", "loops", "byte strides"),
        ("kept", loop_text(facts.kept_shape), shape_text(facts.kept_strides)),
        ("reduced", loop_text(facts.reduced_shape), shape_text(facts.reduced_strides)),
    ]
    run = [
        ("form", f"{facts.form}, because {reasons.form(facts)}"),
        (
            "elements",
            "staged through a buffer in the accumulate type" if facts.staged else "used in place",
        ),
        ("memory", f"{bytes_text(facts.bytes)}, each element once"),
        ("threads", reasons.threads(entry, facts.bytes) + "; " + reasons.split(facts)),
    ]
    return [Section("Shapes and types", tuple(types)), Section("Loop", tuple(run), tuple(rows))]


def explain(op: Op, *args: Any, out: torch.Tensor | None = None, **kwargs: Any) -> Explanation:
    """Explain a call of an operator with these arguments, without running it.

    `op` is a name ("add", "add_") or an operator of `torch.ops.iterlab`; the arguments are those of
    the call. Tensors on device "meta" do, so that a call of any size can be asked about. Raises
    what `iterlab.plan` raises.

    >>> print(iterlab.explain("add", x, y.t()))
    """
    name, overload = resolve(op)
    entry = find(name.removesuffix("_"))
    facts = plan(name, *args, out=out, **kwargs)
    schema = str((overload or _overload(name, entry, args, out))._schema)
    inplace = name.endswith("_")
    sections = [_call_section(entry, args, out, inplace, facts)]
    if isinstance(facts, ReductionPlan):
        return Explanation(schema, facts, [*sections, *_reduction_sections(entry, facts)], None)
    advice = advise(name, list(entry.inputs), list(args), out, kwargs, facts)
    return Explanation(schema, facts, [*sections, *_plan_sections(entry, args, facts)], advice)
