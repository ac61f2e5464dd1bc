"""Predictions of ATen's loops and casts, against its published rules and what it copies."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch

import iterlab
from iterlab import aten_reduce, callee
from iterlab.aten_loop import SCALAR, predict
from iterlab.measured import quiet_profile
from iterlab.table import aten_name


def casts_in(call: Any) -> int:
    """How many operands ATen casts through a copy inside a call."""
    with quiet_profile() as profiler:
        call()
    return sum(event.name == "aten::_to_copy" for event in profiler.events())


@pytest.mark.parametrize("other", [torch.float32, torch.bfloat16, torch.int8, torch.float64])
def test_predicted_casts_are_those_that_aten_makes(other: torch.dtype) -> None:
    x, y = torch.ones(64, 64), torch.ones(64, 64, dtype=other)
    explained = iterlab.explain(torch.add, x, y)
    assert explained.aten is not None and explained.plan is None
    assert casts_in(lambda: torch.add(x, y)) == len(explained.aten.copies)
    assert explained.to_dict()["aten"]["prediction"] is True


def test_predicted_loops_of_aten() -> None:
    x = torch.ones(64, 64)
    loops = {
        "dense": (x, x),
        "row": (x, x[0]),
        "column": (x, x[:, :1]),
        "number": (x, 2.0),
        "transposed": (x, x.t()),
        "both transposed": (x.t(), x.t()),
        "every second": (x[:, ::2], x[:, ::2]),
    }
    found = {}
    for name, operands in loops.items():
        aten = iterlab.explain("add", *operands).aten
        assert aten is not None
        found[name] = aten.loop
    assert found == {
        "dense": "vectorized",
        "row": "vectorized",
        "column": "vectorized, one operand constant",
        "number": "vectorized, one operand constant",
        "transposed": "strided, one element at a time",
        "both transposed": "vectorized",
        "every second": "strided, one element at a time",
    }


F32 = torch.linspace(0.5, 2, 128).repeat(64, 1)
I32 = F32.int()
ROWS = "vectorized, rows through a buffer"
# ATen's kernels without vectors, and their neighbours that have them: of each a call, and its loop.
KERNELS: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], str | None]] = {
    "where": ("where", (F32 > 1, F32, F32), {}, SCALAR),
    "masked_fill": ("masked_fill", (F32, F32 > 1, 0.0), {}, SCALAR),
    "comparison": ("lt", (F32, F32), {}, SCALAR),
    "comparison in place": ("lt_", (F32, F32), {}, "vectorized"),
    "logical": ("logical_and", (F32, F32), {}, SCALAR),
    "add of bool": ("add", (F32 > 1, F32 > 1), {}, SCALAR),
    "power of integers": ("pow", (I32, I32), {}, SCALAR),
    "power of floats": ("pow", (F32, F32), {}, "vectorized"),
    "fmax of floats": ("fmax", (F32, F32), {}, SCALAR),
    "fmax of integers": ("fmax", (I32, I32), {}, "vectorized"),
    "rounded division": ("div", (I32, I32), {"rounding_mode": "floor"}, SCALAR),
    "rounded division of floats": ("div", (F32, F32), {"rounding_mode": "floor"}, "vectorized"),
    "decimals": ("round", (F32,), {"decimals": 2}, SCALAR),
    "sign of bytes": ("signbit", (I32.byte(),), {}, "vectorized"),
    "sign of floats": ("signbit", (F32,), {}, SCALAR),
    "special": ("special_entr", (F32,), {}, SCALAR),
    "next of halves": ("nextafter", (F32.bfloat16(), F32.bfloat16()), {}, SCALAR),
    "function of a library": ("exp", (F32,), {}, "vectorized"),
    "function of a library, apart": ("exp", (F32[:, ::2],), {}, ROWS),
    "vectors, apart": ("sigmoid", (F32[:, ::2],), {}, "strided, one element at a time"),
    "transposed copy": ("copy_", (F32, F32.new_ones(128, 64).t()), {}, "transposed in blocks"),
    "several operators": ("isclose", (F32, F32), {}, None),
    "oneDNN's": ("gelu", (F32,), {}, None),
}


@pytest.mark.parametrize("name", KERNELS)
def test_predicted_loops_follow_atens_kernels(name: str) -> None:
    op, operands, arguments, loop = KERNELS[name]
    aten = iterlab.explain(f"aten::{op}", *operands, **arguments).aten
    assert (None if aten is None else aten.loop) == loop


def test_twins_are_found_by_their_names_in_aten() -> None:
    names = {aten_name(one.torch_name) for one in iterlab.op_table() if one.torch_name}
    assert {name for name in names if not hasattr(torch.ops.aten, name)} == {
        "softsign",  # functions in Python, of several operators
        "tanhshrink",
    }


def test_predicted_loops_of_aten_on_cuda() -> None:
    """By ATen's rules; what ran is compared where there is a GPU."""
    x = torch.ones(64, 64, device="meta")
    entry = callee.twin_of("aten::add")
    assert entry is not None

    def loop(*operands: Any) -> str:
        facts = iterlab.plan("add", *operands)
        assert isinstance(facts, iterlab.Plan)
        predicted = predict(entry, operands, None, {}, facts, "cuda")
        assert predicted is not None and predicted.copies == ()
        return f"{predicted.loop}: {predicted.why}"

    assert loop(x, x) == "vectorized: every operand is contiguous and has the common dtype"
    assert loop(x, 2.0).startswith("vectorized")
    assert loop(x, x.bfloat16()).startswith("unrolled with casts")
    assert loop(x, x.t()) == "strided, an offset for each element: `other` is not contiguous"
    assert loop(x, x[0]).startswith("strided, an offset for each element")
    assert "with a cast for each" in loop(x, x.t().bfloat16())


REDUCTIONS = ("sum", "nansum", "mean", "prod", "amax", "amin", "any", "all", "argmax", "var", "std")


def copies_in(call: Any, numel: int) -> int:
    """How many tensors of that many elements ATen casts through a copy inside a call."""
    with quiet_profile(record_shapes=True) as profiler:
        call()
    copies = [event for event in profiler.events() if event.name == "aten::_to_copy"]
    return sum(torch.Size(event.input_shapes[0]).numel() == numel for event in copies)


@pytest.mark.parametrize("op", REDUCTIONS)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.int8, torch.bool, torch.int64, torch.float64]
)
def test_predicted_casts_of_reductions_are_those_that_aten_makes(
    op: str, dtype: torch.dtype
) -> None:
    x = (torch.randn(8, 40, 24) * 3).to(dtype)
    for dims in ([0], [2], [0, 2], [0, 1, 2]):
        dim = dims[0] if op in ("argmax", "prod") else dims
        call = functools.partial(getattr(torch, op), x, dim=dim)
        try:
            call()
        except RuntimeError:  # the operator does not take the dtype
            return
        predicted = iterlab.explain(f"aten::{op}", x, dim=dim).aten
        assert predicted is not None
        # A variance of all elements reads them as float64, which is its loop's own business.
        if predicted.loop != aten_reduce.OWN:
            assert copies_in(call, x.numel()) == len(predicted.copies), dims


def test_predicted_loops_of_atens_reductions() -> None:
    x = torch.ones(64, 512)
    inner, outer = aten_reduce.INNER, aten_reduce.OUTER
    loops = {
        ("sum", x, 1): inner,
        ("sum", x, 0): outer,
        ("sum", x.t(), 0): inner,
        ("sum", x[:, ::2], 1): aten_reduce.SCALAR,
        ("sum", x[:, :4], 1): aten_reduce.SCALAR,  # less than a vector
        ("sum", x.to(torch.int8), 1): inner,
        ("amax", x[:, :256].to(torch.int8), 1): inner,
        ("amax", x[:, :64].to(torch.int8), 1): aten_reduce.SCALAR,  # less than four vectors
        ("amax", x, 1): inner,
        ("amax", x, 0): outer,
        ("amax", x[:, ::2], 0): aten_reduce.SCALAR,
        ("amin", x.long(), 1): aten_reduce.ALONE,
        ("argmax", x, 0): aten_reduce.ALONE,
        ("var", x, 1): aten_reduce.ALONE,
        ("var", x, None): aten_reduce.OWN,
    }
    for (op, tensor, dim), loop in loops.items():
        explained = iterlab.explain(op, tensor, dim=dim)
        assert explained.aten is not None and explained.aten.loop == loop, (op, dim)
    # Two reduced dims around a kept one that is fastest: the kernel sees the reduced ones alone.
    apart = torch.ones(4, 8, 16, 32)
    aten = iterlab.explain("sum", apart, dim=(0, 2)).aten
    assert aten is not None and aten.loop == aten_reduce.SCALAR
    assert iterlab.explain("logsumexp", x, dim=1).aten is None  # it unfolds into others
