"""Elementary functions where some arguments have no ordinary result: the CPU's loops take those
elsewhere, and an element's result must not show what its neighbours are."""

import pytest
import torch

ops = torch.ops.iterlab

FUNCTIONS = [
    "exp",
    "log",
    "log2",
    "log10",
    "sin",
    "cos",
    "tan",
    "asin",
    "acos",
    "atan",
    "tanh",
    "erf",
    "erfc",
    "erfinv",
]
AROUND = ["logit", "special_ndtr", "tanhshrink"]  # a function inside a formula
COUNT = 7000  # several pieces, the last not whole


def special(dtype: torch.dtype) -> torch.Tensor:
    """Numbers at and beyond the ends of the domains."""
    limits = torch.finfo(dtype)
    ends = [0.0, limits.tiny, limits.tiny / 4, limits.smallest_normal, limits.max, torch.inf]
    ends += [1, 1 + limits.eps, 1 - limits.eps / 2, 2, 9.5, 27, 87.5, 89, 100.5, 104, 105, 200]
    ends += [708.5, 710, 745, 747, 1e9]
    both = torch.tensor([*ends, torch.nan], dtype=torch.float64).to(dtype)
    return torch.cat([both, -both])


def arguments(dtype: torch.dtype, first: int, step: int) -> torch.Tensor:
    """Ordinary numbers, and every `step`-th from `first` on a special one."""
    generator = torch.Generator().manual_seed(5)
    x = torch.rand(COUNT, generator=generator, dtype=dtype) * 0.9 + 0.05
    chosen = special(dtype)
    places = torch.arange(first, COUNT, step)
    x[places] = chosen[torch.arange(len(places)) % len(chosen)]
    return x


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", [*FUNCTIONS, *AROUND])
def test_neighbours_do_not_show(name: str, dtype: torch.dtype) -> None:
    call = getattr(ops, name)
    bits = torch.int32 if dtype == torch.float32 else torch.int64
    for first, step in ((0, 1), (0, 7), (5000, 3), (3000, 4000)):
        x = arguments(dtype, first, step)
        alone = torch.cat([call(one) for one in x[first::step][:100].view(-1, 1)])
        together = call(x)
        assert torch.equal(together[first::step][:100].view(bits), alone.view(bits))
        assert torch.equal(call(x[1:]).view(bits), together[1:].view(bits))
        into = torch.empty_like(x)
        assert torch.equal(call.out(x, out=into).view(bits), together.view(bits))
        if hasattr(ops, name + "_"):
            assert torch.equal(getattr(ops, name + "_")(x.clone()).view(bits), together.view(bits))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_atens(name: str, dtype: torch.dtype) -> None:
    x = arguments(dtype, 0, 3)
    close = 1e-6 if dtype == torch.float32 else 1e-14
    result, expected = getattr(ops, name)(x), getattr(torch, name)(x)
    assert torch.allclose(result, expected, rtol=close, atol=0, equal_nan=True)
    assert torch.equal(result.signbit() & ~result.isnan(), expected.signbit() & ~expected.isnan())
