"""The overhead of a call: nanoseconds for 16 elements, by entry point and autograd mode."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from iterlab import _functions
from iterlab.timing import Work, interleaved

MODES: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "grad": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
}


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


def run(console: Console, path: Path | None) -> None:
    """Measure and print; save as JSON where a path is given."""
    found = measure()
    table = Table(
        title="nanoseconds a call, 16 float32", title_justify="left", box=None, padding=(0, 3, 0, 0)
    )
    table.add_column("call")
    for mode in MODES:
        table.add_column(mode, justify="right")
    for name, by_mode in found.items():
        table.add_row(name, *(f"{by_mode[mode]:.0f}" for mode in MODES))
    console.print(table)
    if path is not None:
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")
        console.print(f"results: {path.resolve()}")
