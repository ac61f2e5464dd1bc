"""Derivatives of binary and ternary operators: reverse, forward and second order, ties."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.autograd import forward_ad, gradcheck, gradgradcheck

pytestmark = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
ops = torch.ops.iterlab
SMOOTH = ["add", "sub", "rsub", "mul", "true_divide", "div", "pow", "float_power", "atan2", "hypot"]
SMOOTH += ["copysign", "maximum", "minimum", "fmax", "fmin", "logaddexp", "logaddexp2", "xlogy"]
SMOOTH += ["special_xlog1py", "remainder", "fmod", "clamp_min", "clamp_max", "ldexp"]
TERNARY = ["lerp", "addcmul", "addcdiv", "clamp_between", "clamp"]
COMPLEX = [
    "add",
    "sub",
    "rsub",
    "mul",
    "true_divide",
    "div",
    "pow",
    "lerp",
    "addcmul",
    "addcdiv",
    "ldexp",
]
COMPLEX += ["float_power", "logaddexp"]


def operands(name: str, dtype: torch.dtype) -> list[torch.Tensor]:
    count = 3 if name in TERNARY else 2
    torch.manual_seed(3)
    shapes = [(3, 1, 2), (4, 1), (3, 4, 2)]
    drawn = [
        0.3 + torch.rand(shapes[i], dtype=dtype) * (1.3 if i == 0 else 1) for i in range(count)
    ]
    return [x.requires_grad_() for x in drawn]


def check(call: Callable[..., Any], inputs: list[torch.Tensor]) -> None:
    assert gradcheck(call, inputs, check_forward_ad=True, check_batched_grad=False)
    assert gradgradcheck(call, inputs)


@pytest.mark.parametrize("name", [*SMOOTH, *TERNARY])
def test_real(name: str) -> None:
    check(getattr(ops, name), operands(name, torch.float64))


@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name: str) -> None:
    check(getattr(ops, name), operands(name, torch.complex128))


@pytest.mark.parametrize("name", [*SMOOTH, "lerp", "addcmul"])
def test_numbers(name: str) -> None:
    x, *rest = operands(name, torch.float64)
    for number in (2, 0.7):
        check(lambda t, number=number: getattr(ops, name)(t, *rest[1:], number), [x])
        if name not in TERNARY:
            check(lambda t, number=number: getattr(ops, name)(number, t), [x])


def test_parameters() -> None:
    a, b = operands("add", torch.float64)
    c = operands("lerp", torch.float64)[2]
    for name in ("add", "sub", "rsub"):
        check(lambda x, y, name=name: getattr(ops, name)(x, y, alpha=2.5), [a, b])
    for name in ("addcmul", "addcdiv"):
        check(lambda x, y, z, name=name: getattr(ops, name)(x, y, z, value=2.5), [a, b, c])
    mask = torch.rand(3, 4, 2) > 0.5
    check(lambda x, y: ops.where(mask, x, y), [a, b])
    check(lambda x: ops.masked_fill(x, mask, 2.0), [a])
    value = torch.tensor(1.5, dtype=torch.float64, requires_grad=True)
    check(lambda x, v: ops.masked_fill(x, mask, v), [a, value])
    check(lambda x, v: ops.fill(x * 1, v), [a, value])
    check(lambda x, y: ops.copy_(x.expand(3, 4, 2) * 1, y), [a, b])
    check(lambda x: ops.clone(x), [a])
    check(lambda x: ops.to(x, torch.complex128), [a])
    for mode in ("trunc", "floor"):
        x = a.detach().requires_grad_()
        ops.div(x, b, rounding_mode=mode).sum().backward()
        assert torch.equal(x.grad, torch.zeros_like(x))


@pytest.mark.parametrize("name", ["special_zeta", "igamma", "igammac"])
def test_second_operand_alone(name: str) -> None:
    a, b = operands(name, torch.float64)
    a = a.detach() + 1.5
    assert gradcheck(lambda y: getattr(ops, name)(a, y), [b], check_forward_ad=True)
    with pytest.raises(NotImplementedError):
        getattr(ops, name)(a.requires_grad_(), b).sum().backward()


@pytest.mark.parametrize(
    "name", ["maximum", "minimum", "fmax", "fmin", "xlogy", "pow", "hypot", "atan2"]
)
def test_gradients_at_edges_are_torchs(name: str) -> None:
    edge = [0.0, 1.0, -1.0, 2.0, float("nan"), float("inf"), 0.5]
    grid = torch.tensor([(x, y) for x in edge for y in edge], dtype=torch.float64)
    found = []
    for call in (getattr(ops, name), getattr(torch, name)):
        a, b = (grid[:, i].clone().requires_grad_() for i in (0, 1))
        call(a, b).sum().backward()
        found.append((a.grad, b.grad))
    for got, want, which in zip(*found, ("input", "other"), strict=True):
        same = torch.isclose(got, want, rtol=1e-12, atol=0, equal_nan=True)
        if name == "atan2":  # torch gives nan at the origin
            same |= (grid == 0).all(1)
        assert same.all(), (name, which, grid[~same], got[~same], want[~same])


@pytest.mark.parametrize("name", ["clamp_min", "clamp_max"])
def test_gradients_at_the_bound_are_torchs(name: str) -> None:
    for x in (torch.tensor([0.0, 1.0, 2.0, float("nan")]),):
        for bound in (1.0, torch.ones(4)):
            grads = []
            for call in (getattr(ops, name), getattr(torch, name)):
                a = x.clone().requires_grad_()
                call(a, bound).sum().backward()
                grads.append(a.grad)
            assert torch.equal(*grads), (name, bound, grads)


def test_in_place_gradients_and_tangents() -> None:
    a, b = operands("mul", torch.float64)
    wide = a.expand(3, 4, 2)
    for name in ("mul", "true_divide", "pow", "maximum", "fmod", "copysign"):
        check(
            lambda x, y, name=name: getattr(ops, name + "_")(x * 1, y),
            [wide.detach().clone().requires_grad_(), b],
        )
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(torch.ones(3), torch.full((3,), 5.0))
        ops.fill_(dual, 2.0)
        assert torch.equal(forward_ad.unpack_dual(dual).tangent, torch.zeros(3))


def test_ldexp_with_integer_exponents() -> None:
    """Negative ones too: an integer power of 2 would be 0."""
    x = torch.rand(5, dtype=torch.float64, requires_grad=True)
    exponent = torch.tensor([-3, -1, 0, 2, 1000], dtype=torch.int32)
    (grad,) = torch.autograd.grad(ops.ldexp(x, exponent).sum(), x)
    torch.testing.assert_close(grad, torch.full((5,), 2.0, dtype=torch.float64) ** exponent)


def test_not_differentiable() -> None:
    a = torch.ones(3, requires_grad=True)
    for name in ("eq", "lt", "logical_and", "isclose"):
        assert not getattr(ops, name)(a, a).requires_grad
    for name in ("floor_divide", "heaviside"):
        with warnings.catch_warnings(), pytest.raises(RuntimeError, match="not implemented"):
            getattr(ops, name)(a, a).sum().backward()
