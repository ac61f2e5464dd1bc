"""The HTML report of a profile: findings, timeline, tree, table; one file that loads nothing."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from iterlab.findings import Finding
from iterlab.profile import Profile, Row, label
from iterlab.sections import code_html
from iterlab.timeline import COLOURS, timeline
from iterlab.trace import short_line, source_text
from iterlab.units import time_text

_CSS = """
.iterlab-report{--ink:#1d2329;--dim:#5c6670;--line:#d9dee3;--card:#f6f8fa;--warn:#b35900;
 font:15px/1.5 system-ui,sans-serif;color:var(--ink)}
@media(prefers-color-scheme:dark){.iterlab-report{--ink:#e4e8ec;--dim:#9aa5b0;--line:#3a434c;
 --card:#1d2329;--warn:#f0a050}}
.iterlab-report h1{font-size:24px;margin:0}
.iterlab-report h2{font-size:18px;margin:32px 0 8px}
.iterlab-report .dim{color:var(--dim)}
.iterlab-report code,.iterlab-report .mono{font:14px/1.45 ui-monospace,monospace}
.iterlab-report .bar{display:flex;height:22px;border-radius:4px;overflow:hidden;margin:14px 0 8px}
.iterlab-report .legend{display:flex;flex-wrap:wrap;gap:4px 20px;padding:0;margin:0}
.iterlab-report .legend li{list-style:none}
.iterlab-report .dot{display:inline-block;width:12px;height:12px;border-radius:3px;
 margin-right:6px;vertical-align:-1px}
.iterlab-report .finding{border-left:4px solid var(--warn);background:var(--card);
 padding:8px 14px;margin:8px 0;border-radius:0 4px 4px 0;overflow-wrap:anywhere}
.iterlab-report .finding.calm{border-color:var(--line)}
.iterlab-report .kind{font-weight:600;color:var(--warn);margin-right:10px}
.iterlab-report .calm .kind{color:var(--dim)}
.iterlab-report .advice{color:var(--dim)}
.iterlab-report svg{width:100%;height:auto;display:block}
.iterlab-report svg rect{shape-rendering:crispEdges}
.iterlab-report svg text{font:13px system-ui,sans-serif;fill:var(--ink)}
.iterlab-report svg .axis{fill:var(--dim)}
.iterlab-report details>div{margin-left:22px}
.iterlab-report summary,.iterlab-report .leaf{padding:2px 0;border-bottom:1px solid var(--line)}
.iterlab-report summary{cursor:pointer;list-style:none}
.iterlab-report summary::-webkit-details-marker{display:none}
.iterlab-report summary::before{content:'▸';display:inline-block;width:18px;
 font-size:18px;line-height:1}
.iterlab-report details[open]>summary::before{content:'▾'}
.iterlab-report .leaf{padding-left:18px}
.iterlab-report .time{display:inline-block;min-width:80px;font-variant-numeric:tabular-nums}
.iterlab-report .loop{border-radius:3px;padding:0 6px;margin-left:8px;font-size:13px;color:#fff}
.iterlab-report table{border-collapse:collapse;width:100%}
.iterlab-report th,.iterlab-report td{text-align:left;padding:4px 16px 4px 0;
 border-bottom:1px solid var(--line);overflow-wrap:anywhere}
.iterlab-report .number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
""".replace("\n", "")

# Rows of the tree that took less than this part of the run are left out; the trace has them.
_LEAST_SHARE = 0.001
_CALM = ("no kernel", "copy", "compiling")
# So many findings are open; the rest folds.
_OPEN = 8


def _legend(profile: Profile) -> str:
    total = sum(profile.kinds.values()) or 1.0
    bar = "".join(
        f"<span style='background:{COLOURS[kind]};width:{100 * seconds / total:.2f}%' "
        f"title='{escape(kind)} {time_text(seconds)}'></span>"
        for kind, seconds in profile.kinds.items()
    )
    items = "".join(
        f"<li><span class=dot style='background:{COLOURS[kind]}'></span>{escape(kind)} "
        f"<span class=dim>{time_text(seconds)}, {100 * seconds / total:.0f} %</span></li>"
        for kind, seconds in profile.kinds.items()
    )
    return f"<div class=bar>{bar}</div><ul class=legend>{items}</ul>"


def _finding(one: Finding) -> str:
    calm = " calm" if one.kind in _CALM else ""
    times = f", {one.count} times" if one.count > 1 else ""
    took = f"{time_text(one.seconds)}{times}" if one.seconds else times.removeprefix(", ")
    where = ""
    if one.line:
        source = escape(source_text(one.line))
        where = f"<div class=mono>{escape(short_line(one.line))} <b>{source}</b></div>"
    return (
        f"<div class='finding{calm}'><span class=kind>{escape(one.kind)}</span>"
        f"<span class=dim>{took}</span>{where}<div>{code_html(one.what)}</div>"
        f"<div class=advice>→ {code_html(one.advice)}</div></div>"
    )


def _row_html(row: Row) -> str:
    name, source = label(row)
    count = f" <span class=dim>×{row.count}</span>" if row.count > 1 else ""
    loop = ""
    if row.loop in COLOURS:
        loop = f"<span class=loop style='background:{COLOURS[row.loop]}'>{escape(row.loop)}</span>"
    elif row.loop:
        loop = f" <span class=dim>{escape(row.loop)}</span>"
    return (
        f"<span class=time>{time_text(row.busy)}</span><span class=mono>{escape(name)}"
        f" <b>{escape(source)}</b></span>{count}{loop} <span class=dim>{escape(row.launch)}</span>"
    )


def _tree(profile: Profile, rows: Iterable[Row], depth: int = 0) -> str:
    parts = []
    for row in profile.shown(rows, _LEAST_SHARE):
        below = _tree(profile, row.rows, depth + 1)
        if below:
            opened = " open" if depth < 1 else ""
            parts.append(
                f"<details{opened}><summary>{_row_html(row)}</summary><div>{below}</div></details>"
            )
        else:
            parts.append(f"<div class=leaf>{_row_html(row)}</div>")
    return "".join(parts)


def _table(profile: Profile) -> str:
    total = sum(profile.kinds.values()) or 1.0
    rows = "".join(
        f"<tr><td class=mono>{escape(name)}</td><td><span class=dot "
        f"style='background:{COLOURS[kind]}'></span>{escape(kind)}</td>"
        f"<td class=number>{count}</td><td class=number>{time_text(seconds)}</td>"
        f"<td class=number>{100 * seconds / total:.1f} %</td></tr>"
        for name, kind, count, seconds in profile.table
    )
    return (
        "<table><tr><th>operator or kernel</th><th>kind</th><th class=number>calls</th>"
        f"<th class=number>time</th><th class=number>of the work</th></tr>{rows}</table>"
    )


def body(profile: Profile, title: str = "iterlab profile") -> str:
    """Write the report as a piece of HTML, for a notebook."""
    found = [_finding(one) for one in profile.findings] or ["<p class=dim>Nothing.</p>"]
    more = "".join(found[_OPEN:])
    if more:
        more = f"<details><summary>{len(found) - _OPEN} more</summary>{more}</details>"
    kernels = sum(profile.kinds.values())
    return (
        f"<div class=iterlab-report><style>{_CSS}</style><h1>{escape(title)}</h1>"
        f"<div class=dim>{profile.summary}, {time_text(kernels)} in kernels</div>"
        f"{_legend(profile)}<h2>What to look at</h2>{''.join(found[:_OPEN])}{more}"
        f"<h2>Timeline</h2>{timeline(profile.trace)}"
        f"<h2>Tree: Python line → operator → kernel</h2>"
        f"<div class=tree>{_tree(profile, profile.rows)}</div>"
        f"<h2>Operators and kernels that did work</h2>{_table(profile)}</div>"
    )


def page(profile: Profile, title: str) -> str:
    """Write the whole page."""
    return (
        "<!doctype html><html lang=en><head><meta charset=utf-8>"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        f"<link rel=icon href='data:,'><title>{escape(title)}</title></head>"
        "<body style='margin:0 auto;max-width:1200px;padding:24px;color-scheme:light dark'>"
        f"{body(profile, title)}</body></html>\n"
    )
