"""Operators on masked tensors."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.masked import MaskedTensor, masked_tensor

import iterlab

pytestmark = pytest.mark.filterwarnings("ignore:.*MaskedTensor")
OPS = torch.ops.iterlab
MASK = torch.tensor([True, False, True])


def sample(mask: torch.Tensor = MASK, requires_grad: bool = False) -> Any:
    return masked_tensor(torch.tensor([1.0, 2.0, 3.0]), mask, requires_grad=requires_grad)


def check(got: Any, want: Any) -> None:
    assert isinstance(got, MaskedTensor)
    assert torch.equal(got.get_mask(), want.get_mask())
    torch.testing.assert_close(got.to_tensor(0), want.to_tensor(0))


def test_elementwise() -> None:
    x = sample()
    check(OPS.exp(x), torch.exp(x))
    check(iterlab.mul(x, x), x * x)
    check(OPS.add(x, x, alpha=2), x + x + x)
    check(OPS.sub(5, x), -x + 5)
    check(OPS.where(x > 1, x, -x), masked_tensor(torch.tensor([-1.0, 2.0, 3.0]), MASK))
    assert OPS.mul_(x, 2) is x
    check(x, masked_tensor(torch.tensor([2.0, 4.0, 6.0]), MASK))


def test_gradients() -> None:
    mine, theirs = sample(requires_grad=True), sample(requires_grad=True)
    OPS.mul(OPS.exp(mine), mine).sum().backward()
    torch.mul(torch.exp(theirs), theirs).sum().backward()
    check(mine.grad, theirs.grad)


def test_what_is_refused() -> None:
    x = sample()
    with pytest.raises(NotImplementedError, match=r"iterlab::add: expected .* one mask"):
        OPS.add(x, sample(~MASK))
    with pytest.raises(NotImplementedError, match=r"iterlab::add: expected .* one mask"):
        OPS.add(x, x, out=x)
    with pytest.raises(NotImplementedError, match="iterlab::sum: cannot reduce masked tensors"):
        OPS.sum(x)
