"""vmap and torch.func: every overload has a batch rule, and results are those of a loop."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import calls
import pytest
import sample_calls
import torch
from sample_calls import TABLE
from torch.func import grad, hessian, jacfwd, jacrev, jvp, vmap

import iterlab
from iterlab import OpEntry

# torch.func scripts its own jvp rules.
pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")

OPS = torch.ops.iterlab
BATCH = 4


@pytest.fixture(autouse=True)
def no_fallback() -> Iterator[None]:
    """Make a missing batch rule an error."""
    torch._C._functorch._set_vmap_fallback_enabled(False)
    yield
    torch._C._functorch._set_vmap_fallback_enabled(True)


def take(value: Any, dim: int | None, i: int) -> Any:
    return value if dim is None else value.select(dim, i)


def check_against_loop(
    fn: Callable[..., Any], values: list[Any], in_dims: tuple[int | None, ...]
) -> None:
    """The same values, shapes and dtypes as sample by sample."""
    got = calls.outputs_of(vmap(fn, in_dims=in_dims)(*values))
    loop = [
        calls.outputs_of(fn(*(take(v, d, i) for v, d in zip(values, in_dims, strict=True))))
        for i in range(BATCH)
    ]
    for k, tensor in enumerate(got):
        want = torch.stack([outputs[k] for outputs in loop])
        assert (tensor.dtype, tensor.shape) == (want.dtype, want.shape)
        torch.testing.assert_close(tensor, want, equal_nan=True)


def batched(shape: tuple[int, ...], dim: int) -> tuple[int, ...]:
    return (*shape[:dim], BATCH, *shape[dim:])


@pytest.mark.parametrize("entry", TABLE, ids=calls.name_of)
def test_every_overload_has_a_rule(entry: OpEntry) -> None:
    for overload in calls.overloads(entry).values():
        if all(str(a.type) != "Tensor" for a in overload._schema.arguments):
            continue  # numbers alone
        keys = ("FuncTorchBatched", "FuncTorchBatchedDecomposition")
        has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
        assert any(has_kernel(overload.name(), key) for key in keys)


def test_masked_fill_with_a_value_for_each_sample() -> None:
    """The value must be one, in each sample."""
    x, mask = torch.randn(3, 4), torch.rand(3, 4) > 0.5
    values = torch.arange(3.0)
    got = torch.vmap(iterlab.masked_fill)(x, mask, values)
    assert torch.equal(got, torch.where(mask, values[:, None], x))
    written = x.clone()
    torch.vmap(iterlab.masked_fill_)(written, mask, values)
    assert torch.equal(written, got)


def test_results_by_name_are_tensors_to_vmap() -> None:
    x = torch.randn(3, 4, 5)
    got = torch.vmap(lambda sample: iterlab.max(sample, 1))(x)
    want = x.max(2)
    assert torch.equal(got.values, want.values)
    assert torch.equal(got.indices, want.indices)


@pytest.mark.parametrize("entry", calls.ELEMENTWISE, ids=calls.name_of)
def test_elementwise_batches_any_operand(entry: OpEntry, device: str) -> None:
    n = len(entry.inputs)
    for in_dims in itertools.product((None, 0, 1), repeat=n):
        if all(dim is None for dim in in_dims):
            continue
        values = []
        for i, dim in enumerate(in_dims):
            shape = (3,) if i % 2 else (2, 3)  # samples of different rank are aligned at the end
            shape = shape if dim is None else batched(shape, min(dim, len(shape)))
            values.append(sample_calls.operands(entry, shape, device)[i])
        check_against_loop(lambda *v: sample_calls.call(entry, list(v)), values, in_dims)


@pytest.mark.parametrize("entry", calls.REDUCTIONS, ids=calls.name_of)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 5)])
def test_reductions(entry: OpEntry, shape: tuple[int, ...], device: str) -> None:
    (x,) = sample_calls.operands(entry, (*shape, BATCH), device)[:1]
    reduce = calls.function(entry)
    dims: list[dict[str, Any]] = [{}, {"dim": 0}, {"dim": -1}]
    if len(shape) > 1:
        dims += [{"dim": (0, -1)}, {"dim": 1}]
    for more, keepdim in itertools.product(dims, (False, True)):
        arguments = sample_calls.required(entry) | more | {"keepdim": keepdim}
        try:
            reduce(x.select(-1, 0), **arguments)
        except (RuntimeError, TypeError):  # of several dims, where it takes one
            continue
        check_against_loop(lambda v, a=arguments: reduce(v, **a), [x], (len(shape),))


@pytest.mark.parametrize("entry", calls.INPLACE, ids=calls.name_of)
def test_inplace(entry: OpEntry, device: str) -> None:
    values = sample_calls.operands(entry, (BATCH, 3), device)
    try:
        want = sample_calls.call(entry, [v.clone() for v in values], inplace=True)
    except RuntimeError:
        pytest.skip("the result does not fit into the operand")
    written = values[0].clone()
    vmap(lambda *v: sample_calls.call(entry, list(v), inplace=True))(written, *values[1:])
    torch.testing.assert_close(written, want, equal_nan=True)
    if len(values) > 1:
        one = values[0][0].clone()
        with pytest.raises(RuntimeError, match="being vmapped over and input is not"):
            vmap(lambda *v: sample_calls.call(entry, [one, *v], inplace=True))(*values[1:])


@pytest.mark.parametrize("entry", TABLE, ids=calls.name_of)
def test_out(entry: OpEntry, device: str) -> None:
    if entry.number_inputs:
        pytest.skip("an operand is one value")
    values = sample_calls.operands(entry, (BATCH, 3), device)
    fn = lambda *v: sample_calls.call(entry, list(v))  # noqa: E731
    want = vmap(fn)(*values)
    if not isinstance(want, torch.Tensor):
        pytest.skip("has several outputs")
    out = torch.empty_like(want)
    vmap(lambda o, *v: sample_calls.call(entry, list(v), out=o))(out, *values)
    torch.testing.assert_close(out, want, equal_nan=True)
    shared = [v[0] for v in values]  # every sample gets the same
    vmap(lambda o: sample_calls.call(entry, shared, out=o))(out)
    torch.testing.assert_close(out, fn(*shared).expand(out.shape), equal_nan=True)


def test_out_is_not_resized() -> None:
    x = torch.randn(BATCH, 3)
    with pytest.raises(RuntimeError, match="cannot be resized under vmap"):
        vmap(lambda v, o: OPS.add(v, 1, out=o))(x, torch.empty(BATCH, 2))


PROMOTIONS = (torch.int32, torch.float32, torch.float64, torch.complex64)


@pytest.mark.parametrize("other", PROMOTIONS, ids=str)
@pytest.mark.parametrize("dtype", PROMOTIONS, ids=str)
def test_zero_dim_samples_promote_as_zero_dim(dtype: torch.dtype, other: torch.dtype) -> None:
    zero_dim = torch.arange(BATCH).to(dtype)
    for second, dim in [
        (torch.ones(BATCH, 3, dtype=other), 0),
        (torch.ones(3, dtype=other), None),
        (torch.ones((), dtype=other), None),
        (torch.arange(BATCH).to(other), 0),
    ]:
        check_against_loop(OPS.mul, [zero_dim, second], (0, dim))
    check_against_loop(lambda v: OPS.mul(v, 2.5), [zero_dim], (0,))


def test_levels_nest() -> None:
    x, y = torch.randn(BATCH, 3), torch.randn(5, 3)
    got = vmap(lambda a: vmap(lambda b: OPS.add(OPS.mul(a, 2), b))(y))(x)
    torch.testing.assert_close(got, 2 * x[:, None] + y)
    got = vmap(lambda a: vmap(lambda b: OPS.mul(a, a), out_dims=0)(y))(x)
    torch.testing.assert_close(got, (x * x)[:, None].expand(BATCH, 5, 3))
    # A gradient between two levels: what is batched outside only must stay at its level.
    got = vmap(
        lambda v: grad(lambda w: vmap(lambda a: OPS.sum(OPS.mul(a, OPS.mul(w, v))))(y).sum())(v)
    )(x)
    torch.testing.assert_close(got, x * y.sum(0))


@pytest.mark.parametrize("entry", calls.ELEMENTWISE, ids=calls.name_of)
def test_transforms_of_differentiable_operators(entry: OpEntry, device: str) -> None:
    if not sample_calls.is_differentiable(entry):
        pytest.skip("has no derivative")
    values = sample_calls.operands(entry, (BATCH, 3), device)
    first = 1 if entry.name in calls.NO_GRADIENT_OF_FIRST else 0
    i = next(i for i, v in enumerate(values) if i >= first and v.is_floating_point())

    def fn(v: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        result = sample_calls.call(entry, [*rest[:i], v, *rest[i:]])
        return calls.outputs_of(result)[0].sum()

    rest = [v for k, v in enumerate(values) if k != i]
    x = values[i]
    (want,) = torch.autograd.grad(fn(w := x.clone().requires_grad_(), *rest), w)
    torch.testing.assert_close(vmap(grad(fn))(x, *rest), want)
    torch.testing.assert_close(grad(lambda v: vmap(fn)(v, *rest).sum())(x), want)
    one = [r[0] for r in rest]
    torch.testing.assert_close(jacfwd(fn)(x[0], *one), jacrev(fn)(x[0], *one))
    tangent = torch.ones_like(x[0])
    _, directional = jvp(lambda v: fn(v, *one), (x[0],), (tangent,))
    torch.testing.assert_close(directional, want[0].sum())
    if entry.name not in calls.NO_GRADIENT_OF_FIRST:  # which the second order asks for
        assert hessian(fn)(x[0], *one).shape == (3, 3)


def test_hessian_of_a_composition() -> None:
    x = torch.randn(3, dtype=torch.float64)
    got = hessian(lambda v: OPS.sum(OPS.exp(OPS.mul(v, v))))(x)
    want = hessian(lambda v: (v * v).exp().sum())(x)
    torch.testing.assert_close(got, want)
