"""Benchmarks: each case's share of the rate of torch's contiguous add, peers taking turns."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

import iterlab
from iterlab import overhead, picture
from iterlab.cases import Call, Case, all_cases, is_reduction, side
from iterlab.peers import peers
from iterlab.picture import COLOURS
from iterlab.timing import interleaved, threads
from iterlab.units import bytes_text, time_text


@dataclass(frozen=True)
class Timing:
    """A peer's result: median seconds a call, its spread, bytes/s, and the share of the contiguous
    add's bytes/s.
    """

    seconds: float
    spread: float
    rate: float
    share: float


@dataclass(frozen=True)
class Result:
    """A case as measured. `form` is "out=" or "new" (the call makes its result)."""

    case: str
    group: str
    threads: int
    form: str
    path: str
    bytes: int
    peers: dict[str, Timing]


@dataclass(frozen=True)
class Settings:
    """What is measured and how."""

    n: int
    rounds: int
    threads: tuple[int, ...]
    quick: bool

    @classmethod
    def of(cls, options: argparse.Namespace) -> Settings:
        """Read the command line."""
        megabytes = (16 if options.quick else 64) if options.mb is None else options.mb
        rounds = (5 if options.quick else 7) if options.rounds is None else options.rounds
        counts = options.threads or sorted({1, torch.get_num_threads()})
        for name, value in (("mb", megabytes), ("rounds", rounds), ("threads", min(counts))):
            if value < 1:
                raise ValueError(f"iterlab: expected --{name} of at least 1, got {value}")
        return cls(side(megabytes), rounds, tuple(counts), options.quick)


def machine() -> dict[str, Any]:
    """Say what the numbers were measured on."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(
            line.partition(":")[2].strip() for line in lines if line.startswith("model name")
        )
    except (OSError, StopIteration):
        pass
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processor": model,
        "cores": torch.multiprocessing.cpu_count(),
        "torch": torch.__version__,
        "iterlab": iterlab.__version__,
        "capability": iterlab.cpu_capability(),
    }


def copy_and_triad(settings: Settings) -> dict[str, float]:
    """Measure torch's contiguous copy and triad (x + 2 y), in bytes/s, with outputs given."""
    x, y, out = (torch.ones(settings.n, settings.n) for _ in range(3))
    traffic = x.numel() * x.element_size()
    work = {
        "copy": lambda: out.copy_(x),
        "triad": lambda: torch.add(x, y, alpha=2, out=out),
    }
    times = interleaved(work, settings.rounds)
    return {
        "copy": 2 * traffic / times["copy"].median,
        "triad": 3 * traffic / times["triad"].median,
    }


def _plan_of(call: Call, out: torch.Tensor | None) -> tuple[str, int]:
    facts = iterlab.plan(call.op, *call.args, out=out, **call.arguments)
    return (facts.path if isinstance(facts, iterlab.Plan) else facts.form), facts.bytes


def _output(case: Case, call: Call, form: str) -> torch.Tensor | None:
    if form == "new" or is_reduction(case):
        return None
    if call.out is not None:
        return call.out
    result: torch.Tensor = getattr(torch.ops.iterlab, call.op).default(*call.args, **call.arguments)
    return result


def measure(case: Case, form: str, settings: Settings) -> Result | None:
    """Measure a case on the current number of threads; None where the form is not for it, or where
    a quick look leaves it out: it takes the list of operators once, on all threads.
    """
    if form == "new" and (case.out is not None or is_reduction(case)):
        return None
    count = torch.get_num_threads()
    listed = case.group == "operator"
    if settings.quick and listed and (form == "new" or count != max(settings.threads)):
        return None
    call = case.build(settings.n)
    out = _output(case, call, form)
    # Slow, and the same ratio elsewhere.
    generic = count == min(settings.threads) and form == "out=" and not (settings.quick and listed)
    work = peers(call, out, generic, compiled=not settings.quick)
    x, y, result = (torch.ones(settings.n, settings.n) for _ in range(3))
    times = interleaved(work | {"reference": lambda: torch.add(x, y, out=result)}, settings.rounds)
    path, traffic = _plan_of(call, out)
    reference = 3 * x.numel() * x.element_size() / times.pop("reference").median
    found = {
        name: Timing(one.median, one.spread, traffic / one.median, traffic / one.median / reference)
        for name, one in times.items()
    }
    return Result(case.name, case.group, count, form, path, traffic, found)


def measure_all(cases: list[Case], settings: Settings, console: Console) -> Iterator[Result]:
    """Measure cases for each number of threads and form, with a progress bar."""
    runs = [(count, form) for count in settings.threads for form in ("out=", "new")]
    bar = Progress(
        TextColumn("{task.description:32}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task("", total=len(runs) * len(cases))
        for count, form in runs:
            with threads(count):
                for case in cases:
                    bar.update(task, description=f"{case.name}, {count} thr., {form}")
                    result = measure(case, form, settings)
                    bar.advance(task)
                    if result is not None:
                        yield result


def _speed(result: Result) -> Text:
    if "torch" not in result.peers:
        return Text("–")
    ratio = result.peers["torch"].seconds / result.peers["iterlab"].seconds
    style = "green" if ratio >= 1.05 else "red" if ratio <= 0.95 else ""
    return Text(f"{ratio:.2f}×", style=style)


def result_table(results: list[Result], title: str) -> Table:
    """Give results as a table: shares of the contiguous add by peer."""
    shown = [peer for peer in COLOURS if any(peer in result.peers for result in results)]
    table = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("case", no_wrap=True)
    table.add_column("path", no_wrap=True)
    for name in ("bytes", "time", "±", "GB/s", *shown, "vs torch"):
        table.add_column(name, justify="right", no_wrap=True)
    for result in results:
        own = result.peers["iterlab"]
        shares = [
            f"{result.peers[peer].share:.2f}" if peer in result.peers else "–" for peer in shown
        ]
        figures = (time_text(own.seconds), f"{own.spread:.0%}", f"{own.rate / 1e9:.1f}")
        table.add_row(
            result.case, result.path, bytes_text(result.bytes), *figures, *shares, _speed(result)
        )
    return table


@dataclass(frozen=True)
class _Whole:
    """A table as wide as its cells: a narrow terminal wraps the rows, where rich cuts cells."""

    table: Table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self.table, options.update(width=sys.maxsize))


def _bars(result: Result) -> picture.Bars:
    shares = {peer: one.share for peer, one in result.peers.items()}
    return picture.Bars(result.case, shares, {peer: f"{one:.2f}" for peer, one in shares.items()})


def save_picture(
    path: Path, results: list[Result], about: dict[str, Any], rates: dict[int, Any]
) -> None:
    """Draw the shares, with outputs given, on the fewest threads that were measured.

    Layouts are on the left, reductions on the right. The operators' plain cases, of which there are
    many, are left to the table unless there is nothing else.
    """
    count = min(result.threads for result in results)
    chosen = [one for one in results if one.threads == count and one.form == "out="]
    sides = (
        [one for one in chosen if one.group in ("layout", "dtype", "copy")],
        [one for one in chosen if one.group == "reduction"],
    )
    columns = [side for side in sides if side] or [chosen]
    picture.save_bars(
        path,
        "Share of the contiguous rate, by case",
        f"bytes/s over those of torch's contiguous float32 add in the same rounds; "
        f"{count} thread(s), torch {about['torch']}, {about['processor']}; "
        f"copy {rates[count]['copy'] / 1e9:.1f} GB/s",
        "share",
        [[_bars(result) for result in column] for column in columns],
        reference=(1.0, "torch, contiguous add"),
        cap=2.0,
    )


def choose(wanted: list[str] | None) -> list[Case]:
    """Give the cases whose names contain one of the texts. Raises ValueError where none does."""
    cases = all_cases()
    if not wanted:
        return cases
    chosen = [case for case in cases if any(text.lower() in case.name.lower() for text in wanted)]
    if not chosen:
        few = ", ".join(f"'{case.name}'" for case in cases[:40:8])
        raise ValueError(
            f"iterlab: expected a part of the name of a case, such as {few}, got '{wanted[0]}'"
        )
    return chosen


def print_results(
    console: Console, results: list[Result], rates: dict[int, dict[str, float]]
) -> None:
    """Print a table for each number of threads and form; `rates` are torch's, by threads."""
    for count in sorted({result.threads for result in results}):
        for form, words in (("out=", "output given"), ("new", "new output")):
            rows = [one for one in results if one.threads == count and one.form == form]
            if rows:
                figures = ", ".join(
                    f"{name} {rate / 1e9:.1f} GB/s" for name, rate in rates[count].items()
                )
                console.print()
                table = result_table(rows, f"{count} thread(s), {words}; torch's {figures}")
                console.print(_Whole(table), crop=False)


def run(console: Console, options: argparse.Namespace) -> None:
    """Measure what the command line asks for; print, and save JSON and a picture. Ctrl-C ends the
    measuring; what was measured by then is printed and saved.
    """
    settings, about, cases = Settings.of(options), machine(), choose(options.case)
    console.print(Text(" · ".join(f"{key} {value}" for key, value in about.items()), style="dim"))
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    if load > about["cores"]:
        console.print(f"this machine is busy (load {load:.1f}): times say little", style="yellow")
    if options.overhead:
        overhead.run(console, Path(options.json) if options.json else None)
        return
    rates = {}
    for count in settings.threads:
        with threads(count):
            rates[count] = copy_and_triad(settings)
    results: list[Result] = []
    try:
        for result in measure_all(cases, settings, console):
            results.append(result)
    except KeyboardInterrupt:
        console.print(f"stopped after {len(results)} results", style="yellow")
    if not results:
        return
    console.print(
        f"shares are of the bytes/s of torch's contiguous float32 add in the same rounds, "
        f"operands of {bytes_text(4 * settings.n**2)}; ± is half the distance of the quartiles",
    )
    print_results(console, results, rates)
    if options.json:
        data = {
            "machine": about,
            "n": settings.n,
            "rates": rates,
            "results": [asdict(one) for one in results],
        }
        Path(options.json).write_text(json.dumps(data, indent=1), encoding="utf-8")
        console.print(f"\nresults: {Path(options.json).resolve()}")
    save_picture(Path(options.picture), results, about, rates)
    console.print(f"\npicture of the shares: {Path(options.picture).resolve()}")
