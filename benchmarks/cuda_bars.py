"""The bars of the CUDA backend: each case's share of the device-to-device copy rate.

Usage: python benchmarks/cuda_bars.py [--only TEXT] [--compile] [--side N] [--rounds N]
[--flushed]. Prints a table, ATen and (asked for) torch.compile beside ours, and writes all numbers
to $OUT/cuda_bars.json (or ./cuda_bars.json). Times are medians of CUDA events; the peers are
interleaved, inputs larger than the cache rotate, and the copy is measured in the same run.

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
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import torch

import iterlab  # noqa: F401  (loads torch.ops.iterlab)

Tensors = tuple[torch.Tensor, ...]
Call = Callable[..., object]
CACHE_BYTES = 256 << 20  # four times an H200's second-level cache
ROTATING = 4  # inputs of a case


@dataclass
class Case:
    """One row: how inputs are made, our call and ATen's, and what the issue asks."""

    name: str
    make: Callable[[], Tensors]
    ours: Call
    aten: Call
    bar: float
    over_aten: float = 0.0
    useful: float = 1.0  # share of the inputs' elements that the call reads


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


def rand(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random values of any dtype."""
    if dtype == torch.bool:
        return torch.rand(*shape, device="cuda") < 0.5
    if not dtype.is_floating_point:
        return torch.randint(0, 100, shape, dtype=dtype, device="cuda")
    return torch.rand(*shape, dtype=torch.float32, device="cuda").to(dtype)


def elementwise_cases(n: int) -> list[Case]:
    """The elementwise rows. `n` is the side of the square."""
    op = torch.ops.iterlab
    half, brain, byte = torch.float16, torch.bfloat16, torch.int8
    cases = []

    def add(
        name: str, make: Callable[[], Tensors], bar: float, over: float = 0.0, useful: float = 1.0
    ) -> None:
        cases.append(Case(f"add {name}", make, op.add, torch.add, bar, over, useful))

    for dtype in (torch.float32, brain, byte):
        add(
            f"contiguous {str(dtype)[6:]}",
            lambda t=dtype: (rand(n, n, dtype=t), rand(n, n, dtype=t)),
            1.0,
            0.98,
        )
    for dtype in (torch.float32, brain):
        add(
            f"misaligned {str(dtype)[6:]}",
            lambda t=dtype: (rand(n * n, dtype=t), rand(n * n + 1, dtype=t)[1:]),
            1.0,
            0.98,
        )
    add("row", lambda: (rand(n, n), rand(n)), 0.97, 1.4)
    add("column", lambda: (rand(n, n), rand(n, 1)), 0.97, 1.4)
    add("row bfloat16", lambda: (rand(n, n, dtype=brain), rand(n, dtype=brain)), 0.97, 1.4)
    add("f32+bf16", lambda: (rand(n, n), rand(n, n, dtype=brain)), 0.97, 1.4)
    add("f32+int8", lambda: (rand(n, n), rand(n, n, dtype=byte)), 0.97, 1.4)
    add("f16+bf16", lambda: (rand(n, n, dtype=half), rand(n, n, dtype=brain)), 0.97, 1.4)
    add(
        "int64+int32",
        lambda: (rand(n, n // 2, dtype=torch.int64), rand(n, n // 2, dtype=torch.int32)),
        0.97,
    )
    add("inner 3 of 4", lambda: (rand(n * n // 4, 4)[:, :3], rand(n * n // 4, 3)), 0.97, 1.2)
    add(
        "inner 3 of 4 both",
        lambda: (rand(n * n // 4, 4)[:, :3], rand(n * n // 4, 4)[:, :3]),
        0.97,
        1.2,
    )
    add("x + y.t()", lambda: (rand(n, n), rand(n, n).t()), 0.97, 2.4)
    add(
        "x + y.t() bfloat16",
        lambda: (rand(n, n, dtype=brain), rand(n, n, dtype=brain).t()),
        0.97,
        2.4,
    )
    c, w = 64, max(n // 64, 8)
    add(
        "NCHW + channels_last",
        lambda: (
            rand(64, c, w, w),
            rand(64, c, w, w).contiguous(memory_format=torch.channels_last),
        ),
        0.97,
        2.4,
    )
    add("inner stride 2", lambda: (rand(n, n), rand(n, 2 * n)[:, ::2]), 0.78)
    add("inner 65 of 66", lambda: (rand(n * n // 65, 66)[:, :65], rand(n * n // 65, 65)), 0.9)

    def to(tensor: torch.Tensor) -> torch.Tensor:
        return op.to(tensor, tensor.dtype)

    def to_out(tensor: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        return op.to.out(tensor, tensor.dtype, out=out)

    for dtype in (torch.float32, brain, byte):
        cases.append(
            Case(
                f"transpose copy {str(dtype)[6:]}",
                lambda t=dtype: (
                    rand(n, n, dtype=t).t(),
                    torch.empty(n, n, dtype=t, device="cuda"),
                ),
                to_out,
                lambda x, out: out.copy_(x),
                0.93,
                3.2,
            )
        )
    cases += [
        Case("copy float32", lambda: (rand(n, n),), to, lambda x: x.clone(), 1.0, 0.98),
        Case(
            "f32 to bf16",
            lambda: (rand(n, n),),
            lambda x: op.to(x, brain),
            lambda x: x.to(brain),
            0.97,
            1.0,
        ),
        Case(
            "where",
            lambda: (rand(n, n, dtype=torch.bool), rand(n, n), rand(n, n)),
            op.where,
            torch.where,
            1.0,
            0.98,
        ),
        Case("eq", lambda: (rand(n, n), rand(n, n)), op.eq, torch.eq, 1.0, 0.98),
        Case("exp", lambda: (rand(n, n),), op.exp, torch.exp, 1.0, 0.98),
        Case("exp bfloat16", lambda: (rand(n, n, dtype=brain),), op.exp, torch.exp, 0.9, 0.98),
    ]
    for name in ("gelu", "tanh", "silu"):
        if not hasattr(op, name):
            continue
        twin = torch.tanh if name == "tanh" else getattr(torch.nn.functional, name)
        over = 1.2 if name == "gelu" else 0.98
        cases.append(
            Case(
                f"{name} bfloat16",
                lambda: (rand(n, n, dtype=brain),),
                getattr(op, name),
                twin,
                0.9,
                over,
            )
        )
    return cases


def reduction_cases(n: int) -> list[Case]:
    """The rows of reductions."""
    op = torch.ops.iterlab
    cases = []

    def reduce(
        name: str,
        make: Callable[[], Tensors],
        ours: Call,
        aten: Call,
        bar: float,
        over: float = 0.0,
    ) -> None:
        cases.append(Case(name, make, ours, aten, bar, over))

    forms: list[tuple[str, tuple[int, ...], list[int] | None]] = [
        ("all", (n, n), None),
        ("inner", (n, n), [1]),
        ("outer", (n, n), [0]),
        ("middle", (64, n // 8, n // 8), [1]),
        ("(0, 2)", (64, n // 8, n // 8), [0, 2]),
    ]
    for dtype in (torch.float32, torch.bfloat16):
        for form, shape, dims in forms:
            for name in ("sum", "amax", "mean"):
                if name != "sum" and (dtype != torch.float32 or form == "(0, 2)"):
                    continue
                ours, aten = getattr(op, name), getattr(torch, name)
                given = tuple(range(len(shape))) if dims is None and name == "amax" else dims
                reduce(
                    f"{name} {form} {str(dtype)[6:]}",
                    lambda s=shape, t=dtype: (rand(*s, dtype=t),),
                    lambda x, f=ours, d=dims: f(x, d),
                    lambda x, f=aten, d=given: f(x) if d is None else f(x, d),
                    0.9,
                )
    for dtype in (torch.int8, torch.bool, torch.int32):
        for form, dims in (("all", None), ("inner", [1]), ("outer", [0])):
            reduce(
                f"sum {form} {str(dtype)[6:]}",
                lambda t=dtype: (rand(n, n, dtype=t),),
                lambda x, d=dims: op.sum(x, d),
                lambda x, d=dims: torch.sum(x) if d is None else torch.sum(x, d),
                0.85,
                15 if dtype == torch.int8 else 0,
            )
    for inner in (2, 3, 8, 32, 100):
        reduce(
            f"sum inner {inner}",
            lambda k=inner: (rand(n * n // k, k),),
            lambda x: op.sum(x, [1]),
            lambda x: torch.sum(x, 1),
            0.8,
            3 if inner == 8 else 0,
        )
    reduce(
        "sum [8M, 8] dim 0",
        lambda: (rand(n * n // 8, 8),),
        lambda x: op.sum(x, [0]),
        lambda x: x.sum(0),
        0.8,
    )
    reduce(
        "sum [8, 8M] dim 1",
        lambda: (rand(8, n * n // 8),),
        lambda x: op.sum(x, [1]),
        lambda x: x.sum(1),
        0.8,
    )
    if hasattr(op, "argmax"):
        for form, dim in (("inner", [1]), ("outer", [0]), ("all", None)):
            reduce(
                f"argmax {form}",
                lambda: (rand(n, n),),
                lambda x, d=dim: op.argmax(x, d),
                lambda x, d=dim: torch.argmax(x) if d is None else torch.argmax(x, d[0]),
                0.85,
                1.5,
            )
        reduce(
            "max dim 1",
            lambda: (rand(n, n),),
            lambda x: op.max.dim(x, [1]),
            lambda x: x.max(1),
            0.85,
            1.5,
        )
        for name in ("var", "norm", "logsumexp"):
            for form, dim in (("inner", [1]), ("outer", [0])):
                ours, aten = getattr(op, name), getattr(torch, name)
                reduce(
                    f"{name} {form}",
                    lambda: (rand(n, n),),
                    (lambda x, f=ours, d=dim: f(x, 2, d))
                    if name == "norm"
                    else (lambda x, f=ours, d=dim: f(x, d)),
                    (lambda x, f=aten, d=dim: f(x, 2, d))
                    if name == "norm"
                    else (lambda x, f=aten, d=dim: f(x, d)),
                    0.85,
                    1.7,
                )
        reduce(
            "any bool",
            lambda: (torch.zeros(n, n, dtype=torch.bool, device="cuda"),),
            lambda x: op.any(x, [1]),
            lambda x: torch.any(x, 1),
            0.85,
            1.7,
        )
    return cases


def copy_rate(timer: Timer, n: int) -> float:
    """Bytes per microsecond, read and written, of a device-to-device copy."""
    pairs = [(rand(n, n), torch.empty(n, n, device="cuda")) for _ in range(ROTATING)]
    time_us = timer.run({"copy": lambda x, y: y.copy_(x)}, pairs)["copy"]
    return 2 * bytes_of(pairs[0][0]) / time_us


def measure(case: Case, timer: Timer, rate: float, compile_: bool) -> dict[str, object]:
    """One row of the table."""
    inputs = [case.make() for _ in range(ROTATING)]
    row: dict[str, object] = {"name": case.name, "bar": case.bar, "over_aten": case.over_aten}
    try:
        result = outputs_of(case.ours(*inputs[0]))
    except (RuntimeError, NotImplementedError) as error:
        return row | {"error": str(error).splitlines()[0]}
    given = {tensor.data_ptr() for tensor in inputs[0]}
    moved = sum(bytes_of(tensor) for tensor in inputs[0])
    moved += sum(bytes_of(tensor) for tensor in result if tensor.data_ptr() not in given)
    calls = {"ours": case.ours, "aten": case.aten}
    if compile_:
        calls["compiled"] = torch.compile(case.aten, dynamic=False)
    times = timer.run(calls, inputs)
    row["bytes"] = moved
    for name, value in times.items():
        row[f"{name}_us"] = value
        row[f"{name}_share"] = moved / value / rate
    row["times_aten"] = times["aten"] / times["ours"]
    return row


def small_cases(timer: Timer) -> list[dict[str, object]]:
    """Small sizes: time of a kernel inside a CUDA graph of 20 calls, and wall time of a call."""
    rows = []
    op = torch.ops.iterlab
    pairs: dict[str, tuple[Call, Call]] = {
        "add": (lambda x: op.add(x, x), lambda x: torch.add(x, x)),
        "sum": (lambda x: op.sum(x), lambda x: torch.sum(x)),
    }
    for name, (ours, aten) in pairs.items():
        for log in (14, 16, 18, 20):
            x = rand(1 << log)
            row: dict[str, object] = {"name": f"{name} 2^{log} in a graph"}
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


def print_row(row: dict[str, object]) -> None:
    """One line of the table."""
    if "error" in row:
        print(f"{row['name']:32} {row['error']}")
        return
    line = f"{row['name']:32}"
    for who in ("ours", "aten", "compiled"):
        if f"{who}_us" in row:
            line += f" {row[f'{who}_us']:9.1f}"
        if f"{who}_share" in row:
            line += f" {row[f'{who}_share']:5.2f}"
    if "times_aten" in row:
        short = (
            [] if float(row["ours_share"]) >= float(row["bar"]) - 0.005 else [f"below {row['bar']}"]
        )  # type: ignore[arg-type]
        if float(row["times_aten"]) < float(row["over_aten"]):  # type: ignore[arg-type]
            short.append(f"below {row['over_aten']} x ATen")
        line += f"  x{row['times_aten']:.2f} {', '.join(short)}"
    print(line, flush=True)


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    parser.add_argument("--compile", action="store_true", help="torch.compile too")
    parser.add_argument("--side", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--flushed", action="store_true", help="one call after a memset")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    timer = Timer(rounds=options.rounds, flushed=options.flushed)
    rate = copy_rate(timer, options.side)
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, copy {rate / 1e3:.0f} GB/s")
    print(f"{'case':32} {'us':>9} share {'ATen us':>8} share")
    rows = []
    for case in elementwise_cases(options.side) + reduction_cases(options.side):
        if options.only not in case.name:
            continue
        rows.append(measure(case, timer, rate, options.compile))
        print_row(rows[-1])
        torch.cuda.empty_cache()
    if not options.only:
        for row in small_cases(timer):
            rows.append(row)
            print_row(row)
    folder = Path(os.environ.get("OUT", "."))
    facts = {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "copy_gb_s": rate / 1e3,
    }
    (folder / "cuda_bars.json").write_text(json.dumps(facts | {"rows": rows}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
