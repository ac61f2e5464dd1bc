"""Dims of few elements, innermost: no call takes its elements one at a time for them."""

from __future__ import annotations

import math

import pytest
import torch

import iterlab

ops = torch.ops.iterlab

# Sizes and strides in elements.
LAYOUTS = [
    ((4, 3, 4096, 2), (1, 32768, 4, 16384)),
    ((100, 7, 3, 4), (240, 30, 5, 1)),
    ((2, 3, 100, 3), (2000, 700, 5, 1)),
    ((17, 100, 2, 3), (800, 8, 4, 1)),
    ((3, 500, 2, 2), (5000, 9, 4, 1)),
    ((2, 2, 2, 2, 2, 2), (100, 1, 17, 3, 300, 900)),
    ((5, 3, 64, 2), (1, 1000, 11, 0)),
]
DTYPES = [torch.float32, torch.float16, torch.int64, torch.int8, torch.bool, torch.complex64]
WIDE = dict.fromkeys(DTYPES, torch.float64) | {torch.complex64: torch.complex128}


def draw(
    sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, device: str = "cpu"
) -> torch.Tensor:
    count = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True)) + 1
    return torch.randint(0, 100, (count,), device=device).to(dtype).as_strided(sizes, strides)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_elementwise(
    layout: tuple[tuple[int, ...], tuple[int, ...]], dtype: torch.dtype, device: str
) -> None:
    sizes, strides = layout
    x = draw(sizes, strides, dtype, device)
    other = draw(sizes, tuple(stride + 1 for stride in strides), dtype, device)
    for y in (other, x.clone(), x.contiguous()):
        assert torch.equal(ops.eq(x, y), x == y)
        assert torch.equal(ops.where(x == y, x, y), torch.where(x == y, x, y))
        assert torch.equal(ops.copy_(torch.empty_like(y), x), x)
        if dtype != torch.bool:
            assert torch.equal(ops.add(x, y, alpha=2), torch.add(x, y, alpha=2))
            assert torch.equal(ops.mul(x, y.to(WIDE[dtype])), x * y.to(WIDE[dtype]))
    out = torch.empty(*sizes, 2, dtype=dtype, device=device)[..., 0]
    assert torch.equal(ops.clone(x), x) and torch.equal(ops.copy_(out, x), x)


@pytest.mark.parametrize("layout", LAYOUTS[:5], ids=str)
def test_tiles_have_elements_enough(layout: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    sizes, strides = layout
    x = draw(sizes, strides, torch.float32)
    plan = iterlab.plan("add", x, x.contiguous())
    assert str(plan.path) != "generic"
    assert math.prod(plan.tile) >= 32


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_reductions(
    layout: tuple[tuple[int, ...], tuple[int, ...]], dtype: torch.dtype, device: str
) -> None:
    sizes, strides = layout
    x = draw(sizes, strides, dtype, device)
    dense = x.contiguous().cpu()
    for dim in range(len(sizes)):
        total = ops.sum(x, [dim], dtype=WIDE[dtype]).cpu()
        assert torch.allclose(total, dense.to(WIDE[dtype]).sum(dim))
        assert torch.equal(ops.count_nonzero(x, [dim]).cpu(), dense.count_nonzero(dim))
        if x.is_complex():
            continue
        assert torch.equal(ops.amax(x, [dim]).cpu(), dense.amax(dim))
        values, at = ops.max(x, dim)
        assert torch.equal(values.cpu(), dense.amax(dim))
        assert torch.equal(x.gather(dim, at.unsqueeze(dim)).squeeze(dim), values)


@pytest.mark.parametrize("name", ["sum", "var", "logsumexp"])
def test_bits_do_not_depend_on_the_strips(name: str) -> None:
    x = torch.randn(33, 50, 2, 3)
    reduce = getattr(ops, name)
    expected = reduce(x, [-1])
    strided = torch.randn(33, 1, 50, 15)[:, 0, :, :8].unfold(2, 3, 5)[..., :3]
    strided.copy_(x)
    assert torch.equal(reduce(strided, [-1]), expected)
    assert torch.equal(reduce(x[:1], [-1]), expected[:1])
    assert torch.equal(reduce(x[3, 7], [-1]), expected[3, 7])
