"""Explanations of calls on a GPU against what ran: launches, layers, ATen's loops, rates."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from test_explain import drawn

import iterlab
from iterlab import classify
from iterlab.measured import quiet_profile

pytestmark = pytest.mark.cuda

Ran = tuple[str, tuple[int, int], int]

# The entry point of each kernel, by the word that a launch has for it.
ENTRIES = {
    "vectorized": "vectorized_kernel",
    "strided": "strided_kernel",
    "box": "box_kernel",
    "tiled": "tiled_kernel",
    "generic": "generic_kernel",
    "inner": "reduce_inner_kernel",
    "outer": "reduce_outer_kernel",
    "short inner": "reduce_short_kernel",
    "short outer": "reduce_short_outer_kernel",
    "few rows": "reduce_few_rows_kernel",
    "merged": "reduce_merged_kernel",
}


def launched(call: Callable[[], object], folder: Path) -> list[Ran]:
    """iterlab's kernels of one call, as the profiler's trace has them: entry, grid, block."""
    call()
    torch.cuda.synchronize()
    with quiet_profile() as profiler:
        call()
        torch.cuda.synchronize()
    path = folder / "trace.json"
    profiler.export_chrome_trace(str(path))
    events = json.loads(path.read_text())["traceEvents"]
    kernels = [one for one in events if one.get("cat") == "kernel" and "iterlab::" in one["name"]]
    kernels.sort(key=lambda one: one["ts"])
    return [
        (
            one["name"].partition("<")[0].rpartition("::")[2],
            tuple(one["args"]["grid"][:2]),
            one["args"]["block"][0],
        )
        for one in kernels
    ]


def explained(op: str, *args: Any, **kwargs: Any) -> list[Ran]:
    launches = iterlab.explain(op, *args, **kwargs).launches
    return [(ENTRIES[one.kernel], one.grid, one.threads) for one in launches]


def test_the_launch_explained_is_the_launch_that_ran(device: str, tmp_path: Path) -> None:
    chance, seen = random.Random(7), set()
    for _ in range(80):
        shape = tuple(chance.choice((1, 2, 3, 17, 64, 300)) for _ in range(chance.randint(1, 3)))
        op = chance.choice(("add", "mul", "exp", "where"))
        count = {"exp": 1, "where": 3}.get(op, 2)
        operands = [drawn(shape, chance).to(device) for _ in range(count)]
        if op == "where":
            operands[0] = operands[0] > 0
        call = lambda: getattr(torch.ops.iterlab, op)(*operands)  # noqa: E731, B023
        ran = launched(call, tmp_path)
        assert ran == explained(op, *operands), (op, operands)
        seen |= {name for name, _, _ in ran}
    assert len(seen) >= 3


@pytest.mark.parametrize("dims", [[0], [1], [2], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_launch_of_a_reduction(
    dims: list[int], transposed: bool, device: str, tmp_path: Path
) -> None:
    x = torch.randn(40, 500, 3, device=device)
    x = x.transpose(0, 1) if transposed else x
    ran = launched(lambda: torch.ops.iterlab.sum(x, dims), tmp_path)
    assert ran == explained("sum", x, dim=dims) and len(ran) == 1


@pytest.mark.parametrize(
    ("kernel", "shape"),
    [
        ("short outer", (200, 57, 3)),
        ("few rows", (200, 6, 2048)),
        ("merged", (4, 10_000, 3)),
        ("outer", (200, 57, 512)),
    ],
)
def test_the_kernels_of_columns(
    kernel: str, shape: tuple[int, ...], device: str, tmp_path: Path
) -> None:
    x = torch.randn(shape, device=device)
    ran = launched(lambda: torch.ops.iterlab.sum(x, [1]), tmp_path)
    assert [name for name, _, _ in ran] == [ENTRIES[kernel]]
    assert ran == explained("sum", x, dim=[1])


def test_explaining_launches_and_writes_nothing(device: str, tmp_path: Path) -> None:
    x = torch.randn(64, 64, device=device)
    before, version = x.clone(), x._version
    assert launched(lambda: iterlab.explain("add_", x, 1.0), tmp_path) == []
    out = torch.zeros(64, 64, device=device)
    assert explained("add", x, x, out=out) != []
    torch.cuda.synchronize()
    assert torch.equal(x, before) and x._version == version
    assert torch.count_nonzero(out) == 0
    # Calls launch again afterwards.
    assert torch.equal(torch.ops.iterlab.add(x, 1.0), x + 1.0)


def test_a_gpus_explanation_speaks_of_the_gpu(device: str) -> None:
    x = torch.randn(2048, 2048, device=device)
    text = " ".join(str(iterlab.explain("add", x, x.t(), run=True)).split())
    assert "blocks of" in text and "tiled kernel" in text
    assert "avx" not in text and "threads up to" not in text
    found = iterlab.explain("add", x, x, run=True)
    assert found.dispatch.runs[-1] == "CUDA"
    measured = found.measured
    assert measured is not None and measured.memory_seconds is not None
    assert all("iterlab::" in name for name, _ in measured.kernels)
    assert measured.allocated == x.nbytes
    assert found.to_dict()["launches"][0]["kernel"] == "vectorized"


@pytest.mark.parametrize(
    "name", ["contiguous", "number", "transposed", "row", "casts", "casts transposed"]
)
def test_atens_loops_on_a_gpu_are_as_predicted(name: str, device: str) -> None:
    x = torch.randn(1024, 1024, device=device)
    operands: dict[str, tuple[Any, Any]] = {
        "contiguous": (x, x),
        "number": (x, 2.0),
        "transposed": (x, x.t()),
        "row": (x, x[0]),
        "casts": (x, x.bfloat16()),
        "casts transposed": (x, x.t().bfloat16()),
    }
    predicted = iterlab.explain("aten::add", *operands[name]).aten
    assert predicted is not None
    profile = iterlab.profile(torch.add, *operands[name])
    kernels = [node for node in profile.trace.walk() if node.kind == "kernel"]
    kinds = {
        "vectorized": classify.VECTORIZED,
        "unrolled with casts": classify.UNROLLED,
        "strided": classify.STRIDED,
    }
    assert [one.loop for one in kernels] == [kinds[predicted.loop.partition(",")[0]]]


@pytest.mark.parametrize("mode", ["grad", "no_grad", "inference_mode", "autocast"])
def test_layers_on_a_gpu(mode: str, device: str) -> None:
    contexts: dict[str, Callable[[], Any]] = {
        "grad": torch.enable_grad,
        "no_grad": torch.no_grad,
        "inference_mode": torch.inference_mode,
        "autocast": lambda: torch.autocast("cuda", torch.bfloat16),
    }
    x = torch.randn(8, 8, device=device)
    with contexts[mode]():
        layers = iterlab.explain("exp", x).dispatch  # is on autocast's list of float32 operators
    assert layers.runs[-1] == "CUDA"
    assert ("AutogradCUDA" in layers.runs) == (mode != "inference_mode")
    assert ("AutocastCUDA" in layers.runs) == (mode == "autocast")
