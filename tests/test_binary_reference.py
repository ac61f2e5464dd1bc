"""Binary operators against torch: every dtype pair, numbers, special values, variants."""

from __future__ import annotations

import itertools
import math
import operator
import random
from collections.abc import Callable
from typing import Any

import calls
import pytest
import samples
import torch
from samples import ALL_DTYPES, WIDE_UNSIGNED, is_integral

pytestmark = calls.TORCH_WARNINGS
ops = torch.ops.iterlab

ARITHMETIC = ["add", "sub", "rsub", "mul", "true_divide", "div", "pow", "ldexp"]
DIVISION = ["floor_divide", "remainder", "fmod"]
MATH = ["atan2", "hypot", "copysign", "nextafter", "maximum", "minimum", "fmax", "fmin"]
MATH += ["logaddexp", "logaddexp2", "xlogy", "special_xlog1py", "special_zeta", "heaviside"]
MATH += ["igamma", "igammac", "clamp_min", "clamp_max"]
BITS = ["bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"]
INTEGERS = [*BITS, "gcd", "lcm"]
TRUTH = ["eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "isclose"]
BINARY = [*ARITHMETIC, *DIVISION, *MATH, *INTEGERS, *TRUTH, "float_power"]
# What torch rounds by a chain of half operations, or by scalar functions where iterlab has vectors.
TOLERANCE = {"pow": 4, "float_power": 4, "ldexp": 4, "atan2": 4, "hypot": 2, "xlogy": 4}
TOLERANCE |= {"logaddexp": 4, "logaddexp2": 4, "special_xlog1py": 4, "lerp": 4}
TOLERANCE |= {"addcmul": 4, "addcdiv": 4, "igamma": 2048, "igammac": 2048}
# Inexact enough to need a relative comparison: a sum of terms of other signs.
CANCELS = {"sub", "rsub", "add", "lerp", "addcmul", "addcdiv", "logaddexp", "logaddexp2", "pow"}
EXTRA_DTYPES = {*WIDE_UNSIGNED, torch.complex32, *samples.FLOAT8}  # iterlab computes in more


def reference(name: str) -> Callable[..., Any]:
    if name.startswith("special_"):
        return operator.attrgetter(name.replace("_", ".", 1))(torch)  # type: ignore[no-any-return]
    return getattr(torch, name)  # type: ignore[no-any-return]


def values(dtype: torch.dtype, count: int, seed: int) -> torch.Tensor:
    """Special and random values, shuffled so that pairs differ by seed."""
    drawn = samples.full_range_values(dtype, max(count, 60), seed)
    order = torch.randperm(drawn.numel(), generator=torch.Generator().manual_seed(seed))[:count]
    if dtype in samples.FLOAT8:
        return drawn.float()[order].to(dtype)
    if dtype in WIDE_UNSIGNED:
        return drawn.to(torch.int64)[order].to(dtype)
    return drawn[order]


def without_traps(name: str, a: Any, b: Any) -> Any:
    """The divisor without values on which torch raises or its process ends."""
    if name in ("gcd", "lcm") and isinstance(b, torch.Tensor) and b.dtype in samples.SIGNED:
        return b.clamp(min=torch.iinfo(b.dtype).min + 1)
    if name not in (*DIVISION, "div_trunc", "div_floor") or not isinstance(b, torch.Tensor):
        return b
    if not is_integral(b.dtype) or b.dtype == torch.bool:
        return b
    wide = b.to(torch.int64)  # torch.where lacks the wide unsigned dtypes before torch 2.12
    return torch.where((wide == 0) | (wide == -1), 1, wide).to(b.dtype)


def outcome(
    call: Callable[..., torch.Tensor], *arguments: Any, **keywords: Any
) -> torch.Tensor | Exception:
    """What a call returns or raises."""
    try:
        return call(*arguments, **keywords)
    except (RuntimeError, TypeError) as error:
        return error


def beyond_torch(operands: list[Any]) -> bool:
    """Whether iterlab computes in a dtype that most of torch's operators lack."""
    dtypes = {x.dtype for x in operands if isinstance(x, torch.Tensor)}
    if dtypes & EXTRA_DTYPES:
        return True
    return not all(isinstance(x, torch.Tensor) for x in operands) and (
        calls.common_dtype(operands) == torch.complex32
    )


# 2^other is a number of the dtype, and of its half type, up to here.
MAX_EXPONENT = {torch.float16: 14, torch.bfloat16: 120, torch.float32: 120, torch.float64: 120}
MAX_EXPONENT |= {torch.complex64: 120, torch.complex128: 120, torch.complex32: 14}


def without_faulty_nans(
    name: str, got: torch.Tensor, want: torch.Tensor, operands: list[Any]
) -> torch.Tensor:
    """Torch's vector fmod gives nan for large quotients; its scalar fmod, of one element, does not.

    And 2^other of a float overflows in torch's ldexp, whatever input is.
    """
    if name == "ldexp":
        other = torch.as_tensor(operands[1])
        size = other.abs() if other.is_complex() or other.is_floating_point() else other.double()
        beyond = (size.double().abs() > MAX_EXPONENT[want.dtype]).expand(want.shape)
        return torch.where(beyond, got, want)
    if name not in DIVISION or not want.is_floating_point():
        return want
    want = want.clone()
    for i in (torch.isnan(want) & ~torch.isnan(got)).nonzero().flatten().tolist():
        single = [x[i : i + 1] if isinstance(x, torch.Tensor) else x for x in operands]
        wide = want.dtype if want.dtype == torch.float64 else torch.float32
        single = [torch.as_tensor(x).to(wide) for x in single]
        want[i] = reference(name)(*single)[0]
    return want


def lenient(name: str, operands: list[Any]) -> bool:
    """Where iterlab takes a dtype from a number that torch takes from a tensor alone."""
    dtypes = [x.dtype for x in operands if isinstance(x, torch.Tensor)]
    if name in ("clamp_min", "clamp_max"):
        return torch.bool in dtypes
    return name == "ldexp" and (torch.bool in dtypes or len(dtypes) == 1)


def promotes_otherwise(name: str, operands: list[Any]) -> bool:
    """Torch's ldexp does not promote bool and a wide unsigned integer, but each with 2.0."""
    dtypes = {x.dtype for x in operands if isinstance(x, torch.Tensor)}
    return name == "ldexp" and bool(dtypes & set(WIDE_UNSIGNED))


def check_agreement(name: str, got: Any, want: Any, operands: list[Any], what: Any) -> None:
    if isinstance(want, Exception):
        if not isinstance(got, Exception) and (beyond_torch(operands) or lenient(name, operands)):
            return
        kinds = (RuntimeError, TypeError) if beyond_torch(operands) else type(want)
        assert isinstance(got, kinds), (what, got, want)
        return
    if isinstance(got, RuntimeError) and promotes_otherwise(name, operands):
        return
    if isinstance(got, Exception):
        raise AssertionError((what, want)) from got
    assert got.stride() == want.stride(), (what, got.stride(), want.stride())
    want = without_faulty_nans(name, got, want, operands)
    close(name, got, want, what)


def close(name: str, got: torch.Tensor, want: torch.Tensor, what: Any) -> None:
    if want.dtype.is_complex or (name in CANCELS and want.dtype.is_floating_point):
        assert got.dtype == want.dtype and got.shape == want.shape, (what, got, want)
        finite = torch.isfinite(want)
        if want.dtype.is_complex:  # parts of infinite and nan products are torch's own business
            got, want = got[finite], want[finite]
        tolerance = 32 * torch.finfo(want.dtype).eps
        torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
        return
    calls.assert_close(got, want, TOLERANCE.get(name, 0 if is_integral(want.dtype) else 2), what)


def half_reference(name: str, operands: list[Any], dtype: torch.dtype) -> torch.Tensor:
    """Of operands rounded to the common dtype, without torch's chains of half operations."""
    wide = [x.to(dtype).float() if isinstance(x, torch.Tensor) else x for x in operands]
    wide = [
        torch.tensor(x, dtype=torch.float32) if not isinstance(x, torch.Tensor) else x for x in wide
    ]
    return reference(name)(*wide).to(dtype)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", BINARY)
def test_every_dtype_pair(name: str) -> None:
    rng = random.Random(name)
    for first, second in itertools.product(ALL_DTYPES, repeat=2):
        if name == "ldexp" and not is_integral(second):
            continue  # torch rounds the power of two to the dtype of other
        count = rng.randrange(71)
        a, b = values(first, count, 1), values(second, count, 2)
        b = without_traps(name, a, b)
        a = without_traps(name, b, a) if name == "lcm" else a
        got = outcome(getattr(ops, name), a, b)
        want = outcome(reference(name), a, b)
        if name != "nextafter" and getattr(want, "dtype", None) in (torch.float16, torch.bfloat16):
            want = half_reference(name, [a, b], want.dtype)
        check_agreement(name, got, want, [a, b], (name, first, second))


NUMBERS = (0, 1, 2, 3, -1, 7, True, 0.5, -2.5, 2.0, math.inf, math.nan, 1.5 + 2j)


@pytest.mark.parametrize("name", BINARY)
def test_numbers_on_either_side(name: str) -> None:
    dtypes = [dtype for dtype in ALL_DTYPES if dtype not in samples.FLOAT8]
    for dtype, number, side in itertools.product(dtypes, NUMBERS, (0, 1)):
        x = values(dtype, 50, 3)
        operands: list[Any] = [number, x] if side == 0 else [x, number]
        operands[1] = without_traps(name, *operands)
        operands[0] = without_traps(name, 0, operands[0]) if name == "lcm" else operands[0]
        integers = not isinstance(number, float) and is_integral(dtype)
        if name in DIVISION and side == 1 and integers and number in (0, -1, True):
            continue
        got = outcome(getattr(ops, name), *operands)
        want = outcome(reference(name), *operands)
        if isinstance(want, TypeError):  # torch takes tensors only
            unsigned = is_integral(dtype) and dtype not in samples.SIGNED
            if number is True or (isinstance(number, int) and number < 0 and unsigned):
                continue
            try:
                full = calls.common_dtype(operands)
            except RuntimeError:
                continue
            wide = [
                y if isinstance(y, torch.Tensor) else torch.full_like(x, y, dtype=full)
                for y in operands
            ]
            if name in ("isclose", "heaviside"):
                wide = [y.to(full) for y in wide]
            want = outcome(reference(name), *wide)
        if isinstance(want, torch.Tensor) and want.dtype in (torch.float16, torch.bfloat16):
            if name in ("nextafter", "pow"):
                continue
            want = half_reference(name, operands, want.dtype)
        if name == "isclose" and dtype in (torch.float16, torch.bfloat16):
            continue
        if name == "pow" and dtype == torch.bool and number is True:
            continue  # torch copies the base
        check_agreement(name, got, want, operands, (name, dtype, number, side))


@pytest.mark.parametrize("name", BINARY)
def test_out_and_in_place(name: str) -> None:
    for first, second in itertools.product(
        (torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.complex64),
        repeat=2,
    ):
        a, b = samples.ordinary_values(first, 30, 1), samples.ordinary_values(second, 30, 2)
        want = outcome(getattr(ops, name), a, b)
        if isinstance(want, Exception):
            continue
        out = torch.empty_like(want)
        assert getattr(ops, name)(a, b, out=out) is out
        calls.assert_bitwise(out, want)
        expected = (
            outcome(getattr(torch.Tensor, name + "_"), a.clone(), b)
            if hasattr(torch.Tensor, name + "_")
            else None
        )
        target = a.clone()
        got = outcome(getattr(ops, name + "_"), target, b) if hasattr(ops, name + "_") else None
        if isinstance(expected, torch.Tensor):
            assert got is target, (name, first, second, got)
            calls.assert_bitwise(target, want.to(first), (name, first, second))
        elif isinstance(expected, Exception) and first == second:
            assert isinstance(got, type(expected)), (name, first, got, expected)


@pytest.mark.parametrize("name", [*DIVISION, "div"])
def test_integer_division_by_zero_raises(name: str) -> None:
    """Never a trap that ends the process; from many threads too."""
    more = {"rounding_mode": "trunc"} if name == "div" else {}
    for dtype, count in itertools.product(samples.INTEGERS, (1, 100_000)):
        a, b = torch.ones(count).to(dtype), torch.ones(count).to(dtype)
        b[count // 2] = 0
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            getattr(ops, name)(a, b, **more)


def test_lowest_number_divided_by_minus_one_wraps() -> None:
    """ATen's process ends here."""
    for dtype in samples.SIGNED:
        low = torch.full((9,), torch.iinfo(dtype).min, dtype=dtype)
        minus, zero = torch.full_like(low, -1), torch.zeros_like(low)
        assert torch.equal(ops.floor_divide(low, minus), low)
        assert torch.equal(ops.div(low, minus, rounding_mode="trunc"), low)
        assert torch.equal(ops.remainder(low, minus), zero)
        assert torch.equal(ops.fmod(low, minus), zero)
        assert torch.equal(ops.lcm(low, minus), low)


@pytest.mark.parametrize("mode", ["trunc", "floor"])
def test_rounding_modes(mode: str) -> None:
    for dtype in (*samples.SIGNED, torch.uint8, torch.float32, torch.float64):
        a, b = values(dtype, 60, 1), without_traps("div_floor", None, values(dtype, 60, 2))
        got, want = ops.div(a, b, rounding_mode=mode), torch.div(a, b, rounding_mode=mode)
        if mode == "floor":
            want = without_faulty_nans("floor_divide", got, want, [a, b])
        calls.assert_close(got, want, 0, (dtype, mode))
    with pytest.raises(RuntimeError, match="rounding_mode"):
        ops.div(a, b, rounding_mode="up")
