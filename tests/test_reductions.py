"""Every reduction: values, dims, dtypes, out=; same bits for any threads, rows and layout."""

from __future__ import annotations

import functools
import itertools
import math
from typing import Any

import calls
import pytest
import samples
import torch
from calls import function, name_of, outputs_of

import iterlab
from iterlab import OpEntry

pytestmark = calls.TORCH_WARNINGS

# The sum stands for the signature that most have; the families are in test_reduce_families.py.
REDUCTIONS = [entry for entry in calls.REDUCTIONS if entry.name == "sum"]
# A sum, and a product, whose steps are several roundings for complex numbers.
IN_ORDER = [entry for entry in calls.REDUCTIONS if entry.name in ("sum", "prod")]

DIMS: list[Any] = [None, [], 0, 1, -1, [0, 2], [1, 2], [0, 1], [0, 1, 2], [-1, -3]]
SHAPES = [(5, 6, 7), (1, 40, 3), (300, 2, 9), (2, 3, 300), (4, 1, 1), (3, 0, 4), (2, 2, 0)]


def layouts_of(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same values in several layouts."""
    ndim = x.dim()
    gaps = torch.zeros(*x.shape[:-1], 2 * x.shape[-1], dtype=x.dtype, device=x.device)[..., ::2]
    padded = torch.zeros(*x.shape[:-1], x.shape[-1] + 3, dtype=x.dtype, device=x.device)[..., 1:-2]
    shifted = torch.zeros(x.numel() + 1, dtype=x.dtype, device=x.device)[1:].view(x.shape)
    found = {"contiguous": x, "inner stride 2": gaps, "longer rows": padded, "misaligned": shifted}
    for order in itertools.permutations(range(ndim)):
        stored = torch.empty([x.shape[d] for d in order], dtype=x.dtype, device=x.device)
        found[f"stored as {order}"] = stored.permute([order.index(d) for d in range(ndim)])
    for view in found.values():
        if view is not x:
            view.copy_(x)
    return found


def reference(entry: OpEntry, x: torch.Tensor, dim: Any, keepdim: bool) -> tuple[torch.Tensor, ...]:
    """torch's twin in float64, complex128 or int64."""
    wide = torch.int64 if samples.is_integral(x.dtype) else torch.float64
    wide = torch.complex128 if x.dtype.is_complex else wide
    if x.dim() == 0 or dim is None:
        dim = [] if dim is None else dim
    return outputs_of(calls.twin(entry)(x.to(wide), dim, keepdim))


def tolerance(dtype: torch.dtype) -> float:
    return 4 * torch.finfo(dtype).eps


def check_values(entry: OpEntry, x: torch.Tensor, dim: Any, keepdim: bool, what: object) -> None:
    results = outputs_of(function(entry)(x, dim, keepdim))
    for got, want in zip(results, reference(entry, x, dim, keepdim), strict=True):
        assert got.shape == want.shape, what
        if samples.is_integral(got.dtype):
            assert torch.equal(got, want.to(got.dtype)), what
        else:
            rtol = tolerance(got.dtype)
            torch.testing.assert_close(
                got.to(want.dtype), want, rtol=rtol, atol=rtol, msg=lambda m: f"{what}: {m}"
            )


@pytest.mark.parametrize("entry", REDUCTIONS, ids=name_of)
def test_documented(entry: OpEntry) -> None:
    assert len(entry.doc) > 10 and entry.doc.endswith(".")
    assert entry.torch_name is None or callable(calls.twin(entry))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("entry", REDUCTIONS, ids=name_of)
def test_values_of_every_dim_set_and_layout(
    entry: OpEntry, shape: tuple[int, ...], device: str
) -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.int8, torch.complex64):
        if dtype not in calls.input_dtypes(entry):
            continue
        values = samples.ordinary_values(dtype, math.prod(shape)).view(shape).to(device)
        for (name, x), dim in itertools.product(layouts_of(values).items(), DIMS):
            for keepdim in (False, True):
                check_values(entry, x, dim, keepdim, (dtype, name, dim, keepdim))


@pytest.mark.parametrize("entry", REDUCTIONS, ids=name_of)
def test_dtype_shape_and_strides_of_every_dtype(entry: OpEntry, device: str) -> None:
    for dtype in calls.input_dtypes(entry):
        for shape in ((4, 5), (), (0,), (3, 0)):
            x = samples.ordinary_values(dtype, math.prod(shape)).view(shape).to(device)
            for dim, keepdim in itertools.product((None, *range(len(shape))), (False, True)):
                what = (dtype, shape, dim, keepdim)
                got = outputs_of(function(entry)(x, dim, keepdim))[0]
                try:
                    want = calls.twin(entry)(x, [] if dim is None else dim, keepdim)
                except NotImplementedError:  # uint16, uint32, uint64, complex32
                    continue
                want = outputs_of(want)[0]
                assert (got.dtype, got.shape, got.stride()) == (
                    want.dtype,
                    want.shape,
                    want.stride(),
                ), what
                torch.testing.assert_close(got, want, rtol=1e-2, atol=0, equal_nan=True)


@pytest.mark.parametrize("entry", REDUCTIONS, ids=name_of)
def test_dtype_argument(entry: OpEntry, device: str) -> None:
    x = torch.tensor([[1.75, 2.5, -3.25], [100.0, 27.0, 1.0]], device=device)
    for source, dtype in itertools.product(
        (torch.float32, torch.int32, torch.bool, torch.bfloat16), samples.ALL_DTYPES
    ):
        if samples.short_name(dtype) not in entry.dtypes:
            with pytest.raises(NotImplementedError, match=rf"^iterlab::{entry.name}: expected"):
                function(entry)(x.to(source), 1, dtype=dtype)
            continue
        if dtype in (*samples.WIDE_UNSIGNED, torch.uint8) and source in (
            torch.float32,
            torch.bfloat16,
        ):
            continue  # a negative float as an unsigned integer: left to the compiler by C++
        got = function(entry)(x.to(source), 1, dtype=dtype)
        converted = x.to(source).to(dtype)
        assert got.dtype == dtype
        want = calls.twin(entry)(converted.to(samples.WIDER.get(dtype, dtype)), 1)
        torch.testing.assert_close(got.to(want.dtype), want.to(dtype).to(want.dtype))


@pytest.mark.parametrize("entry", REDUCTIONS, ids=name_of)
def test_out(entry: OpEntry, device: str) -> None:
    x = torch.rand(6, 5, 8, device=device)
    for dim in (0, 1, 2, [0, 2]):
        want = function(entry)(x, dim)
        pad = torch.full((*want.shape[:-1], 3 * want.shape[-1]), 7.0, device=device)
        out = pad[..., 1::3]
        assert function(entry)(x, dim, out=out) is out
        calls.assert_bitwise(out, want)
        assert (pad[..., 0::3] == 7).all() and (pad[..., 2::3] == 7).all()
        if want.dim() == 2:
            flipped = torch.empty(want.shape[::-1], device=device).t()
            function(entry)(x, dim, out=flipped)
            calls.assert_bitwise(flipped, want)
        resized = torch.empty(0, device=device)
        version = resized._version
        function(entry)(x, dim, out=resized)
        calls.assert_bitwise(resized, want)
        assert resized._version > version


def into(reduce: Any, x: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    return reduce(x, 0, out=out)


@pytest.mark.parametrize("name", ("sum", "nansum", "prod", "mean"))
def test_elements_take_the_dtype_of_out(name: str, device: str) -> None:
    """As in torch, where there is no dtype argument: nothing is rounded or wraps around before."""
    x = torch.tensor([[1.75, 2.5, -3.25], [100.0, 27.0, 1.0]], device=device)
    ours = getattr(torch.ops.iterlab, name)
    twin = torch.sum if name == "nansum" else getattr(torch, name)  # of integers from 2.12 on
    floating = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    dtypes = (*samples.SIGNED, torch.bool, *floating)
    if name != "nansum":  # of real numbers alone
        dtypes += (torch.complex64,)
    for source, dtype in itertools.product(dtypes, dtypes):
        operand = x.to(source)
        out, meta = (torch.empty(3, dtype=dtype, device=d) for d in (device, "meta"))
        functionalized = torch.func.functionalize(functools.partial(into, ours))
        try:
            want = twin(operand.cpu(), 0, dtype=dtype).to(device)
        except RuntimeError:
            for call in (functools.partial(into, ours), functionalized):
                with pytest.raises((RuntimeError, NotImplementedError), match="expected"):
                    call(operand, out)
            continue
        assert ours(operand, 0, out=out) is out
        assert ours(operand.to("meta"), 0, out=meta) is meta
        torch.testing.assert_close(out, want, msg=f"{name} of {source} to {dtype}")
        calls.assert_bitwise(out, ours(operand, 0, dtype=dtype), (source, dtype))
        calls.assert_bitwise(functionalized(operand, torch.empty_like(out)), out, (source, dtype))
    large = torch.full((3,), 60_000.0, dtype=torch.float16, device=device)
    total = torch.empty((), device=device)
    assert torch.ops.iterlab.sum(large, out=total).item() == 180_000


def batch_of(
    entry: OpEntry, dtype: torch.dtype, shape: tuple[int, ...], device: str
) -> torch.Tensor:
    """Values whose result depends on the order; those of a product neither overflow nor vanish."""
    if samples.is_integral(dtype) or dtype == torch.bool:
        return samples.full_range_values(dtype, math.prod(shape)).view(shape).to(device)
    wide = torch.complex128 if dtype.is_complex else torch.float64
    values = torch.randn(shape, dtype=wide)
    if entry.name == "prod":
        values = 1 + values / 1000
    return values.to(dtype).to(device)


LENGTHS = (*range(1, 9), 15, 16, 31, 32, 33, 64, 100, 127, 128, 129, 511, 512, 1000, 4097, 70_001)
GPU_SHORT = 128
BIT_DTYPES = (torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.complex64)


@pytest.mark.parametrize("dtype", BIT_DTYPES, ids=name_of)
@pytest.mark.parametrize("entry", IN_ORDER, ids=name_of)
def test_bits_do_not_depend_on_other_rows_or_layout(
    entry: OpEntry, dtype: torch.dtype, device: str
) -> None:
    """Batch invariance (pytorch#197311): a row alone, in a batch, inner, outer, strided, in 3-D.

    On a GPU, long rows and long columns are added up in different orders, and so are long columns
    that fill less than the 16 bytes of a thread.
    """
    if dtype not in calls.input_dtypes(entry):
        return
    for length in LENGTHS:
        rows = 37 if length <= 8 else 9 if length < 5000 else 3
        batch = batch_of(entry, dtype, (rows, length), device)
        want = torch.stack([outputs_of(function(entry)(row, 0))[0] for row in batch])
        wider = torch.zeros(rows, 2 * length, dtype=dtype, device=device)[:, ::2].copy_(batch)
        views = {
            "inner": (batch, 1, 0),
            "outer": (batch.t().contiguous(), 0, 1),
            "inner of a transposed": (batch.t().contiguous().t(), 1, 0),
            "inner stride 2": (wider, 1, 0),
            "middle": (batch.t().contiguous().view(1, length, rows), 1, 2),
        }
        for name, (view, dim, kept) in views.items():
            got = outputs_of(function(entry)(view, dim))[0].view(-1)
            one_order = device == "cpu" or length <= GPU_SHORT
            if one_order:
                calls.assert_bitwise(got, want, (length, name))
            for count in (1, 2, 3) if one_order else () if rows < 8 else (8,):
                part = outputs_of(function(entry)(view.narrow(kept, 0, count), dim))[0].view(-1)
                calls.assert_bitwise(part, got[:count], (length, name, count))


@pytest.mark.parametrize("dtype", BIT_DTYPES, ids=name_of)
@pytest.mark.parametrize("entry", IN_ORDER, ids=name_of)
def test_bits_do_not_depend_on_threads(entry: OpEntry, dtype: torch.dtype, device: str) -> None:
    if dtype not in calls.input_dtypes(entry):
        return
    inputs = [
        (batch_of(entry, dtype, (300_007,), device), [0]),
        (batch_of(entry, dtype, (3, 100_001), device), [1]),
        (batch_of(entry, dtype, (100_001, 3), device), [0]),
        (batch_of(entry, dtype, (70, 60, 50), device), [0, 2]),
        (batch_of(entry, dtype, (500, 401), device).t(), [0, 1]),
    ]
    results = []
    for threads in (1, 2, 3, 8):
        torch.set_num_threads(threads)
        results.append([outputs_of(function(entry)(x, dim))[0] for x, dim in inputs])
    for got in results[1:]:
        for one, want in zip(got, results[0], strict=True):
            calls.assert_bitwise(one, want)


ONE_DIM = {"max", "min", "argmax", "argmin"}  # of the operators that name a position


@pytest.mark.parametrize("dtype", (*BIT_DTYPES, torch.bool), ids=name_of)
@pytest.mark.parametrize("entry", calls.REDUCTIONS, ids=name_of)
def test_bits_do_not_depend_on_runs_of_memory(
    entry: OpEntry, dtype: torch.dtype, device: str
) -> None:
    """Elements in several runs, of whole lanes and of others, and rows of a few columns, as in one.

    On a GPU, the order follows the rows.
    """
    if entry.name in ONE_DIM or dtype not in calls.input_dtypes(entry) or device != "cpu":
        return
    for outer, inner in itertools.product((3, 70), (5, 16, 48, 1040)):
        x = batch_of(entry, dtype, (outer, 7, inner), device)
        rows = x.permute(1, 0, 2).reshape(7, -1)
        in_one = outputs_of(calls.reduce(entry, rows, [1]))
        columns = outputs_of(calls.reduce(entry, rows.t().contiguous(), [0]))
        several = outputs_of(calls.reduce(entry, x, [0, 2]))
        for got, column, want in zip(several, columns, in_one, strict=True):
            calls.assert_bitwise(got, want, (outer, inner))
            calls.assert_bitwise(column, want, (outer, inner))


@pytest.mark.parametrize("entry", REDUCTIONS, ids=name_of)
def test_dims_out_of_range_or_twice(entry: OpEntry, device: str) -> None:
    x = torch.rand(2, 3, device=device)
    for dim in (2, -3, [0, 5]):
        with pytest.raises(IndexError, match=r"Dimension out of range"):
            function(entry)(x, dim)
    for dim in ([0, 0], [1, -1]):
        with pytest.raises(RuntimeError, match=rf"^iterlab::{entry.name}: expected each dim once"):
            function(entry)(x, dim)
    scalar = torch.tensor(2.0, device=device)
    assert function(entry)(scalar, 0).shape == function(entry)(scalar, -1).shape == ()
    with pytest.raises(IndexError, match=r"Dimension out of range"):
        function(entry)(scalar, 1)


def test_integers_wrap_and_widen(device: str) -> None:
    big = torch.full((3,), 2**62, dtype=torch.int64, device=device)
    assert torch.ops.iterlab.sum(big).item() == 3 * 2**62 - 2**64
    bytes_ = torch.full((1000,), 127, dtype=torch.int8, device=device)
    assert torch.ops.iterlab.sum(bytes_).item() == 127_000
    assert torch.ops.iterlab.sum(bytes_, dtype=torch.int8).item() == (127_000 + 128) % 256 - 128
    flags = torch.ones(777, dtype=torch.bool, device=device)
    assert torch.ops.iterlab.sum(flags).item() == 777
    assert torch.ops.iterlab.sum(flags, dtype=torch.bool).item() is True


def test_special_values(device: str) -> None:
    inf, nan = math.inf, math.nan
    for values in ([inf, 1.0], [inf, -inf], [nan, 1.0], [-0.0, -0.0], [1e38] * 4, [-0.0]):
        for repeat in (1, 5, 40):
            x = torch.tensor(values * repeat, device=device)
            got, want = torch.ops.iterlab.sum(x), torch.sum(x)
            torch.testing.assert_close(got, want, equal_nan=True)


def test_65_dims_are_more_than_torch_allows_and_64_work(device: str) -> None:
    """pytorch#23159, #13478: a reduced dim of index 63 or 64."""
    for ndim in (64, 65):
        x = torch.ones((2,) + (1,) * (ndim - 2) + (2,), device=device)
        assert torch.ops.iterlab.sum(x, dim=ndim - 1).flatten().tolist() == [2, 2]
        assert torch.ops.iterlab.sum(x).item() == 4


def test_pairwise_accuracy_of_ten_million_floats(device: str) -> None:
    x = torch.rand(10_000_000, device=device)
    exact = x.double().sum().item()
    assert abs(torch.ops.iterlab.sum(x).item() - exact) <= 2e-7 * exact
    assert abs(torch.ops.iterlab.sum(x.view(-1, 10), dim=0).double().sum() - exact) <= 2e-7 * exact
    tenth = torch.full((10_000_000,), 0.1, device=device)
    exact = tenth.double().sum().item()
    assert abs(torch.ops.iterlab.sum(tenth).item() - exact) <= 1e-6 * exact  # all rounded one way
    half = torch.ones(100_000, dtype=torch.bfloat16, device=device)
    assert torch.ops.iterlab.sum(half).item() == torch.tensor(100_000.0).bfloat16().item()


FORMS = [
    ((1000, 800), (800, 1), [1], "inner"),
    ((1000, 800), (800, 1), [0], "outer"),
    ((1000, 800), (1, 1000), [1], "outer"),
    ((1000, 800), (800, 1), [0, 1], "inner"),
    ((1000, 3), (3, 1), [1], "short inner"),
    ((10, 20, 300), (6000, 300, 1), [1], "outer"),
    ((10, 20, 300), (6000, 300, 1), [0, 2], "inner"),
    ((5, 700), (0, 1), [1], "inner"),
]


@pytest.mark.parametrize(("shape", "strides", "dim", "form"), FORMS)
def test_plan_of_a_reduction(
    shape: tuple[int, ...], strides: tuple[int, ...], dim: list[int], form: str
) -> None:
    x = torch.empty_strided(shape, strides, device="meta")
    plan = iterlab.plan("sum", x, dim)
    assert isinstance(plan, iterlab.ReductionPlan)
    assert plan.form == form
    assert plan.dims == tuple(dim)
    assert plan.output_shape == tuple(torch.sum(x, dim).shape)
    assert plan.outputs * plan.reduced == math.prod(shape)
    assert math.prod(plan.kept_shape) == plan.outputs
    assert math.prod(plan.reduced_shape) == plan.reduced
    assert (plan.accumulate_dtype, plan.result_dtype) == ("float32", "float32")


def test_plan_accumulates_wider() -> None:
    for dtype, accumulate, result in (
        (torch.int8, "int64", "int64"),
        (torch.bool, "int64", "int64"),
        (torch.bfloat16, "float32", "bfloat16"),
        (torch.float64, "float64", "float64"),
        (torch.complex64, "complex64", "complex64"),
    ):
        plan = iterlab.plan("sum", torch.empty(4, 5, dtype=dtype, device="meta"), 1)
        assert isinstance(plan, iterlab.ReductionPlan)
        assert (plan.accumulate_dtype, plan.result_dtype) == (accumulate, result)
