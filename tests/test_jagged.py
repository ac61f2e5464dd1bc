"""Reductions and calls of three operands on jagged nested tensors."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import calls
import pytest
import torch

from iterlab import OpEntry

pytestmark = calls.TORCH_WARNINGS
OPS = torch.ops.iterlab
# By torch's function of the name; with the others, torch has no rule for nested tensors.
WITH_TWIN = ["sum", "mean", "prod", "amax", "amin", "any", "all", "argmax", "argmin"]
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.bool]


def jagged(values: torch.Tensor) -> torch.Tensor:
    """Rows of 3 and of 4, or as many as there are."""
    offsets = torch.tensor([0, 3, len(values)])
    return torch.nested.nested_tensor_from_jagged(values, offsets)  # type: ignore[no-any-return]


def check(got: Any, want: Any) -> None:
    for mine, theirs in zip(calls.outputs_of(got), calls.outputs_of(want), strict=True):
        assert mine.is_nested == theirs.is_nested
        if mine.is_nested:
            assert mine._ragged_idx == theirs._ragged_idx
            mine, theirs = mine.values(), theirs.values()
        torch.testing.assert_close(mine, theirs, equal_nan=True)


def sample(dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(7, 3, 2).mul(3).to(dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=calls.name_of)
@pytest.mark.parametrize("name", WITH_TWIN)
def test_reductions_are_those_of_torch(name: str, dtype: torch.dtype) -> None:
    mine, twin = getattr(OPS, name), getattr(torch, name)
    if (name == "mean" and not dtype.is_floating_point) or (
        dtype == torch.bool and name in {"amax", "amin", "argmax", "argmin"}
    ):
        pytest.skip("torch does not compute it")
    nested = jagged(sample(dtype))
    check(mine(nested), twin(nested))
    one_dim = name in {"prod", "argmax", "argmin"}
    for dim in (1, 2, 3, -1) if one_dim else (1, 2, [0, 1], [2, 3], [0, 1, 2]):
        for keepdim in (False, True):
            check(mine(nested, dim=dim, keepdim=keepdim), twin(nested, dim=dim, keepdim=keepdim))


@pytest.mark.parametrize("name", ["max", "min"])
def test_values_and_their_places(name: str) -> None:
    nested = jagged(sample(torch.float32))
    mine, twin = getattr(OPS, name), getattr(torch, name)
    check(mine(nested), twin(nested))
    for dim in (1, 2, 3):
        check(mine(nested, dim), twin(nested, dim))


@pytest.mark.parametrize("entry", calls.REDUCTIONS, ids=calls.name_of)
def test_dims_of_each_row(entry: OpEntry) -> None:
    values = sample(calls.usual_dtype(entry))
    call = getattr(OPS, entry.name)
    got, want = call(jagged(values), dim=3), call(values, dim=2)
    for mine, theirs in zip(calls.outputs_of(got), calls.outputs_of(want), strict=True):
        assert mine.is_nested
        torch.testing.assert_close(mine.values(), theirs)


def test_rows_of_the_smallest_value() -> None:
    nested = jagged(torch.full((7, 2), -torch.inf))
    assert torch.equal(OPS.amax(nested, dim=1), torch.full((2, 2), -torch.inf))


@pytest.mark.parametrize(("name", "dim"), [("var", 1), ("sum", 0), ("mean", [1, 2])])
def test_dims_that_are_refused(name: str, dim: Any) -> None:
    with pytest.raises(NotImplementedError, match=rf"iterlab::{name}: .*along .*unbind"):
        getattr(OPS, name)(jagged(sample(torch.float32)), dim=dim)


def test_holes_are_refused() -> None:
    nested = torch.nested.nested_tensor_from_jagged(
        torch.randn(7, 3), torch.tensor([0, 3, 7]), lengths=torch.tensor([2, 4])
    )
    with pytest.raises(NotImplementedError, match=r"iterlab::sum: .*holes.*contiguous"):
        OPS.sum(nested)
    assert OPS.sum(nested, dim=2).is_nested


def test_given_outputs_are_refused() -> None:
    nested = jagged(torch.randn(7, 3))
    for call in (lambda: OPS.add(nested, nested, out=nested), lambda: OPS.sum(nested, out=nested)):
        with pytest.raises(NotImplementedError, match=r"iterlab::.*out=; leave it away"):
            call()


def test_three_operands() -> None:
    x, row = torch.randn(7, 3), torch.randn(3)
    nested = jagged(x)
    above = nested > 0
    where = torch.where(x > 0, x, -x)
    check(OPS.where(above, nested, -nested), jagged(where))
    check(OPS.where(above, nested, row), jagged(torch.where(x > 0, x, row)))
    check(OPS.where(above, 1.0, nested), jagged(torch.where(x > 0, 1.0, x)))
    check(OPS.addcmul(nested, nested, row, value=2), jagged(torch.addcmul(x, x, row, value=2)))
    check(OPS.lerp(nested, -nested, torch.tensor(0.25)), jagged(torch.lerp(x, -x, 0.25)))
    check(OPS.masked_fill(nested, above, torch.tensor(2.0)), jagged(x.masked_fill(x > 0, 2)))
    want = jagged(torch.addcmul(x, x, row))
    assert OPS.addcmul_(nested, nested, row) is nested
    check(nested, want)


def test_gradients() -> None:
    values, weight = torch.randn(7, 3), torch.randn(3)

    def gradients(ops: Any) -> list[torch.Tensor]:
        x, w = jagged(values).requires_grad_(), weight.clone().requires_grad_()
        chosen = ops.where(x > 0, ops.mul(x, w), x)
        best = ops.amax(chosen, dim=[1])
        return list(torch.autograd.grad(best.square().sum(), (x, w)))

    for mine, theirs in zip(gradients(OPS), gradients(torch), strict=True):
        check(mine, theirs)


@pytest.mark.parametrize("first", ["torch.nested._internal.ops, iterlab", "iterlab"])
def test_rules_wait_for_the_import(first: str) -> None:
    script = f"""
        import torch, sys, {first}
        assert ("torch.nested._internal.ops" in sys.modules) == ("nested" in {first!r})
        nested = torch.nested.nested_tensor_from_jagged(torch.ones(4, 2), torch.tensor([0, 1, 4]))
        assert torch.ops.iterlab.sum(nested) == 8
    """
    lines = "\n".join(line.strip() for line in script.splitlines())
    assert subprocess.run([sys.executable, "-c", lines], check=False).returncode == 0
