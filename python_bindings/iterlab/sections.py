"""Sections of an explanation: lines and a table, for a terminal, a notebook and an HTML page."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text


@dataclass(frozen=True)
class Section:
    """A part of an explanation: lines of (label, text), and a table whose first row is its head."""

    title: str
    lines: tuple[tuple[str, str], ...]
    table: tuple[tuple[str, ...], ...] = ()


CSS = """
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


def marked(text: str, style: str = "") -> Text:
    """Set what stands between backquotes apart."""
    marked = Text(style=style)
    for i, part in enumerate(text.split("`")):
        marked.append(part if i % 2 == 0 else f"`{part}`", style="bold" if i % 2 else "")
    return marked


def rich_parts(section: Section) -> list[RenderableType]:
    """Draw a section for a terminal."""
    parts: list[RenderableType] = []
    if section.table:
        head, *rows = section.table
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
        for title in head:
            table.add_column(title, overflow="fold")
        for row in rows:
            table.add_row(*map(Text, row))
        parts.append(table)
    if section.lines:
        grid = Table.grid(padding=(0, 3, 0, 0))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        for label, text in section.lines:
            grid.add_row(Text(label), marked(text))
        parts.append(grid)
    return parts


def code_html(text: str) -> str:
    """Escape text; what stands between backquotes is code."""
    parts = escape(text).split("`")
    return "".join(part if i % 2 == 0 else f"<code>{part}</code>" for i, part in enumerate(parts))


def html_parts(section: Section) -> list[str]:
    """Draw a section as HTML."""
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
            f"<tr><th>{escape(label)}</th><td>{code_html(text)}</td></tr>"
            for label, text in section.lines
        )
        parts.append(f"<table>{''.join(rows_html)}</table>")
    return parts
