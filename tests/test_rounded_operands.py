"""Operands have the values of the common dtype, also where it computes in a wider one."""

from __future__ import annotations

import calls
import pytest
import torch

import iterlab

pytestmark = [*calls.TORCH_WARNINGS]

HALVES = [torch.half, torch.bfloat16]
WIDE = torch.tensor(1 / 3)  # no half-precision number


def layouts(x: torch.Tensor) -> list[torch.Tensor]:
    """The same values: flat, short, strided, transposed."""
    square = x[:289].view(17, 17)
    return [x, x[:3], x[::2], square, square.t(), square[:, :5]]


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_comparisons_with_a_wider_number(name: str, dtype: torch.dtype, device: str) -> None:
    x = torch.where(torch.arange(300) % 2 == 0, WIDE, 0.5).to(device, dtype)
    wide = WIDE.to(device)
    for view in layouts(x):
        got = getattr(iterlab, name)(view, wide)
        assert got.tolist() == getattr(torch, name)(view, wide).tolist()
        assert got.tolist() == getattr(torch, name)(view, wide.to(dtype)).tolist()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ["fmod", "remainder", "add", "atan2", "maximum", "hypot"])
def test_a_wider_number_is_rounded_first(name: str, dtype: torch.dtype, device: str) -> None:
    x, wide = torch.linspace(0.1, 9, 300).to(device, dtype), WIDE.to(device)
    for view in layouts(x):
        got = getattr(iterlab, name)(view, wide)
        assert torch.equal(got, getattr(iterlab, name)(view, wide.to(dtype)))
        torch.testing.assert_close(got, getattr(torch, name)(view, wide))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_a_number_beside_a_gpu_keeps_its_precision(dtype: torch.dtype, device: str) -> None:
    """As in ATen's kernels for CUDA, which get it with the launch; on the CPU it is rounded."""
    x = torch.linspace(0.1, 9, 300).to(device, dtype)
    number = WIDE if device != "cpu" else WIDE.to(dtype)
    want = (x.float() + number.float()).to(dtype)
    assert torch.equal(iterlab.add(x, WIDE), want)
    assert torch.equal(iterlab.add(x, WIDE.item()), want)
    assert torch.equal(torch.add(x, WIDE), want)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ["mul", "div", "true_divide"])
def test_factors_keep_their_precision(name: str, dtype: torch.dtype, device: str) -> None:
    x = torch.linspace(0.1, 9, 300).to(device, dtype)
    wide = getattr(torch, name)(x.float(), WIDE).to(dtype)
    assert torch.equal(getattr(iterlab, name)(x, WIDE), wide)
    assert torch.equal(getattr(iterlab, name)(x, WIDE.item()), wide)
    assert not torch.equal(getattr(iterlab, name)(x, WIDE.to(dtype)), wide)


def test_a_number_beyond_half_scales_a_half(device: str) -> None:
    x = torch.tensor(1e-5, dtype=torch.half, device=device)
    assert iterlab.mul(x, 1e5).item() == (x.float() * 1e5).half().item()
    full = torch.full((4,), 0.0, dtype=torch.half, device=device)
    assert (
        iterlab.lerp(full, full + 0.1, 70000).tolist()
        == [(torch.tensor(0.1).half().float() * 70000).half().item()] * 4
    )


@pytest.mark.parametrize("path", ["vectorized", "strided", "tiled", "generic"])
def test_integers_beside_halves(path: str, device: str) -> None:
    n = 16 if device == "cpu" else 128  # whole tiles
    values = torch.tensor([2049, 4097, 70000, -3], dtype=torch.int32, device=device)
    integers = values.repeat(n * n // 4).view(n, n)
    halves = torch.ones(n, 2 * n, dtype=torch.half, device=device)
    halves = halves[:, ::2] if path == "strided" else halves[:, :n].contiguous()
    if path == "tiled":
        integers = integers.t()
    want = torch.add(integers, halves)
    with iterlab.force_path(path):
        got = iterlab.add(integers, halves)
        empty = torch.empty(n, n, dtype=torch.float64, device=device)
        out = iterlab.add(integers.half(), halves, out=empty)
    assert torch.equal(got, want)
    assert torch.equal(out, want.double())
    assert want.isinf().any()


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_truncated_quotients_are_of_stored_ones(dtype: torch.dtype, device: str) -> None:
    a = torch.linspace(-60, 60, 999).to(device, dtype)
    b = torch.linspace(0.3, 7, 999).flip(0).to(device, dtype)
    got = iterlab.div(a, b, rounding_mode="trunc")
    assert torch.equal(got, torch.div(a, b).trunc())
    assert not torch.equal(got, torch.div(a.float(), b.float()).trunc().to(dtype))


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("bound", [1 / 3, 0.1, 0.7])
def test_bounds_of_shrinking_are_rounded(bound: float, dtype: torch.dtype, device: str) -> None:
    """As in ATen's kernels for the CPU; those for CUDA round softshrink's too."""
    edge = torch.tensor(bound, dtype=dtype)
    inward, outward = (torch.nextafter(edge, torch.tensor(end, dtype=dtype)) for end in (0, 1))
    x = torch.stack([inward, edge, outward, -inward, -edge, -outward]).repeat(9)
    grad = torch.ones_like(x)
    for name, operands in (
        ("hardshrink", (x,)),
        ("softshrink", (x,)),
        ("hardshrink_backward", (grad, x)),
        ("softshrink_backward", (grad, x)),
    ):
        got = getattr(torch.ops.iterlab, name)(*(x.to(device) for x in operands), bound)
        assert torch.equal(got.cpu(), getattr(torch.ops.aten, name)(*operands, bound)), name
