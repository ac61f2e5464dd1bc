"""Profiles: the tree, kinds of kernels, hidden copies, slow paths, the report in a browser."""

from __future__ import annotations

import html.parser
import json
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

import iterlab
from iterlab import classify
from iterlab.cli import main
from iterlab.profile import Profile

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

CNN = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.norm = nn.LayerNorm(channels)

    def forward(self, x, mask):
        y = self.norm(self.conv(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        y = y * mask
        flat = y.flatten(1)
        return x + y, flat

torch.manual_seed(0)
block = Block(16).to(memory_format=torch.channels_last).eval()
x = torch.randn(4, 16, 64, 64).to(memory_format=torch.channels_last)
mask = torch.rand(4, 16, 64, 64) > 0.1
with torch.no_grad():
    for _ in range(3):
        block(x, mask)
"""

TRANSFORMER = """
import torch
from torch import nn

class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1)
        scores = scores + mask
        weights = scores.softmax(-1).to(x.dtype)
        mixed = (weights @ v).transpose(1, 2).reshape(batch, length, width)
        return self.out(mixed)

torch.manual_seed(0)
model = Attention(128, 4).bfloat16()
x = torch.randn(4, 128, 128, dtype=torch.bfloat16)
mask = torch.triu(torch.full((128, 128), float("-inf")), 1)
for _ in range(3):
    model(x, mask).float().pow(2).mean().backward()
"""


def line_of(source: str, text: str) -> str:
    number = next(i for i, line in enumerate(source.splitlines(), 1) if text in line)
    return f"script.py:{number}"


@pytest.fixture
def profiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    from iterlab.script import profile_script

    def run(source: str) -> Profile:
        script = tmp_path / "script.py"
        script.write_text(source)
        result, code = profile_script(str(script))
        assert code == 0
        return result

    return run


def found(profile: Profile, kind: str, line: str) -> list[str]:
    lines = [one for one in profile.findings if one.kind == kind]
    return [one.what for one in lines if one.line.endswith(line)]


def test_a_cnn_in_nhwc(profiled) -> None:  # type: ignore[no-untyped-def]
    profile = profiled(CNN)
    masked = line_of(CNN, "y = y * mask")
    assert any(
        "bool → float32" in what and "aten::mul" in what
        for what in found(profile, "hidden copy", masked)
    )
    assert any(
        "aten::mul" in what and "strided" in what for what in found(profile, "slow path", masked)
    )
    flat = found(profile, "hidden copy", line_of(CNN, "y.flatten(1)"))
    assert any("layout copy" in what for what in flat)
    assert profile.kinds[classify.VENDOR] > 0


def test_a_transformer_in_bf16(profiled) -> None:  # type: ignore[no-untyped-def]
    profile = profiled(TRANSFORMER)
    added = found(profile, "hidden copy", line_of(TRANSFORMER, "scores + mask"))
    assert any("bfloat16 → float32" in what and "aten::add" in what for what in added)
    mixed = found(profile, "hidden copy", line_of(TRANSFORMER, "transpose(1, 2).reshape"))
    assert any("layout copy" in what and "aten::reshape" in what for what in mixed)
    asked = found(profile, "copy", line_of(TRANSFORMER, ".to(x.dtype)"))
    assert any("float32 → bfloat16" in what and "`to`" in what for what in asked)
    rows = [row for row in profile.rows if row.name.endswith(line_of(TRANSFORMER, "backward()"))]
    assert rows and any(row.kind == "backward" for row in rows[0].rows)


def test_the_tree_goes_from_lines_to_kernels() -> None:
    x = torch.randn(64, 64)

    def work() -> torch.Tensor:
        return torch.ops.iterlab.add(x, x.t())  # this line

    profile = iterlab.profile(work)
    row = next(row for row in profile.rows if "test_profile.py" in row.name)
    named = {inner.name: inner for one in profile.rows for inner in one.rows}
    assert row.kind == "line" and "iterlab::add" in named
    kernels = [one for one in named["iterlab::add"].rows if one.kind == "kernel"]
    plan = iterlab.plan("add", x, x.t())
    assert isinstance(plan, iterlab.Plan)
    assert kernels[0].name.startswith(f"iterlab::add [{plan.path} ")
    assert kernels[0].loop == classify.ITERLAB
    assert named["aten::t"].rows[0].rows[0].loop == classify.VIEW


def test_composites_unfold() -> None:
    layer = torch.nn.Linear(32, 32)
    profile = iterlab.profile(layer, torch.randn(8, 32))
    names = [node.name for node in profile.trace.walk()]
    assert names.index("aten::linear") < names.index("aten::addmm")
    addmm = next(node for node in profile.trace.walk() if node.name == "aten::addmm")
    assert "aten::linear" in [node.name for node in addmm.above()]


def test_operands_have_their_strides() -> None:
    x = torch.randn(8, 4)
    profile = iterlab.profile(torch.mul, x.t(), x.t())
    mul = next(node for node in profile.trace.walk() if node.name == "aten::mul")
    assert [one.strides for one in mul.operands if one is not None] == [(1, 4), (1, 4)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
            classify.VECTORIZED,
        ),
        (
            "void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<float>>",
            classify.UNROLLED,
        ),
        (
            "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<...>>",
            classify.STRIDED,
        ),
        (
            "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda<...>>",
            classify.COPY,
        ),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>", classify.REDUCTION),
        ("Memcpy DtoD (Device -> Device)", classify.COPY),
        ("sm90_xmma_gemm_bf16bf16_bf16f32", classify.VENDOR),
        ("triton_poi_fused_add_0", classify.COMPILED),
        ("void iterlab::cuda::elementwise_kernel<...>", classify.ITERLAB),
        ("my_kernel", classify.OTHER),
    ],
)
def test_device_kernels_by_name(name: str, kind: str) -> None:
    assert classify.device_kernel(name) == kind


@pytest.mark.slow
def test_graph_breaks_are_found() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    from iterlab.trace import record

    compiled = torch.compile(broken, backend="eager")
    profile = Profile(record(lambda: compiled(torch.randn(4))))
    assert "graph break" in [one.kind for one in profile.findings]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, page, trace = tmp_path / "s.py", tmp_path / "r.html", tmp_path / "t.json"
    script.write_text(
        "import sys, torch\nx = torch.randn(9, 9)\nprint(sys.argv[1:], (x + x.t()).shape)\n"
        "sys.exit(3)\n"
    )
    code = main(["profile", "--html", str(page), "--trace", str(trace), str(script), "--a", "b"])
    assert code == 3
    assert "['--a', 'b'] torch.Size([9, 9])" in capsys.readouterr().out
    assert json.loads(trace.read_text())["traceEvents"]
    assert "s.py:3" in page.read_text()
    assert main(["profile", "--json", str(script)]) == 3
    out = capsys.readouterr().out
    assert "rows" in json.loads(out[out.index("{") :])


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
