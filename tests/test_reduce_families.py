"""Reductions by family: values against torch, derivatives, Meta, and what is refused."""

import functools
import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import calls
import pytest
import torch
from samples import seeded_values

import iterlab

pytestmark = [
    *calls.TORCH_WARNINGS,
    pytest.mark.filterwarnings("ignore:.*degrees of freedom is <= 0:UserWarning"),
]
ops = torch.ops.iterlab

FLOATING = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGER = (torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64)
COMPLEX = (torch.complex64, torch.complex128)
# Below a vector, a few lanes, a block of 1024 with its tail, and a leaf of 65536 with its tail.
SHAPES = ((), (1,), (5, 7), (3, 1100), (1100, 3), (2, 33, 70), (4, 5, 6, 7), (2, 66_000))
INF, NAN = math.inf, math.nan

Reduce = Callable[..., object]


def layouts(x: torch.Tensor) -> list[torch.Tensor]:
    """The same values contiguous, with dims reversed in memory, and with stride 2."""
    if x.dim() == 0:
        return [x]
    reverse = tuple(reversed(range(x.dim())))
    return [
        x,
        x.permute(reverse).contiguous().permute(reverse),
        torch.stack([x, x], -1).flatten(-2)[..., ::2],
    ]


def dims_of(x: torch.Tensor) -> list[tuple[int, ...]]:
    """Each dim, the first with the last, and all."""
    dims = [(d,) for d in range(x.dim())]
    if x.dim() > 1:
        dims.append((0, x.dim() - 1))
    return [*dims, tuple(range(x.dim()))]


def check_close(actual: object, expected: object, dtype: torch.dtype, loose: float = 1) -> None:
    """Results within the rounding of `dtype`, dtypes and devices included."""
    actual = actual if isinstance(actual, (tuple, list)) else (actual,)
    expected = (expected,) if isinstance(expected, torch.Tensor) else tuple(expected)  # type: ignore[arg-type]
    rtol = {
        torch.float64: 1e-10,
        torch.bfloat16: 2e-2,
        torch.float16: 4e-3,
        torch.complex128: 1e-10,
    }
    for a, e in zip(actual, expected, strict=True):
        limit = rtol.get(dtype, 2e-5) * loose
        torch.testing.assert_close(a, e, rtol=limit, atol=limit, equal_nan=True)


def in_double(reduce: Reduce, x: torch.Tensor) -> object:
    """What torch gives on the CPU in double precision, as results of x's precision and device."""
    narrow = x.dtype in (torch.float32, torch.bfloat16, torch.float16)
    results = torch.utils._pytree.tree_leaves(reduce(x.cpu().double() if narrow else x.cpu()))
    as_asked = [
        r.to(x.device, x.dtype if narrow and r.is_floating_point() else r.dtype) for r in results
    ]
    return as_asked[0] if len(as_asked) == 1 else tuple(as_asked)


FOLDS: dict[str, Reduce] = {
    "sum": torch.sum,
    "mean": torch.mean,
    "nansum": torch.nansum,
    "nanmean": torch.nanmean,
    "amax": torch.amax,
    "amin": torch.amin,
}


@pytest.mark.parametrize("name", FOLDS)
@pytest.mark.parametrize("dtype", (*FLOATING, *INTEGER, torch.bool, *COMPLEX))
def test_folds_against_torch(name: str, dtype: torch.dtype, device: str) -> None:
    whole = dtype.is_floating_point or dtype.is_complex
    if "mean" in name and not whole:
        pytest.skip("torch has no mean of integers")
    if dtype.is_complex and name not in ("sum", "mean"):
        pytest.skip("torch has no order and no nansum of complex numbers")
    for shape, special in itertools.product(SHAPES, {False, dtype.is_floating_point}):
        values = seeded_values(shape, dtype, special, device)
        for dims, keepdim in itertools.product(dims_of(values), (False, True)):
            expected = in_double(lambda y: FOLDS[name](y, dim=dims, keepdim=keepdim), values)  # noqa: B023
            for x in layouts(values):
                check_close(getattr(ops, name)(x, dim=dims, keepdim=keepdim), expected, dtype)


@pytest.mark.parametrize("dtype", (*FLOATING, *INTEGER, torch.bool, *COMPLEX))
def test_truth_and_counts(dtype: torch.dtype, device: str) -> None:
    for shape in SHAPES:
        for x in layouts(seeded_values(shape, dtype, device=device)):
            for dims in dims_of(x):
                zeros, ones = torch.zeros_like(x), torch.ones_like(x)
                for y in (
                    x,
                    zeros,
                    ones,
                    torch.where(torch.arange(x.numel(), device=device).view(shape) == 1, x, 0),
                ):
                    assert torch.equal(ops.count_nonzero(y, dims), torch.count_nonzero(y, dims))
                    if dims:
                        assert torch.equal(ops.any(y, dims), torch.any(y, dims))
                        assert torch.equal(ops.all(y, dims), torch.all(y, dims))


def test_bool_memory_with_other_bytes() -> None:
    x = torch.tensor([2, 0, 128, 255] * 5000, dtype=torch.uint8).view(torch.bool)
    assert ops.sum(x).item() == ops.count_nonzero(x).item() == 15_000
    assert ops.any(x).item() is True and ops.all(x).item() is False
    assert ops.all(x[::2]).item() is True
    assert ops.argmax(x).item() == 0 and ops.argmin(x).item() == 1


@pytest.mark.parametrize("dtype", (*INTEGER, torch.bool))
def test_bitwise(dtype: torch.dtype, device: str) -> None:
    x = seeded_values((37, 129), dtype, device=device)
    for name, pair in (
        ("bitwise_and_reduce", torch.bitwise_and),
        ("bitwise_or_reduce", torch.bitwise_or),
        ("bitwise_xor_reduce", torch.bitwise_xor),
    ):
        for dim in (0, 1):
            expected = x.select(dim, 0)
            for i in range(1, x.shape[dim]):
                expected = pair(expected, x.select(dim, i))
            assert torch.equal(getattr(ops, name)(x, dim), expected)
    assert ops.bitwise_and_reduce(x[:0], 0).eq(torch.tensor(-1).to(x)).all()


@pytest.mark.parametrize("dtype", (*FLOATING, *INTEGER, torch.bool))
def test_positions(dtype: torch.dtype, device: str) -> None:
    for shape, special in itertools.product(SHAPES, {False, dtype.is_floating_point}):
        on_cpu = seeded_values(shape, dtype, special)
        as_number = on_cpu.to(torch.uint8) if dtype == torch.bool else on_cpu
        arguments = itertools.product(("max", "min"), range(on_cpu.dim()), (False, True))
        for name, dim, keepdim in arguments:
            expected = getattr(torch, name)(on_cpu, dim, keepdim)
            position = getattr(torch, "arg" + name)(as_number, dim, keepdim)
            for x in layouts(on_cpu.to(device)):
                values, indices = getattr(ops, name)(x, dim, keepdim)
                torch.testing.assert_close(
                    values.cpu(), expected.values, rtol=0, atol=0, equal_nan=True
                )
                assert torch.equal(indices.cpu(), expected.indices)
                found = getattr(ops, "arg" + name)(x, dim, keepdim)
                assert torch.equal(found.cpu(), position)
        for x in layouts(on_cpu.to(device)):
            assert ops.argmax(x).item() == torch.argmax(as_number).item()
            assert ops.argmin(x).item() == torch.argmin(as_number).item()
            check_close(ops.max(x), in_double(torch.max, x), dtype)
            check_close(ops.aminmax(x), in_double(torch.aminmax, x), dtype)


def test_positions_over_several_dims_count_in_their_order(device: str) -> None:
    x = seeded_values((6, 5, 7, 40), torch.float32, device=device).round()
    for y in layouts(x):
        for dims in ((0, 2), (1, 3), (2, 3), (0, 1, 2)):
            kept = [d for d in range(4) if d not in dims]
            flat = y.permute(*kept, *dims).reshape(*(y.shape[d] for d in kept), -1)
            assert torch.equal(ops.argmax(y, dims), torch.argmax(flat, -1))
            values, indices = ops.min(y, dims)
            assert torch.equal(values, flat.amin(-1)) and torch.equal(
                indices, torch.argmin(flat, -1)
            )


def test_first_of_equals_and_first_nan_win(device: str) -> None:
    for n in (3, 40, 1500, 70_000):
        x = torch.zeros(n, device=device)
        assert ops.argmax(x).item() == ops.argmin(x).item() == 0
        x[n // 2 :] = 1
        assert ops.argmax(x).item() == n // 2
        x[n - 2] = x[n - 1] = NAN
        for y, dim in ((x, 0), (x.view(-1, 1).expand(-1, 70).contiguous(), 0)):
            assert ops.argmax(y, dim).eq(n - 2).all() and ops.max(y, dim)[0].isnan().all()
            assert ops.argmin(y, dim).eq(n - 2).all()
    assert ops.argmax(torch.full((5,), -INF)).item() == 0


@pytest.mark.parametrize("dtype", (*FLOATING, *COMPLEX))
@pytest.mark.parametrize("name", ("var", "std", "var_mean", "std_mean"))
def test_moments(name: str, dtype: torch.dtype, device: str) -> None:
    for shape in SHAPES:
        values = seeded_values(shape, dtype, device=device)
        for dims, correction in itertools.product(dims_of(values), (0, 1, 2.5)):
            moments = functools.partial(getattr(torch, name), dim=dims, correction=correction)
            expected = in_double(moments, values)
            for x in layouts(values):
                check_close(getattr(ops, name)(x, dims, correction=correction), expected, dtype)


def test_moments_far_from_zero(device: str) -> None:
    x = (torch.randn(3, 100_000, generator=torch.Generator().manual_seed(0)) + 1e4).to(device)
    expected = x.double().var(1)
    torch.testing.assert_close(ops.var(x, 1).double(), expected, rtol=1e-6, atol=0)
    torch.testing.assert_close(ops.var(x.t().contiguous(), 0).double(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", (*FLOATING, *COMPLEX))
@pytest.mark.parametrize("order", (2, 1, 0, INF, -INF, 3, 0.5, -1))
def test_norms(order: float, dtype: torch.dtype, device: str) -> None:
    for shape in ((), (5, 7), (3, 1100), (1100, 3), (4, 5, 6, 7)):
        values = seeded_values(shape, dtype, device=device)
        for dims in dims_of(values):
            expected = in_double(lambda y: torch.linalg.vector_norm(y, order, dims), values)  # noqa: B023
            if not expected.isfinite().all():  # type: ignore[attr-defined]
                continue  # beyond half's range
            for x in layouts(values):
                check_close(ops.norm(x, order, dims), expected, dtype, loose=5)


@pytest.mark.parametrize("dtype", (*FLOATING, torch.int32, torch.bool))
def test_logsumexp(dtype: torch.dtype, device: str) -> None:
    for shape in filter(None, SHAPES):
        values = seeded_values(shape, dtype, device=device)
        for dims in dims_of(values):
            expected = in_double(lambda y: torch.logsumexp(y, dims), values)  # noqa: B023
            for x in layouts(values):
                check_close(ops.logsumexp(x, dims), expected, dtype)


def test_logsumexp_of_infinities(device: str) -> None:
    x = torch.tensor([[-INF, -INF], [INF, 0], [INF, INF], [1e30, 1e30], [NAN, 0], [INF, -INF]])
    x = x.to(device)
    torch.testing.assert_close(ops.logsumexp(x, 1), torch.logsumexp(x, 1), equal_nan=True)


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
@pytest.mark.parametrize("spread", (0.1, 3.0, 30.0, 1e4))
def test_logsumexp_of_a_maximum_that_moves(spread: float, dtype: torch.dtype) -> None:
    """Elements far above and below those before them, infinities and NaN among ordinary ones."""
    generator = torch.Generator().manual_seed(7)
    x = torch.randn((65, 700), dtype=dtype, generator=generator) * spread
    x[1], x[2] = x[1].sort().values, x[2].sort(descending=True).values
    x[3, ::3], x[4, 1::5], x[5, 300] = -INF, -INF, INF
    x[6, 17], x[7, 0], x[8, 699], x[9] = NAN, NAN, NAN, -INF
    x[10, 5], x[10, 400] = INF, NAN
    for view, dim in ((x, 1), (x.t().contiguous(), 0), (x[:, :8].contiguous(), 1)):
        expected = torch.logsumexp(view.double(), dim).to(dtype)
        got = ops.logsumexp(view, dim)
        tolerance = {"rtol": 2e-6, "atol": 2e-6} if dtype == torch.float32 else {}
        torch.testing.assert_close(got, expected, equal_nan=True, **tolerance)


def test_extreme_integers() -> None:
    for dtype in INTEGER:
        info = torch.iinfo(dtype)
        x = torch.tensor([info.min, info.max, 0], dtype=dtype).repeat(3000)
        assert ops.amax(x).item() == info.max and ops.amin(x).item() == info.min
        assert torch.equal(ops.sum(x), torch.sum(x)) and torch.equal(
            ops.prod(x[1:2]), torch.prod(x[1:2])
        )
    ones = torch.full((300_000,), -128, dtype=torch.int8)
    assert ops.sum(ones).item() == -128 * 300_000


DIFFERENTIABLE: dict[str, Reduce] = {
    "sum": lambda x, d: ops.sum(x, d),
    "mean": lambda x, d: ops.mean(x, d, True),
    "nansum": lambda x, d: ops.nansum(x, d),
    "nanmean": lambda x, d: ops.nanmean(x, d),
    "prod": lambda x, d: ops.prod(x, d),
    "amax": lambda x, d: ops.amax(x, d),
    "amin": lambda x, d: ops.amin(x, d, True),
    "aminmax": lambda x, d: ops.aminmax(x, dim=d),
    "max": lambda x, d: ops.max(x),
    "max.dim": lambda x, d: ops.max(x, d)[0],
    "min.dim": lambda x, d: ops.min(x, d, True)[0],
    "var": lambda x, d: ops.var(x, d, correction=0.5),
    "std": lambda x, d: ops.std(x, d),
    "var_mean": lambda x, d: ops.var_mean(x, d, keepdim=True),
    "std_mean": lambda x, d: ops.std_mean(x, d),
    "logsumexp": lambda x, d: ops.logsumexp(x, d),
    **{f"norm {p}": lambda x, d, p=p: ops.norm(x, p, d) for p in (0.5, 1, 1.5, 2, 3, INF, -INF)},
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
@pytest.mark.parametrize("dims", ((1,), (0, 2), (0, 1, 2)))
def test_gradients(name: str, dims: tuple[int, ...]) -> None:
    x = torch.randn(3, 4, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    x.requires_grad_()
    reduce = DIFFERENTIABLE[name]
    assert torch.autograd.gradcheck(lambda y: reduce(y, dims), (x,), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda y: reduce(y, dims), (x,))


@pytest.mark.parametrize("name", ("sum", "mean", "prod", "var", "std", "norm 2", "norm 3"))
def test_complex_gradients(name: str) -> None:
    x = torch.randn(3, 4, dtype=torch.complex128, generator=torch.Generator().manual_seed(1))
    x.requires_grad_()
    assert torch.autograd.gradcheck(
        lambda y: DIFFERENTIABLE[name](y, (1,)), (x,), check_forward_ad=True
    )


def gradient(reduce: Reduce, x: torch.Tensor) -> torch.Tensor:
    x = x.clone().requires_grad_()
    return torch.autograd.grad(reduce(x).sum(), x)[0]  # type: ignore[attr-defined]


def test_gradients_at_special_points() -> None:
    ties = torch.tensor([[1.0, 3, 3], [2, 2, 2]])
    for name in ("amax", "amin"):
        expected = gradient(lambda y: getattr(torch, name)(y, 1), ties)  # noqa: B023
        torch.testing.assert_close(gradient(lambda y: getattr(ops, name)(y, 1), ties), expected)  # noqa: B023
    assert gradient(lambda y: ops.max(y, 1)[0], ties).tolist() == [[0, 1, 0], [1, 0, 0]]
    for zeros in ([0.0, 2, 3], [0.0, 0, 3], [2.0, 3, 4]):
        x = torch.tensor(zeros)
        torch.testing.assert_close(gradient(ops.prod, x), gradient(torch.prod, x))
    for p in (1, 1.5, 2, 3, INF):
        zero = torch.zeros(4)
        expected = gradient(lambda y: torch.linalg.vector_norm(y, p), zero)  # noqa: B023
        torch.testing.assert_close(gradient(lambda y: ops.norm(y, p), zero), expected)  # noqa: B023
    assert gradient(ops.std, torch.ones(5)).eq(0).all()
    assert gradient(lambda y: ops.logsumexp(y, 0), torch.full((3,), -INF)).eq(0).all()


def test_gradients_of_saved_results_stay_right() -> None:
    x = torch.rand(3, requires_grad=True)
    result = ops.logsumexp(x, 0)
    result.detach().add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.backward()


def test_forward_over_reverse() -> None:
    x = torch.rand(3, 4, dtype=torch.float64, requires_grad=True)
    for reduce in (
        lambda y: ops.logsumexp(y, 1),
        lambda y: ops.std(y, 1),
        lambda y: ops.norm(y, 3, 1),
    ):
        assert torch.autograd.gradgradcheck(reduce, (x,), check_fwd_over_rev=True)


def test_meta_says_what_the_cpu_does() -> None:
    calls: list[Reduce] = [
        lambda x: ops.sum(x, (0, 2)),
        lambda x: ops.max(x, 1, True),
        lambda x: ops.argmin(x),
        lambda x: ops.var_mean(x, 1),
        lambda x: ops.aminmax(x),
        lambda x: ops.norm(x, INF, 2),
        lambda x: ops.any(x, 1),
        lambda x: ops.logsumexp(x, 0),
    ]
    for call, dtype in itertools.product(calls, (torch.float32, torch.bfloat16)):
        x = seeded_values((3, 4, 5), dtype).transpose(0, 2)
        real, meta = (torch.utils._pytree.tree_leaves(call(y)) for y in (x, x.to("meta")))
        for a, b in zip(real, meta, strict=True):
            assert (a.shape, a.stride(), a.dtype) == (b.shape, b.stride(), b.dtype)


def test_meta_keeps_symbolic_sizes() -> None:
    from torch._dynamo.testing import CompileCounter

    counter = CompileCounter()

    @torch.compile(backend=counter, dynamic=True, fullgraph=True)
    def reduce(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (ops.amax(x, 1), *ops.max(x, 0), *ops.var_mean(x, 1), ops.norm(x, INF))

    for rows in (5, 6, 9):
        assert reduce(torch.rand(rows, 7))[0].shape == (rows,)
    assert counter.frame_count == 1


def test_out_variants() -> None:
    x = seeded_values((4, 6), torch.float32)
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
    results = ops.max.dim_out(x, 1, values=values, indices=indices)
    assert (
        results[0] is values
        and torch.equal(values, x.amax(1))
        and torch.equal(indices, x.argmax(1))
    )
    wide = torch.zeros(8, dtype=torch.float64)[::2]
    torch.testing.assert_close(ops.var.out(x, 1, out=wide).float(), x.var(1))
    assert wide._version == 1
    with pytest.raises(RuntimeError):
        ops.argmax.out(x, 1, out=torch.empty(4, dtype=torch.int32))
    with pytest.raises(RuntimeError):
        ops.amax.out(x, 1, out=torch.empty(4, dtype=torch.float64))


def test_empty_dims_have_values_where_there_is_an_identity() -> None:
    x = torch.empty(0, 3)
    assert ops.prod(x, 0).eq(1).all() and ops.all(x, 0).all() and not ops.any(x, 0).any()
    assert ops.logsumexp(x, 0).eq(-INF).all() and ops.norm(x, 2, 0).eq(0).all()
    assert all(r.isnan().all() for r in (*ops.var_mean(x, 0), ops.mean(x, 0), ops.nanmean(x, 0)))
    assert ops.amax(x, 1).shape == (0,) and ops.max(x, 1)[1].shape == (0,)


@pytest.mark.parametrize("capability", ("default", "avx2"))
def test_other_instruction_sets(capability: str) -> None:
    """Some of the tests in a process that runs with another kernel library."""
    if capability == "avx2" and iterlab.cpu_capability() == "default":
        pytest.skip("this machine has no AVX2")
    names = "bits_do_not_depend_on_form or first_of_equals or moments_far or extreme_integers"
    files = [
        str(Path(__file__).with_name(f"test_reduce_{part}.py")) for part in ("families", "order")
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-x", *files, "-k", f"{names} or logsumexp"]
    environment = os.environ | {"ITERLAB_CPU_CAPABILITY": capability}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout[-2000:]
