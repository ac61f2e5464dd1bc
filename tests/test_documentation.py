"""Documentation against the tools: the page of operators, and the output that chapters show."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import torch

from iterlab import operators_page
from iterlab.cli import main

ROOT = Path(__file__).parent.parent
CHAPTER = ROOT / "docs" / "from_x_plus_b_to_a_kernel.md"
PAGE = ROOT / "docs" / "operators.md"

# Of another version of torch, layers and kernels have other names.
of_the_chapters_torch = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="the chapter shows torch 2.13"
)


def test_operator_page_is_current() -> None:
    assert operators_page.is_current(PAGE), "iterlab ops --markdown > docs/operators.md"


def test_calls_on_the_operator_page_are_those_of_the_schemas() -> None:
    page = PAGE.read_text()
    for call in (
        "sum(input, dim=None, keepdim=False, *, dtype=None)",
        "logsumexp(input, dim, keepdim=False)",
        "aminmax(input, *, dim=None, keepdim=False)",
        "var(input, dim=None, *, correction=None, keepdim=False)",
        "max(input, dim, keepdim=False)",
        "gelu(input, *, approximate='none')",
    ):
        assert f"| `{call}`" in page, call
    assert "<br>`var(input, dim, unbiased, keepdim=False)`<br>`var(input, unbiased)`" in page
    for call in re.findall(r"^\| `(.+?)`(?:<br>| \|)", page, re.MULTILINE):
        assert page.count(f"`{call}`") == 1, call


def shown(text: str) -> Iterator[tuple[str, str]]:
    """The blocks of output in a chapter, each with its command; one without belongs to the last."""
    command = ""
    for block in re.findall(r"```text\n(.*?)```", text, re.DOTALL):
        if block.startswith("$ "):
            command, _, block = block.removeprefix("$ ").partition("\n")
        if "compiled.py" not in block:
            yield command, block


# Lines of an explanation that differ by machine and run; the others are compared to the digit.
VARYING = ("expected", "threads", "vector", "time", "rate", "page", "allocated")


def masked(text: str) -> list[str]:
    """Lines without what differs by machine and run: numbers, units, instruction sets, widths."""
    text = re.sub(r"\d[\d.]*", "#", text)
    text = re.sub(r"# (ns|µs|ms|s|B|kB|MB|GB)\b", "# unit", text)
    text = re.sub(r"\b(avx#|default)\b", "capability", text)
    return [" ".join(line.split()) for line in text.splitlines()]


def steady(line: str) -> str:
    """A line of an explanation, masked where it varies."""
    line = " ".join(line.split())
    return masked(line)[0] if line.startswith(VARYING) else line


def sections(text: str) -> dict[str, list[str]]:
    """The parts of an explanation by their first lines."""
    parts = (part.splitlines() for part in text.strip().split("\n\n"))
    return {lines[0]: [steady(line) for line in lines] for lines in parts}


def labels(lines: list[str]) -> list[str]:
    return [line.partition(" ")[0] for line in lines]


EXPLAINED = [one for one in shown(CHAPTER.read_text()) if one[0].startswith("iterlab explain")]
README = re.findall(r"```text\n(iterlab::add.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
EXPLAINED += [("iterlab explain add 'f32[4096,4096]' 'bf16[4096,4096].t()'", one) for one in README]


@of_the_chapters_torch
@pytest.mark.parametrize("command", dict(EXPLAINED))
def test_explanations_shown_are_those_of_the_tool(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(command)[1:]) == 0
    found = sections(capsys.readouterr().out)
    blocks = [block for given, block in EXPLAINED if given == command]
    for title, lines in (one for block in blocks for one in sections(block).items()):
        if title.startswith("→"):  # whether it pays is measured
            now = next(one for first, one in found.items() if first.startswith("→"))
            assert " ".join(now).startswith(" ".join(lines).partition(". It saves")[0])
        elif title == "Measured":
            assert labels(lines) == labels(found[title])
        elif title.startswith("Dispatch"):  # shown without the keys
            assert [line for line in found[title] if line in lines] == lines
        else:
            assert lines == found[title]


# The script that the chapter profiles.
SCRIPT = """import torch

x, b = torch.randn(1024, 4096), torch.randn(4096)
y = x + b
for _ in range(3):
    z = x + torch.randn(4096, 1024).t()
"""


@of_the_chapters_torch
def test_the_profile_shown_is_that_of_the_tool(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command, block = next(one for one in shown(CHAPTER.read_text()) if " profile " in one[0])
    (tmp_path / "xb.py").write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    # On a fast machine the plain addition may be too small a part to be shown.
    monkeypatch.setattr(import_module("iterlab.profile"), "_LEAST_SHARE", 0.0)
    assert main(shlex.split(command)[1:]) == 0
    found, wanted = masked(capsys.readouterr().out), masked(block)
    assert re.match(r"# unit in all, # unit in operators: ", found[0])
    for line in wanted:
        if "xb.py" in line or line.startswith(("→", "What to look at", "float", "slow path")):
            # The tree's order and branches follow the times.
            assert any(line.lstrip("├└│─ ") == one.lstrip("├└│─ ") for one in found), line
