"""The bars of the CUDA backend: each case's share of the device-to-device copy rate.

Usage: python benchmarks/cuda_bars.py [--only TEXT] [--peers NAME ...] [--side N] [--rounds N]
[--flushed]. Prints a table, and writes all numbers to $OUT/cuda_bars.json, the table of docs to
$OUT/cuda_bars.md and a picture of it to $OUT/cuda_bars.png (or in the working folder). Times are
medians of CUDA events; the peers are interleaved, inputs larger than the cache rotate, and the copy
is measured in the same run. Peers: ATen always, and torch.compile, CuPy and jiterator where asked
for and where they can do a case.

An interval is a call for each of the inputs, so that every call pays for the lines it leaves in the
cache to be written, and for no other's. With --flushed it is one call, after a memset of 256 MB:
that leaves the second-level cache full of lines to be written, which the call then pays for.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from cuda_cases import Call, Case, Tensors, elementwise_cases, rand, reduction_cases

import iterlab
from iterlab import picture

CACHE_BYTES = 256 << 20  # four times an H200's second-level cache
ROTATING = 4  # inputs of a case
NAMES = {
    "ours": "iterlab",
    "aten": "torch",
    "compile": "torch.compile",
    "cupy": "CuPy",
    "jiterator": "jiterator",
}
Row = dict[str, Any]


def bytes_of(tensor: torch.Tensor) -> int:
    """Distinct bytes that a tensor shows."""
    count = 1
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        count *= size if stride else 1
    return count * tensor.element_size()


def outputs_of(result: object) -> Tensors:
    """The tensors of a result."""
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)  # type: ignore[arg-type]


@dataclass
class Timer:
    """Interleaved timing of several calls over rotating inputs."""

    rounds: int = 15
    flushed: bool = False
    flush: torch.Tensor = field(
        default_factory=lambda: torch.empty(CACHE_BYTES, dtype=torch.int8, device="cuda")
    )

    def run(self, calls: dict[str, Call], inputs: list[Tensors]) -> dict[str, float]:
        """Median microseconds of each call."""
        times: dict[str, list[float]] = {name: [] for name in calls}
        for name in calls:
            for args in inputs[:2]:
                calls[name](*args)
        torch.cuda.synchronize()
        for round_ in range(self.rounds):
            for name, call in calls.items():
                self.flush.zero_()  # keeps the launch queue full
                timed = inputs
                if self.flushed:
                    timed = [inputs[round_ % len(inputs)]]
                else:
                    call(*inputs[-1])  # drives the memset's lines out
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
                for args in timed:
                    call(*args)
                end.record()
                end.synchronize()
                times[name].append(start.elapsed_time(end) * 1e3 / len(timed))
        return {name: statistics.median(values) for name, values in times.items()}


def copy_rate(timer: Timer, n: int) -> float:
    """Bytes per microsecond, read and written, of a device-to-device copy."""
    pairs = [(rand(n, n), torch.empty(n, n, device="cuda")) for _ in range(ROTATING)]
    time_us = timer.run({"copy": lambda x, y: y.copy_(x)}, pairs)["copy"]
    return 2 * bytes_of(pairs[0][0]) / time_us


def cupy_call(case: Case, inputs: list[Tensors]) -> Call:
    """The case in CuPy, on arrays made beforehand of the same memory."""
    import cupy

    arrays = {id(args): [cupy.from_dlpack(x) for x in args] for args in inputs}
    of = {args[0].data_ptr(): arrays[id(args)] for args in inputs}
    assert case.cupy is not None
    function = case.cupy
    return lambda *args: function(*of[args[0].data_ptr()])


def jiterator_call(case: Case, count: int) -> Call:
    """The case as a kernel that torch compiles at run time."""
    names = "xyz"[:count]
    parameters = ", ".join(f"T {name}" for name in names)
    code = f"template <typename T> T formula({parameters}) {{ return {case.jit}; }}"
    return torch.cuda.jiterator._create_jit_fn(code)  # type: ignore[no-any-return]


def peers_of(case: Case, inputs: list[Tensors], wanted: list[str]) -> dict[str, Call]:
    """iterlab, ATen, and those of the other peers that do the case and agree."""
    calls = {"ours": case.ours, "aten": case.aten}
    want = outputs_of(case.aten(*inputs[0]))
    for name in wanted:
        try:
            if name == "compile":
                call: Call = torch.compile(case.aten, dynamic=False)
            elif name == "cupy" and case.cupy is not None:
                call = cupy_call(case, inputs)
            elif name == "jiterator" and case.jit is not None:
                call = jiterator_call(case, len(inputs[0]))
            else:
                continue
            got: Any = call(*inputs[0])
            got = torch.from_dlpack(got) if name == "cupy" else outputs_of(got)[0]
            agrees = torch.allclose(got.float(), want[0].float(), rtol=1e-2, atol=1e-2)
        except Exception as error:  # a peer that cannot is left out, whatever it raises
            print(f"  {name} is left out: {type(error).__name__}: {str(error)[:90]}")
            continue
        if agrees:
            calls[name] = call
        else:
            print(f"  {name} is left out: another result")
    return calls


def measure(case: Case, timer: Timer, rate: float, wanted: list[str]) -> Row:
    """One row of the table."""
    inputs = [case.make() for _ in range(ROTATING)]
    row: Row = {"name": case.name, "bar": case.bar, "over_aten": case.over_aten}
    result = outputs_of(case.ours(*inputs[0]))
    given = {tensor.data_ptr() for tensor in inputs[0]}
    moved = sum(bytes_of(tensor) for tensor in inputs[0])
    moved += sum(bytes_of(tensor) for tensor in result if tensor.data_ptr() not in given)
    times = timer.run(peers_of(case, inputs, wanted), inputs)
    row["bytes"] = moved
    for name, value in times.items():
        row[f"{name}_us"] = value
        row[f"{name}_share"] = moved / value / rate
    row["times_aten"] = times["aten"] / times["ours"]
    return row


def small_cases(timer: Timer) -> list[Row]:
    """Small sizes: time of a kernel inside a CUDA graph of 20 calls, and wall time of a call."""
    rows = []
    pairs: dict[str, tuple[Call, Call]] = {
        "add": (lambda x: iterlab.add(x, x), lambda x: torch.add(x, x)),
        "sum": (lambda x: iterlab.sum(x), lambda x: torch.sum(x)),
    }
    for name, (ours, aten) in pairs.items():
        for log in (14, 16, 18, 20):
            x = rand(1 << log)
            row: Row = {"name": f"{name} 2^{log} in a graph"}
            for who, call in (("ours", ours), ("aten", aten)):
                call(x)
                torch.cuda.synchronize()
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    for _ in range(20):
                        call(x)
                row[f"{who}_us"] = timer.run({"replay": graph.replay}, [()])["replay"] / 20
            rows.append(row)
        x = rand(16, 16)
        row = {"name": f"{name} 16x16, wall"}
        for who, call in (("ours", ours), ("aten", aten)):
            for _ in range(200):
                call(x)
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(2000):
                call(x)
            row[f"{who}_us"] = (time.perf_counter() - start) / 2000 * 1e6
            torch.cuda.synchronize()
        rows.append(row)
    return rows


def sweep(timer: Timer, n: int) -> list[Row]:
    """The same number of elements with other innermost sizes: the slowest over the fastest."""
    sizes = [d for d in (2, 3, 5, 7, 8, 16, 31, 32, 33, 64, 127, 128, 256, 1000) if d <= n]
    sizes += [n // 2, n, 8 * n]
    kinds: dict[str, tuple[Call, Call, float]] = {
        "add row": (lambda d: (rand(n * n // d, d), rand(d)), iterlab.add, 1.3),
        "add sliced": (
            lambda d: (rand(n * n // d, d), rand(n * n // d, d + 1)[:, 1:]),
            iterlab.add,
            1.3,
        ),
        "sum inner": (lambda d: (rand(n * n // d, d),), lambda x: iterlab.sum(x, [1]), 1.5),
        "sum outer": (lambda d: (rand(d, n * n // d),), lambda x: iterlab.sum(x, [0]), 1.5),
    }
    rows = []
    for name, (make, call, bar) in kinds.items():
        times = {}
        for size in sizes:
            inputs: Any = [make(size) for _ in range(2)]
            moved = sum(bytes_of(x) for x in inputs[0])
            moved += bytes_of(outputs_of(call(*inputs[0]))[0])
            times[size] = timer.run({"ours": call}, inputs)["ours"] / moved  # per byte
            del inputs
            torch.cuda.empty_cache()
        worst = max(times, key=lambda d: times[d])
        best = min(times, key=lambda d: times[d])
        ratio = times[worst] / times[best]
        rows.append(
            {
                "name": f"flatness of {name}",
                "ratio": ratio,
                "bar": bar,
                "worst": worst,
                "best": best,
            }
        )
    return rows


def remark(row: Row) -> str:
    """What a row is short of."""
    short = [] if row["ours_share"] >= row["bar"] - 0.005 else [f"below {row['bar']}"]
    if row["times_aten"] < row["over_aten"]:
        short.append(f"below {row['over_aten']} x ATen")
    return ", ".join(short)


def line_of(row: Row) -> str:
    """One line of the table on the screen."""
    line = f"{row['name']:32}"
    if "ratio" in row:
        line += (
            f" {row['ratio']:.2f} (bar {row['bar']}), slowest {row['worst']}, fastest {row['best']}"
        )
        return line
    for who in NAMES:
        if f"{who}_us" in row:
            line += f" {who} {row[f'{who}_us']:.1f}"
        if f"{who}_share" in row:
            line += f" {row[f'{who}_share']:.2f}"
    return line + (f"  x{row['times_aten']:.2f} {remark(row)}" if "times_aten" in row else "")


def markdown(facts: Row, rows: list[Row]) -> str:
    """The table of docs/cuda.md."""
    shown = [who for who in NAMES if any(f"{who}_share" in row for row in rows)]
    lines = [", ".join(f"{key} {value}" for key, value in facts.items()) + ".", ""]
    lines.append("| case | " + " | ".join(NAMES[who] for who in shown) + " | over torch | bar | |")
    lines.append("|---|" + "---|" * (len(shown) + 3))
    for row in (row for row in rows if "times_aten" in row):
        cells = [
            f"{row[f'{who}_us']:.1f} µs, {row[f'{who}_share']:.2f}" if f"{who}_us" in row else "–"
            for who in shown
        ]
        bar = f"{row['bar']:.2f}" if row["bar"] else "–"
        cells += [f"{row['times_aten']:.2f}×", bar, remark(row)]
        lines.append(f"| {row['name']} | " + " | ".join(cells) + " |")
    lines += ["", "| small calls, µs | iterlab | torch |", "|---|---|---|"]
    for row in (row for row in rows if "ours_us" in row and "bar" not in row):
        lines.append(f"| {row['name']} | {row['ours_us']:.1f} | {row['aten_us']:.1f} |")
    lines += [
        "",
        "| sweep | slowest / fastest | bar | slowest at | fastest at |",
        "|---|---|---|---|---|",
    ]
    for row in (row for row in rows if "ratio" in row):
        cells = [row["name"], f"{row['ratio']:.2f}", row["bar"], row["worst"], row["best"]]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines) + "\n"


def save_picture(path: Path, facts: Row, rows: list[Row]) -> None:
    """Bars of the shares: elementwise calls on the left, reductions on the right."""
    shares = [row for row in rows if "times_aten" in row]
    names = {case.name for case in reduction_cases(facts["side"])}

    def bars(row: Row) -> picture.Bars:
        values = {NAMES[who]: row[f"{who}_share"] for who in NAMES if f"{who}_share" in row}
        return picture.Bars(row["name"], values, {k: f"{v:.2f}" for k, v in values.items()})

    columns = [
        [bars(row) for row in shares if (row["name"] in names) == reduces]
        for reduces in (False, True)
    ]
    picture.save_bars(
        path,
        "Share of the copy rate on a GPU, by case",
        f"bytes/s over those of a device-to-device copy in the same run "
        f"({facts['copy GB/s']} GB/s); {facts['device']}, torch {facts['torch']}, {facts['date']}",
        "share",
        [column for column in columns if column],
        reference=(1.0, "copy"),
        cap=1.2,
    )


def main() -> int:
    """Measure, print, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--peers", nargs="*", default=[], choices=["compile", "cupy", "jiterator"])
    parser.add_argument("--side", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--flushed", action="store_true", help="one call after a memset")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    timer = Timer(rounds=options.rounds, flushed=options.flushed)
    rate = copy_rate(timer, options.side)
    facts: Row = {
        "device": torch.cuda.get_device_name(),
        "date": time.strftime("%Y-%m-%d"),
        "torch": torch.__version__,
        "CUDA": torch.version.cuda,
        "iterlab": iterlab.__version__,
        "side": options.side,
        "copy GB/s": round(rate / 1e3),
    }
    print(facts)
    rows = []
    for case in elementwise_cases(options.side) + reduction_cases(options.side):
        if options.only not in case.name:
            continue
        rows.append(measure(case, timer, rate, options.peers))
        print(line_of(rows[-1]), flush=True)
        torch.cuda.empty_cache()
    if not options.only:
        for row in small_cases(timer) + sweep(timer, options.side):
            rows.append(row)
            print(line_of(row), flush=True)
    folder = Path(os.environ.get("OUT", "."))
    (folder / "cuda_bars.json").write_text(json.dumps(facts | {"rows": rows}, indent=1))
    (folder / "cuda_bars.md").write_text(markdown(facts, rows))
    save_picture(folder / "cuda_bars.png", facts, rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
