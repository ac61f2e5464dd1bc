"""Ternary operators, clamps, fills, copies and memory formats against torch."""

from __future__ import annotations

import itertools
import random
from typing import Any

import calls
import pytest
import samples
import torch
from samples import ALL_DTYPES
from test_binary_reference import EXTRA_DTYPES, check_agreement, outcome, values

pytestmark = calls.TORCH_WARNINGS
ops = torch.ops.iterlab
SOME = (
    torch.bool,
    torch.uint8,
    torch.int64,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
)


@pytest.mark.parametrize("name", ["clamp", "lerp", "addcmul", "addcdiv"])
def test_dtypes(name: str) -> None:
    cases = [(d, d, d) for d in ALL_DTYPES] + list(itertools.product(SOME, repeat=3))
    for dtypes in cases:
        operands = [
            values(d, random.Random(name).randrange(1, 71), i) for i, d in enumerate(dtypes)
        ]
        got = outcome(getattr(ops, name), *operands)
        want = outcome(getattr(torch, name), *operands)
        if isinstance(want, torch.Tensor) and want.dtype in (torch.float16, torch.bfloat16):
            want = getattr(torch, name)(*(x.float() for x in operands)).to(want.dtype)
        check_agreement(name, got, want, operands, (name, dtypes))


@pytest.mark.parametrize("value", [3, 2.5, -1, 0, 1.5j])
@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_value(name: str, value: complex) -> None:
    for dtype in ALL_DTYPES:
        operands = [samples.ordinary_values(dtype, 40, i) for i in range(3)]
        if isinstance(value, complex) and not dtype.is_complex:
            continue
        got = outcome(getattr(ops, name), *operands, value=value)
        want = outcome(getattr(torch, name), *operands, value=value)
        if isinstance(want, torch.Tensor) and want.dtype in (torch.float16, torch.bfloat16):
            wide = getattr(torch, name)(*(x.float() for x in operands), value=value)
            torch.testing.assert_close(got, wide.to(dtype))
            continue
        check_agreement(name, got, want, operands, (name, dtype, value))


@pytest.mark.parametrize(
    "bounds", [(0, 2), (None, 1), (1, None), (0.5, 1.5), (3, 1), (None, float("nan"))]
)
def test_clamp_between_numbers(bounds: tuple[Any, Any]) -> None:
    for dtype in ALL_DTYPES:
        if dtype in samples.FLOAT8:  # torch fills with nan whatever the dtype
            continue
        x = values(dtype, 50, 5)
        got, want = outcome(ops.clamp, x, *bounds), outcome(torch.clamp, x, *bounds)
        check_agreement("clamp", got, want, [x], (dtype, bounds))
        check_agreement(
            "clamp",
            outcome(ops.clamp_, x.clone(), *bounds),
            outcome(x.clone().clamp_, *bounds),
            [x],
            (dtype, bounds),
        )


def test_clamp_overloads() -> None:
    x = torch.randn(4, 5)
    low, high = torch.randn(5), torch.randn(4, 1)
    assert torch.equal(ops.clamp(x, low, high), torch.clamp(x, low, high))
    assert torch.equal(ops.clamp(x, min=low), torch.clamp(x, min=low))
    assert torch.equal(ops.clamp(x, max=high), torch.clamp(x, max=high))
    assert torch.equal(ops.clamp(x, max=0.5), torch.clamp(x, max=0.5))
    out = torch.empty(0)
    assert torch.equal(ops.clamp(x, 0.1, 0.2, out=out), torch.clamp(x, 0.1, 0.2))
    for arguments in ((), (None, None)):
        with pytest.raises(RuntimeError, match="expected min or max"):
            ops.clamp(x, *arguments)
    with pytest.raises(RuntimeError, match="without overflow"):
        ops.clamp(torch.ones(2, dtype=torch.uint8), 300)


@pytest.mark.parametrize("value", [3, 2.5, True, -1, 300, 1.5 + 2j, float("nan")])
def test_masked_fill_and_fill(value: complex) -> None:
    for dtype in ALL_DTYPES:
        x = values(dtype, 50, 5).view(5, 10)
        mask = torch.arange(10) % 3 == 0
        for given in (value, torch.tensor(value)):
            narrow = samples.is_integral(dtype) and dtype != torch.bool
            if (
                narrow
                and isinstance(given, torch.Tensor)
                and (value in (300, -1) or value != value)
            ):
                continue  # converted as copy_ does; torch's masked_fill raises, its fill wraps
            if (
                isinstance(value, complex)
                and isinstance(given, torch.Tensor)
                and not dtype.is_complex
            ):
                continue
            got = outcome(ops.masked_fill, x, mask, given)
            want = outcome(x.masked_fill, mask, given)
            check_agreement(
                "masked_fill",
                got,
                want,
                [x, *([given] if isinstance(given, torch.Tensor) else [])],
                (dtype, given),
            )
            for call, twin in ((ops.fill, torch.fill), (ops.fill_, torch.Tensor.fill_)):
                got, want = (
                    outcome(call, x.clone(), given),
                    outcome(twin, x.clone(), given),
                )
                check_agreement("fill", got, want, [x], (dtype, given))


def test_masked_fill_refuses() -> None:
    x, mask = torch.ones(3, 4), torch.ones(4, dtype=torch.bool)
    with pytest.raises(RuntimeError, match="a mask of dtype bool"):
        ops.masked_fill(x, mask.byte(), 1)
    with pytest.raises(RuntimeError, match="value to be a number or a 0-d tensor"):
        ops.masked_fill(x, mask, torch.ones(1))
    with pytest.raises(RuntimeError, match="in-place"):
        ops.masked_fill_(x[:1], torch.ones(3, 4, dtype=torch.bool), 1)
    assert ops.masked_fill(x[:1], torch.ones(3, 4, dtype=torch.bool), 1).shape == (3, 4)
    with pytest.raises(RuntimeError, match="value to be a number or a 0-d tensor"):
        ops.fill(x, torch.ones(1))


def layouts_of_data() -> list[torch.Tensor]:
    base = torch.randn(4, 6, 8, 10)
    found = [
        base,
        base.to(memory_format=torch.channels_last),
        base.permute(3, 1, 0, 2),
        base[:, ::2],
    ]
    found += [base[0, 0].t(), base[..., ::3], base[:1].expand(3, 6, 8, 10), torch.randn(0, 5).t()]
    found += [
        torch.empty_strided((1, 33, 1, 65, 1), (77, 65, 79, 1, 81)).normal_(),
        torch.randn(()),
    ]
    found += [
        torch.empty_strided((1, 3), (99, 1)).normal_(),
        torch.randn(2, 3, 0, 4).permute(3, 0, 2, 1),
    ]
    found += [
        base[:, :1].permute(1, 0, 3, 2),
        torch.randn(5)[::-1] if False else torch.randn(5).flip(0),
    ]
    rng = random.Random(8)
    for _ in range(200):
        ndim = rng.randrange(6)
        whole = torch.randn(
            [rng.choice((0, 1, 1, 2, 3, 5)) if rng.random() < 0.9 else 4 for _ in range(ndim)]
        )
        view = whole.permute(rng.sample(range(ndim), ndim))
        view = view[tuple(slice(None, None, rng.choice((1, 1, 2))) for _ in range(ndim))]
        found.append(view)
    return found


def test_clone_and_to_preserve_strides_as_torch() -> None:
    for x in layouts_of_data():
        for y in (x, x.to(torch.device("meta"))):
            got, want = ops.clone(y), y.clone()
            assert got.stride() == want.stride(), (x.shape, x.stride(), got.stride(), want.stride())
            moved, twin = ops.to(y, torch.bfloat16), y.to(torch.bfloat16)
            assert moved.stride() == twin.stride(), (
                x.shape,
                x.stride(),
                moved.stride(),
                twin.stride(),
            )
            filled, full = ops.fill(y, 2), torch.fill(x, 2)
            assert filled.stride() == full.stride(), (
                x.shape,
                x.stride(),
                filled.stride(),
                full.stride(),
            )
        calls.assert_bitwise(ops.clone(x), x.clone())
        calls.assert_bitwise(ops.to(x, torch.bfloat16), x.to(torch.bfloat16))


@pytest.mark.parametrize(
    "memory_format",
    [torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d],
)
def test_memory_formats(memory_format: torch.memory_format) -> None:
    for x in layouts_of_data():
        for y in (x, x.to(torch.device("meta"))):
            got = outcome(ops.clone, y, memory_format=memory_format)
            want = outcome(y.clone, memory_format=memory_format)
            if isinstance(want, Exception):
                assert isinstance(got, RuntimeError)
                continue
            assert got.stride() == want.stride(), (x.shape, x.stride(), got.stride(), want.stride())
            if not y.is_meta:
                calls.assert_bitwise(got, want)
            if memory_format == torch.preserve_format:
                continue
            got, want = (
                ops.contiguous(y, memory_format=memory_format),
                y.contiguous(memory_format=memory_format),
            )
            assert got.stride() == want.stride()
            assert (got is y) == (want is y)


def test_copy_between_all_dtypes() -> None:
    for source, target in itertools.product(ALL_DTYPES, repeat=2):
        src, dst = samples.ordinary_values(source, 24), torch.zeros(24).to(target)
        want = dst.clone().copy_(src)
        assert ops.copy_(dst, src) is dst
        calls.assert_bitwise(dst, want, (source, target))


def test_copy_layouts_and_errors() -> None:
    dst = torch.zeros(4, 6)
    assert torch.equal(ops.copy_(dst, torch.arange(6)), torch.arange(6.0).expand(4, 6))
    assert torch.equal(ops.copy_(dst.t(), torch.randn(6, 4)), dst.t())
    part = torch.zeros(4, 6)
    ops.copy_(part[:, ::2], torch.ones(4, 3, dtype=torch.int8))
    assert torch.equal(part, torch.tensor([1.0, 0] * 3).expand(4, 6))
    ops.copy_(part, 7 * torch.ones(()))
    assert torch.equal(part, torch.full((4, 6), 7.0))
    with pytest.raises(RuntimeError):
        ops.copy_(torch.zeros(1), torch.zeros(2))
    nan = torch.full((3,), float("nan"))
    assert torch.equal(ops.fill_(nan, 1), torch.ones(3))
    assert EXTRA_DTYPES
