"""The drop-in leaves to ATen what iterlab does not take, or takes where torch refuses."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import calls
import pytest
import torch

from iterlab import override_aten

pytestmark = [*calls.TORCH_WARNINGS, pytest.mark.usefixtures("drop_in_undone")]


def outcome(call: Callable[[], Any]) -> tuple[Any, ...]:
    """A call's result with its layout, or the exception; and its warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = call()
        except Exception as error:
            return type(error), str(error)
    flat = result if isinstance(result, (list, tuple)) else [result]
    return (
        [(x.dtype, x.stride(), x.tolist()) for x in flat],
        [str(warning.message) for warning in caught],
    )


def same_as_torch(call: Callable[[], Any]) -> tuple[Any, ...]:
    """The outcome of a call with the drop-in, which is the one without."""
    plain = outcome(call)
    with override_aten():
        assert repr(outcome(call)) == repr(plain)  # in which nan is like nan
    return plain


X = torch.tensor([1.5, -2.5, 3.5])
INTS = torch.tensor([3, -4, 5])


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.ceil(X, out=torch.empty(3, dtype=torch.float64)),
        lambda: torch.neg(X, out=torch.empty(3, dtype=torch.float64)),
        lambda: torch.sgn(INTS, out=torch.empty(3)),
        lambda: torch.all(X, out=torch.empty((), dtype=torch.float32)),
        lambda: torch.any(X, 0, out=torch.empty((), dtype=torch.int64)),
        lambda: torch.isposinf(X, out=torch.empty(3)),
        lambda: torch.signbit(X, out=torch.empty(3)),
        lambda: torch.prod(X, 0, dtype=torch.float32, out=torch.empty((), dtype=torch.float64)),
        lambda: torch.where(X > 0, INTS, INTS, out=torch.empty(3, dtype=torch.int32)),
        lambda: torch.ops.aten.relu.out(X, out=torch.empty(3, dtype=torch.float64)),
    ],
)
def test_outputs_of_another_dtype_that_torch_refuses(call: Callable[[], Any]) -> None:
    assert same_as_torch(call)[0] is RuntimeError


@pytest.mark.parametrize("name", ["add", "mul", "maximum", "exp", "sqrt", "i0"])
def test_outputs_of_another_dtype_get_the_result_of_the_common_one(name: str) -> None:
    operands = [X.abs().half()] * (2 if name in {"add", "mul", "maximum"} else 1)
    call = getattr(torch, name)
    result, _ = same_as_torch(lambda: call(*operands, out=torch.empty(3, dtype=torch.float64)))
    assert result[0][2] == call(*operands).double().tolist()


@pytest.mark.parametrize(
    "dtype", [torch.complex32, torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn]
)
@pytest.mark.parametrize("name", ["add", "exp", "maximum", "remainder", "logical_not", "amax"])
def test_dtypes_that_few_kernels_have(name: str, dtype: torch.dtype) -> None:
    x = torch.tensor([1, 2, 3]).to(dtype)
    operands = [x, x] if name in {"add", "maximum", "remainder"} else [x]
    # complex32 and float8 tensors give no list of their elements: converted first.
    found = same_as_torch(lambda: getattr(torch, name)(*operands).to(torch.complex64))
    refused = isinstance(found[0], type) and issubclass(found[0], RuntimeError)
    assert refused or found[0][0][0] == torch.complex64


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.argmax(torch.tensor([True, False])),
        lambda: torch.argmin(torch.tensor([[True], [False]]), dim=0),
        lambda: torch.round(INTS, decimals=0),
        lambda: torch.ldexp(X, torch.tensor([True, False, True])),
        lambda: torch.nansum(torch.tensor([1j]), dtype=torch.float32),
        lambda: torch.tensor([1j]).abs_(),
        lambda: torch.nn.functional.softshrink(X, float("inf")),
        lambda: torch.nn.functional.leaky_relu(X, 1j),
        lambda: torch.nn.functional.threshold(INTS.to(torch.int8), 2, 300),
        lambda: torch.addcmul(INTS, INTS, INTS, value=float("nan")),
        lambda: torch.linalg.vector_norm(X, 1j),
        lambda: torch.div(X.half(), 1j),
        lambda: torch.pow(torch.tensor(1j), X.half()),
        lambda: torch.pow(X.half(), 1e6),
        lambda: torch.ops.aten.leaky_relu_backward(X, X, -1.0, True),
    ],
)
def test_arguments_that_torch_refuses(call: Callable[[], Any]) -> None:
    assert issubclass(same_as_torch(call)[0], (RuntimeError, TypeError))


@pytest.mark.parametrize("name", ["remainder", "fmod", "floor_divide"])
def test_a_zero_divisor_raises_as_in_torch(name: str) -> None:
    overload = getattr(torch.ops.aten, name)
    overload = overload.default if name == "floor_divide" else overload.Tensor
    assert same_as_torch(lambda: overload(INTS, INTS * 0)) == (RuntimeError, "ZeroDivisionError")


@pytest.mark.parametrize("name", ["all", "any"])
@pytest.mark.parametrize("keepdim", [False, True])
def test_an_empty_list_of_dims(name: str, keepdim: bool) -> None:
    x = torch.tensor([[0.0, 1.0], [2.0, 0.0]])
    result, _ = same_as_torch(lambda: getattr(torch, name)(x, dim=[], keepdim=keepdim))
    assert result[0][2] == [[False, True], [True, False]]
    same_as_torch(lambda: torch.sum(x, dim=[], keepdim=keepdim))
    same_as_torch(lambda: torch.logsumexp(x, dim=[], keepdim=keepdim))


@pytest.mark.parametrize("name", ["sum", "mean", "var", "logsumexp", "amax", "argmax", "any"])
def test_more_dims_than_torch_reduces(name: str) -> None:
    x = torch.tensor([0.0, 0.0]).reshape([1] * 64 + [2])
    assert same_as_torch(lambda: getattr(torch, name)(x, dim=0))[0] is RuntimeError
    same_as_torch(lambda: getattr(torch, name)(x[0], dim=63))
    same_as_torch(lambda: torch.sum(x))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.add(x, torch.ones(2, 3), out=x),
        lambda x: x.logical_and_(torch.ones(2, 3)),
        lambda x: x.ldexp_(torch.ones(2, 3)),
        lambda x: torch.maximum(torch.ones(2, 3), x, out=x),
    ],
)
def test_an_operand_that_is_written_keeps_its_shape(
    call: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    error, text = same_as_torch(lambda: call(torch.ones(3)))
    assert error is RuntimeError
    assert "doesn't match the broadcast shape [2, 3]" in text


BOUNDS: list[Any] = [None, 0, 1.5, -2, float("nan"), 300, True, 1j]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.int8, torch.int64, torch.bool, torch.complex64]
)
def test_clamps_with_any_bounds(dtype: torch.dtype) -> None:
    """Numbers and tensors, one or two: values and errors."""
    x = torch.tensor([[1, 0, 3], [100, 2, 5]]).to(dtype)
    numbers = list(itertools.product(BOUNDS, BOUNDS))
    tensors = [
        tuple(None if bound is None else torch.tensor(bound).expand(2, 1) for bound in both)
        for both in numbers
    ]

    def outcomes() -> list[Any]:
        found = []
        for bounds in numbers + tensors:
            found += [
                outcome(lambda bounds=bounds: torch.clamp(x, *bounds)),
                outcome(lambda bounds=bounds: torch.clamp(x.t(), *bounds)),
                outcome(lambda bounds=bounds: x.clone().clamp_(*bounds)),
                outcome(lambda bounds=bounds: torch.clamp(x, *bounds, out=torch.empty_like(x))),
            ]
        for bound in BOUNDS[1:]:
            found += [
                outcome(lambda bound=bound: torch.clamp_min(x, bound)),
                outcome(lambda bound=bound: x.clone().clamp_max_(bound)),
            ]
        return found

    plain = outcomes()
    with override_aten():
        assert repr(outcomes()) == repr(plain)


@pytest.mark.parametrize("is_result", [False, True])
@pytest.mark.parametrize("alpha", [1.5, -1])
def test_elu_backward(is_result: bool, alpha: float) -> None:
    grad, x = torch.tensor([2.0, 3.0, -1.0]), torch.tensor([-0.5, 0.0, 2.0])
    backward = torch.ops.aten.elu_backward
    plain = same_as_torch(lambda: backward(grad, alpha, 2, 1, is_result, x))
    assert (plain[0] is RuntimeError) == (is_result and alpha < 0)
    same_as_torch(
        lambda: backward.grad_input(grad, alpha, 2, 1, is_result, x, grad_input=torch.empty(0))
    )


def test_polygamma_takes_its_order_first() -> None:
    for order in (0, 1, 3, -1):
        plain = same_as_torch(lambda order=order: torch.polygamma(order, X.abs().double()))
        assert (plain[0] is RuntimeError) == (order < 0)
        same_as_torch(lambda order=order: torch.polygamma(order, X.abs(), out=torch.empty(3)))


def test_tensors_that_stand_for_zeros() -> None:
    """As of forward-mode gradients: they have no memory, and copies of them reach the kernel."""
    zeros = torch._efficientzerotensor((3,))
    for call in (
        lambda: torch.ones(3).copy_(zeros),
        lambda: zeros.clone() + 0,
        lambda: zeros * X + 0,
        lambda: zeros.to(torch.float64) + X,
    ):
        same_as_torch(call)
    assert torch.equal(torch.func.jvp(lambda x: x.double(), (X,), (zeros,))[1], zeros.double() + 0)


def test_layouts_that_are_not_strided() -> None:
    x = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    with override_aten():
        assert torch.neg(x.to_sparse()).to_dense().tolist() == [[0, -2], [-3, 0]]
        assert (x.to_sparse() * 2).to_dense().tolist() == [[0, 4], [6, 0]]
