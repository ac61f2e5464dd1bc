"""The report of a profile: the timeline, what the page loads, and how a browser draws it."""

from __future__ import annotations

import html.parser
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import iterlab
from iterlab import classify
from iterlab.profile import Profile
from iterlab.timeline import timeline
from iterlab.trace import Node, Trace

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def spaced_trace(*spans: tuple[float, float]) -> Trace:
    """A trace with one operator for each (start, seconds)."""
    roots = tuple(Node("operator", "aten::neg", *span, loop=classify.VECTORIZED) for span in spans)
    profiler: Any = SimpleNamespace(events=list)
    return Trace(roots, spans[-1][0] + spans[-1][1], 0.0, (), profiler)


def rectangles(trace: Trace) -> list[tuple[str, float, float, str]]:
    """The timeline's boxes: class, place, width, and what a pointer shows."""
    drawn = re.findall(
        r"<rect (?:class=(\w+) )?x='([\d.]+)' y='\d+' width='([\d.]+)'.*?<title>(.*?)</title>",
        timeline(trace),
    )
    return [(kind, float(x), float(width), title) for kind, x, width, title in drawn]


def test_the_timeline_cuts_out_what_is_idle_for_long() -> None:
    trace = spaced_trace((0.0, 0.01), (0.011, 0.01), (5.0, 0.02))
    found = rectangles(trace)
    assert [title for kind, _, _, title in found if kind == "cut"] == [
        "4.98 s in which no operator runs: imports, plain Python"
    ]
    boxes = [box for box in found if box[0] != "cut"][:3]
    assert boxes[2][2] == pytest.approx(2 * boxes[0][2], abs=0.2) and boxes[2][2] > 400
    assert boxes[2][1] + boxes[2][2] == pytest.approx(1150, abs=0.2)
    assert "5 s + " in timeline(trace)


def test_the_timeline_of_many_short_calls_stays_small_and_full() -> None:
    trace = spaced_trace(*((i * 1e-5, 0.8e-5) for i in range(50_000)))
    found = rectangles(trace)
    assert 1000 < len(found) < 2200  # two lanes of 1060 places
    assert all(title.startswith("short ones") for _, _, _, title in found)
    covered = {round(x) for _, x, _, _ in found}
    assert len(covered) > 1000


class Loads(html.parser.HTMLParser):
    """Collects what a page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [
            str(value)
            for name, value in attrs
            if name in ("src", "href") and not str(value).startswith("data:")
        ]
        if tag == "script":
            self.found.append(tag)


def some_profile() -> Profile:
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU())
    x = torch.randn(2, 64, 64, 3)
    return iterlab.profile(lambda: model(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1) * x[0, 0, 0, 0])


def test_the_report_loads_nothing() -> None:
    loads = Loads()
    loads.feed(some_profile().html_page())
    assert loads.found == []


PROBE = """<script>
const seen = {errors: []};
window.addEventListener('error', event => seen.errors.push(event.message));
window.addEventListener('load', () => {
  const box = one => document.querySelector(one).getBoundingClientRect();
  const sizes = [...document.querySelectorAll('.iterlab-report *')]
    .filter(one => one.textContent.trim() && !one.closest('svg, style'))
    .map(one => parseFloat(getComputedStyle(one).fontSize));
  const svg = document.querySelector('svg.timeline');
  const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
  Object.assign(seen, {
    boxes: document.querySelectorAll('svg.timeline rect').length,
    timeline: box('svg.timeline').height,
    tree: box('.tree').height,
    rows: document.querySelectorAll('.tree summary, .tree .leaf').length,
    smallest: Math.min(...sizes),
    label: 13 * scale,
    overflow: document.documentElement.scrollWidth - innerWidth,
  });
  document.body.dataset.seen = JSON.stringify(seen);
});
</script>"""


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.slow
def test_the_report_in_a_browser(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(some_profile().html_page().replace("</head>", f"{PROBE}</head>"))
    done = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900",
         f"--user-data-dir={tmp_path}/browser", "--dump-dom", page.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    text = done.stdout.partition("data-seen=")[2]
    seen = json.loads(html.unescape(text[1 : text.index("}") + 1]))
    assert seen["errors"] == []
    assert seen["boxes"] >= 5 and seen["timeline"] > 80
    assert seen["rows"] >= 3 and seen["tree"] > 60
    assert seen["smallest"] >= 13 and seen["label"] >= 12
    assert seen["overflow"] <= 0
