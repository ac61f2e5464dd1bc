"""Operators of two and three operands against torch: every dtype pair, number, special value and variant."""

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
from samples import ALL_DTYPES, FLOATS, WIDE_UNSIGNED, is_integral

import iterlab

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
TOLERANCE |= {"addcmul": 4, "addcdiv": 4}
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
    """The second operand without values on which torch's integer division raises or ends the process."""
    if name in ("gcd", "lcm") and isinstance(b, torch.Tensor) and b.dtype in samples.SIGNED:
        return b.clamp(min=torch.iinfo(b.dtype).min + 1)
    if name not in (*DIVISION, "div_trunc", "div_floor") or not isinstance(b, torch.Tensor):
        return b
    if not is_integral(b.dtype) or b.dtype == torch.bool:
        return b
    bad = (b == 0) | (b.to(torch.int64) == -1)
    return torch.where(bad, torch.ones((), dtype=b.dtype), b)


def outcome(call: Callable[[], torch.Tensor]) -> torch.Tensor | Exception:
    try:
        return call()
    except (RuntimeError, TypeError) as error:
        return error


def halves(operands: list[Any]) -> bool:
    """Whether the result is of a half type, which torch reaches by other roundings."""
    return calls.common_dtype(operands) in (torch.float16, torch.bfloat16)


def agree(name: str, got: Any, want: Any, operands: list[Any], what: Any) -> None:
    if isinstance(want, Exception):
        mine = {getattr(x, "dtype", None) for x in operands} & EXTRA_DTYPES
        numbers = any(not isinstance(x, torch.Tensor) for x in operands)
        lacking = isinstance(want, TypeError) and numbers
        if not isinstance(got, Exception) and (mine or lacking):
            return
        assert isinstance(got, type(want)), (what, got, want)
        return
    if isinstance(got, Exception):
        raise AssertionError((what, want)) from got
    assert got.stride() == want.stride(), (what, got.stride(), want.stride())
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
    wide = [x.float() if isinstance(x, torch.Tensor) else x for x in operands]
    wide = [torch.tensor(x, dtype=torch.float32) if not isinstance(x, torch.Tensor) else x for x in wide]
    return reference(name)(*wide).to(dtype)  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", BINARY)
def test_every_dtype_pair(name: str) -> None:
    rng = random.Random(name)
    for first, second in itertools.product(ALL_DTYPES, repeat=2):
        count = rng.randrange(71)
        a, b = values(first, count, 1), values(second, count, 2)
        b = without_traps(name, a, b)
        a = without_traps(name, b, a) if name == "lcm" else a
        got = outcome(lambda: getattr(ops, name)(a, b))
        want = outcome(lambda: reference(name)(a, b))
        if isinstance(want, torch.Tensor) and want.dtype in (torch.float16, torch.bfloat16):
            if name != "nextafter":
                want = half_reference(name, [a, b], want.dtype)
        if name == "isclose" and first in (torch.float16, torch.bfloat16):
            want = outcome(lambda: torch.isclose(a.float(), b.float()))
        agree(name, got, want, [a, b], (name, first, second))


NUMBERS = (0, 1, 2, 3, -1, 7, True, 0.5, -2.5, 2.0, math.inf, math.nan, 1.5 + 2j)


@pytest.mark.parametrize("name", BINARY)
def test_numbers_on_either_side(name: str) -> None:
    for dtype, number, side in itertools.product(ALL_DTYPES, NUMBERS, (0, 1)):
        x = values(dtype, 50, 3)
        operands: list[Any] = [number, x] if side == 0 else [x, number]
        operands[1] = without_traps(name, *operands)
        operands[0] = without_traps(name, 0, operands[0]) if name == "lcm" else operands[0]
        if name in DIVISION and side == 1 and not isinstance(number, float) and is_integral(dtype):
            if number in (0, -1) or number is True:
                continue
        got = outcome(lambda: getattr(ops, name)(*operands))
        want = outcome(lambda: reference(name)(*operands))
        if isinstance(want, TypeError):  # torch takes tensors only
            full = calls.common_dtype(operands)
            wide = [y if isinstance(y, torch.Tensor) else torch.full_like(x, y, dtype=full) for y in operands]
            if name in ("isclose", "heaviside"):
                wide = [y.to(full) for y in wide]
            want = outcome(lambda: reference(name)(*wide))
        if isinstance(want, torch.Tensor) and want.dtype in (torch.float16, torch.bfloat16):
            if name in ("nextafter", "pow"):
                continue
            want = half_reference(name, operands, want.dtype)
        if name == "isclose" and dtype in (torch.float16, torch.bfloat16):
            continue
        agree(name, got, want, operands, (name, dtype, number, side))


@pytest.mark.parametrize("name", BINARY)
def test_out_and_in_place(name: str) -> None:
    for first, second in itertools.product(
        (torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.complex64), repeat=2
    ):
        a, b = samples.ordinary_values(first, 30, 1), samples.ordinary_values(second, 30, 2)
        want = outcome(lambda: getattr(ops, name)(a, b))
        if isinstance(want, Exception):
            continue
        out = torch.empty_like(want)
        assert getattr(ops, name)(a, b, out=out) is out
        calls.assert_bitwise(out, want)
        expected = outcome(lambda: getattr(torch.Tensor, name + "_")(a.clone(), b)) if hasattr(
            torch.Tensor, name + "_"
        ) else None
        target = a.clone()
        got = outcome(lambda: getattr(ops, name + "_")(target, b)) if hasattr(ops, name + "_") else None
        if isinstance(expected, torch.Tensor):
            assert got is target, (name, first, second, got)
            calls.assert_bitwise(target, want.to(first), (name, first, second))
        elif isinstance(expected, Exception) and first == second:
            assert isinstance(got, type(expected)), (name, first, got, expected)
