"""Results at the edges of dtypes: rounded once, nothing lost between, as torch has them."""

from __future__ import annotations

import math

import pytest
import torch

import iterlab

ops = torch.ops.iterlab
inf, nan = math.inf, math.nan


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("given", [torch.float32, torch.float64, torch.int64], ids=str)
@pytest.mark.parametrize("count", [1, 3, 100, 3000])
def test_mean_rounds_the_result_alone(
    count: int, given: torch.dtype, dtype: torch.dtype, device: str
) -> None:
    x = (torch.arange(count * 4, device=device).reshape(count, 4) * 131 % 9001 + 257).to(given)
    for dim in (0, 1, [0, 1]):
        expected = x.to(torch.float64).mean(dim).to(dtype)
        result = ops.mean(x, dim if isinstance(dim, list) else [dim], dtype=dtype)
        assert result.dtype == dtype
        assert torch.allclose(result.double(), expected.double(), rtol=2**-7, atol=0)
    large = torch.tensor([70000.0, -70000.0, 6.0], device=device).to(given)
    assert ops.mean(large, dtype=dtype).item() == 2


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("given", [torch.float32, torch.float16, torch.float64], ids=str)
def test_nansum_to_integers_skips_nan(given: torch.dtype, dtype: torch.dtype, device: str) -> None:
    x = torch.tensor([[nan, 1.5, 2.5], [3, nan, nan]], dtype=given, device=device)
    assert torch.equal(ops.nansum(x, [1], dtype=dtype), torch.tensor([3, 3]).to(x.device, dtype))
    assert ops.nansum(x, dtype=dtype).item() == 6
    out = torch.empty(3, dtype=dtype, device=device)
    ops.nansum(x, [0], dtype=dtype, out=out)
    assert out.tolist() == [3, 1, 2]


@pytest.mark.filterwarnings("ignore:.*degrees of freedom")
@pytest.mark.parametrize("values", [[1e200, 1.0, 2.0], [1e308], [inf, 1.0], [1e200, -1e200]])
def test_var_of_large_doubles(values: list[float], device: str) -> None:
    x = torch.tensor(values, dtype=torch.float64, device=device)
    for correction in (0, 1):
        result = ops.var(x, correction=correction)
        expected = torch.tensor(values, dtype=torch.float64).var(correction=correction)
        assert torch.allclose(result.cpu(), expected, equal_nan=True)
        columns = ops.var(x[:, None].expand(-1, 5).contiguous(), [0], correction=correction)
        assert torch.allclose(columns.cpu(), expected.expand(5), equal_nan=True)


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 2.5, 3, inf, -inf, -1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_norms_of_one_element(order: float, dtype: torch.dtype, device: str) -> None:
    x = torch.tensor([[1e30, -1e-30, 3, 0, -0.0]], dtype=dtype, device=device)
    expected = torch.linalg.vector_norm(x, order, dim=0)
    assert torch.equal(ops.norm(x, order, [0]), expected)
    assert torch.equal(ops.norm(x[:, :1], order), expected[0])


@pytest.mark.parametrize("exponent", [0.5, -0.5])
@pytest.mark.parametrize("count", [2, 100])
def test_roots_of_halves_are_atens(exponent: float, count: int) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        x = torch.tensor([-inf, -0.0, 0.0, 4.0, inf, nan, -1.0], dtype=dtype).repeat(count)
        expected = torch.pow(x, exponent)
        assert torch.equal(ops.pow(x, exponent).nan_to_num(7), expected.nan_to_num(7))
        numbers = ~expected.isnan()
        assert torch.equal(ops.pow(x, exponent).signbit()[numbers], expected.signbit()[numbers])


def test_the_slope_of_sinc_near_zero(device: str) -> None:
    for dtype, small in ((torch.float32, 1e-24), (torch.bfloat16, 1e-30), (torch.float64, 1e-200)):
        values = [0.0, small, -small, 1e-3, 0.5]
        x = torch.tensor(values, dtype=dtype, device=device, requires_grad=True)
        y = torch.tensor(values, dtype=dtype, device=device, requires_grad=True)
        iterlab.sinc(x).sum().backward()
        torch.sinc(y).sum().backward()
        assert x.grad is not None and y.grad is not None
        assert torch.allclose(x.grad, y.grad, rtol=1e-2, atol=1e-4)


@pytest.mark.parametrize("name", ["fmod", "remainder", "floor_divide"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_division_by_what_has_no_remainder(name: str, dtype: torch.dtype, device: str) -> None:
    special = [0.0, -0.0, inf, -inf, nan, 1.5, -2.0, 1e-30, 7.25]
    x, y = torch.meshgrid(*[torch.tensor(special, dtype=dtype, device=device)] * 2, indexing="ij")
    for count in (1, 3, 7, 8, 81):
        a, b = x.flatten()[:count], y.t().flatten()[:count]
        for one, other in ((a, b), (b, a)):
            expected = getattr(torch, name)(one.cpu(), other.cpu())
            result = getattr(ops, name)(one, other).cpu()
            assert torch.allclose(result, expected, rtol=1e-6, atol=0, equal_nan=True)
