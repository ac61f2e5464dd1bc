"""Calls of few elements, computed without a plan: what a plan would give, in its layout."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import calls
import layouts
import pytest
import torch

import iterlab

SHAPES = [(16,), (5, 7), (2, 3, 4), (2, 3, 4, 5), (2, 1, 7), (1, 1), (2, 2, 2, 2, 3)]
RECIPES: list[layouts.Recipe] = [
    layouts.dense,
    layouts.reversed_dims,
    layouts.every(2),
    layouts.sliced(3),
    layouts.row,
    layouts.column,
    layouts.one,
    lambda draw, shape: (
        layouts.dense(draw, shape[:1]).view(-1, *[1] * (len(shape) - 1)).expand(shape)
    ),
]


def planned(call: Callable[[], Any]) -> Any:
    """The same call, for which a plan is made."""
    with iterlab.force_path("generic"):
        return call()


def assert_same(got: torch.Tensor, want: torch.Tensor, what: object) -> None:
    assert (got.shape, got.stride()) == (want.shape, want.stride()), what
    calls.assert_bitwise(got, want, what)


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.parametrize("entry", calls.ELEMENTWISE, ids=calls.name_of)
def test_as_planned(entry: iterlab.OpEntry) -> None:
    function = calls.function(entry)
    parameters = calls.parameter_sets(entry)[0]
    for dtype in calls.input_dtypes(entry):
        draws = calls.draws_of(entry, [dtype], "cpu")
        for shape, (i, first), (j, second) in itertools.product(
            SHAPES, enumerate(RECIPES), enumerate(RECIPES)
        ):
            recipes = (first, second, RECIPES[(i + j) % len(RECIPES)])
            if len(draws) == 1 and j != 0:
                continue
            operands = [
                draw(1)[0] if entry.number_inputs >> k & 1 else recipes[k % 3](draw, shape)
                for k, draw in enumerate(draws)
            ]

            def call(
                entry: iterlab.OpEntry = entry, operands: list[torch.Tensor] = operands
            ) -> torch.Tensor:
                result: torch.Tensor = calls.invoke(function, entry, operands, parameters)
                return result

            what = (entry.name, dtype, shape, i, j)
            assert_same(call(), planned(call), what)


def test_which_calls_are_small() -> None:
    x = torch.rand(8, 16)

    def small(*operands: Any, **arguments: Any) -> bool:
        return iterlab.plan("add", *operands, **arguments).small

    assert small(x, x) and small(x, x[:, :1]) and small(x.t(), x.t())
    assert small(x[:, ::2], x[:, 1::2])
    assert not small(x[:, ::2], x[:, ::2], out=torch.empty(8, 8))
    assert small(torch.rand(100, 100), torch.rand(100, 100))
    assert not small(torch.rand(1000, 1000), torch.rand(1000, 1000))  # has threads
    assert not small(torch.rand(16, 16), torch.rand(16, 16).t())  # more than are gathered
    assert not small(x, x.double()) and not small(x, 2) and not small(x[0, 0], x[0, 0])
    assert small(x, x, out=torch.empty(8, 16))
    assert not small(x, x, out=torch.empty(16, 8).t())
    with iterlab.force_path("vectorized"):
        assert not small(x, x)


def test_explain_says_so() -> None:
    x = torch.rand(4, 8)
    text = str(iterlab.explain("add", x[:, ::2], x[:, 1::2]))
    assert "no plan is made for so few elements: `input` and `other` copied" in " ".join(
        text.split()
    )
    assert "no plan is made" not in str(iterlab.explain("add", x, x.double()))


def test_given_outputs() -> None:
    x = torch.arange(64.0)
    out = torch.empty(64)
    assert iterlab.mul(x, x, out=out) is out and torch.equal(out, x * x)
    assert torch.equal(iterlab.add(out, x, out=out), x * x + x)
    assert torch.equal(iterlab.add_(x.clone(), x), x + x)
    flags = torch.empty(64, dtype=torch.bool)
    assert torch.equal(iterlab.gt(x, out, out=flags), x > out)
    shared = torch.arange(96.0)
    with pytest.raises(RuntimeError, match="memory"):
        iterlab.add_(shared[:64], shared[32:])
    bytes_of_x = x.view(torch.uint8)[:64].view(torch.bool)
    with pytest.raises(RuntimeError, match="memory"):
        iterlab.gt(x, x, out=bytes_of_x)
    grown = torch.empty(0)
    assert torch.equal(iterlab.add(x, x, out=grown), x + x)


def test_arguments_are_checked() -> None:
    x, n = torch.rand(4), torch.arange(4)
    for call in (
        lambda: iterlab.add(n, n, alpha=1.5),
        lambda: iterlab.add(x, torch.rand(3)),
        lambda: iterlab.div(x, x, rounding_mode="up"),
        lambda: iterlab.sub(x > 0, x > 0),
        lambda: iterlab.floor_divide(n, torch.zeros_like(n)),
    ):
        with pytest.raises(RuntimeError):
            call()
    assert torch.equal(
        iterlab.div(n, n + 1, rounding_mode="floor"), torch.div(n, n + 1, rounding_mode="floor")
    )
    torch.set_default_dtype(torch.float64)
    try:
        assert iterlab.div(n, n + 1).dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    assert iterlab.div(n, n + 1).dtype == torch.float32


def test_results_that_live_at_once_lie_apart() -> None:
    x = torch.arange(16.0)
    for size in (1, 16, 17, 100, 256, 257, 300):
        results = [iterlab.add(x[:1].expand(size).contiguous(), k) for k in range(20)]
        for _ in range(3):
            addresses = sorted(result.data_ptr() for result in results)
            assert all(b - a >= 4 * size for a, b in itertools.pairwise(addresses))
            assert all(address % 64 == 0 for address in addresses)
            assert all(bool((result == k).all()) for k, result in enumerate(results))
            results[::3] = [iterlab.add(result, 0) for result in results[::3]]
    grown = iterlab.add(x, x).resize_(1000)
    assert torch.equal(grown[:16], x + x)


def test_results_are_freed_by_other_threads() -> None:
    x = torch.rand(16)
    results: list[torch.Tensor] = []

    def make() -> None:
        results.extend(iterlab.add(x, x) for _ in range(100))

    for _ in range(20):
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        assert all(torch.equal(result, x + x) for result in results)
        results.clear()


def test_a_profiler_sees_the_memory() -> None:
    x = torch.rand(16)
    kept = iterlab.add(x, x)
    with torch.autograd.profiler.profile(profile_memory=True) as profiler:
        result = iterlab.add(x, x)
        del kept
    rows = {row.key: row for row in profiler.key_averages()}
    assert rows["iterlab::add"].cpu_memory_usage == result.nbytes
