"""The overhead of a call: nanoseconds for 16 elements, by entry point and autograd mode, and the
planner's share of it by stage.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from iterlab import _C, _functions
from iterlab.planning import describe
from iterlab.timing import Work, interleaved

MODES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "grad": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}

# The planner's stages in its order, all of them, and the calls.
_COLUMNS = ("broadcast", "dtypes", "layout", "overlap", "loop", "plan", "iterlab.add", "torch.add")


def entry_points(x: torch.Tensor, y: torch.Tensor) -> dict[str, Work]:
    """Give the ways to add two tensors."""
    aten, own = torch.ops.aten.add.Tensor, torch.ops.iterlab.add.default
    packet = torch.ops.iterlab.add
    return {
        "torch.add": lambda: torch.add(x, y),
        "torch.ops.aten.add.Tensor": lambda: aten(x, y),
        "iterlab.add": lambda: _functions.add(x, y),
        "torch.ops.iterlab.add": lambda: packet(x, y),
        "torch.ops.iterlab.add.default": lambda: own(x, y),
    }


def measure(rounds: int = 15) -> dict[str, dict[str, float]]:
    """Time each entry point in each mode: nanoseconds a call, by entry point and mode. The median
    of the rounds.
    """
    x, y = torch.randn(16), torch.randn(16)
    result: dict[str, dict[str, float]] = {name: {} for name in entry_points(x, y)}
    for mode, context in MODES.items():
        with context():
            for name, times in interleaved(entry_points(x, y), rounds, least=0.02).items():
                result[name][mode] = times.median * 1e9
    return result


def planned_calls() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Give additions of 16 elements that are planned differently."""
    x, square = torch.randn(16), torch.randn(4, 4)
    return {
        "contiguous": (x, torch.randn(16)),
        "strided": (torch.randn(32)[::2], torch.randn(32)[::2]),
        "transposed": (square, torch.randn(4, 4).t()),
        "row broadcast": (square, torch.randn(4)),
        "column broadcast": (square, torch.randn(4, 1)),
        "f32 + bf16": (x, torch.randn(16).bfloat16()),
    }


def measure_plans(rounds: int = 15) -> dict[str, dict[str, float]]:
    """Time the planner's stages, `iterlab.add` and `torch.add` under inference_mode: nanoseconds,
    by call and stage. The median of the rounds. Contiguous operands are planned at once.
    """
    result = {}
    with torch.inference_mode():
        for name, (x, y) in planned_calls().items():
            operands = [describe(x), describe(y)]
            stages = [dict(_C.plan_times("add", operands, 10_000)) for _ in range(rounds)]
            peers = {
                "iterlab.add": lambda x=x, y=y: _functions.add(x, y),
                "torch.add": lambda x=x, y=y: torch.add(x, y),
            }
            times = interleaved(peers, rounds, least=0.02)
            result[name] = {
                stage: statistics.median(one[stage] for one in stages) for stage in stages[0]
            } | {peer: times[peer].median * 1e9 for peer in peers}
    return result


def _table(title: str, first: str, columns: Iterable[str]) -> Table:
    table = Table(title=title, title_justify="left", box=None, padding=(0, 3, 0, 0))
    table.add_column(first)
    for column in columns:
        table.add_column(column, justify="right")
    return table


def _plans_table(plans: dict[str, dict[str, float]]) -> Table:
    table = _table(
        "of which the planner, by stage, under inference_mode", "operands", [*_COLUMNS, "planner"]
    )
    for name, found in plans.items():
        share = found["plan"] / found["iterlab.add"]
        cells = (f"{found[stage]:.0f}" if stage in found else "" for stage in _COLUMNS)
        table.add_row(name, *cells, f"{share:.0%}")
    return table


def run(console: Console, path: Path | None) -> None:
    """Measure and print; save as JSON where a path is given."""
    calls, plans = measure(), measure_plans()
    table = _table("nanoseconds a call, 16 float32", "call", MODES)
    for name, by_mode in calls.items():
        table.add_row(name, *(f"{by_mode[mode]:.0f}" for mode in MODES))
    console.print(table)
    console.print()
    console.print(_plans_table(plans))
    if path is not None:
        path.write_text(json.dumps({"calls": calls, "plans": plans}, indent=1), encoding="utf-8")
        console.print(f"results: {path.resolve()}")
