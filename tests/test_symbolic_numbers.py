"""Numbers that are symbols while a graph is traced: sizes and their like do not make it one for a
single value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

import iterlab

ops = torch.ops.iterlab

OF_A_SIZE: dict[str, Callable[[torch.Tensor, Any], torch.Tensor]] = {
    "div": lambda x, n: ops.div(x, n),
    "mul by half": lambda x, n: ops.mul(x, n * 0.5),
    "add alpha": lambda x, n: ops.add(x, x, alpha=n),
    "pow": lambda x, n: ops.pow(x, n),
    "gt": lambda x, n: ops.gt(x, n / 20),
    "clamp": lambda x, n: ops.clamp(x, -n, n),
    "where": lambda x, n: ops.where(x > 0.5, x, n),
    "masked_fill": lambda x, n: ops.masked_fill(x, x > 0.5, n),
    "addcmul": lambda x, n: ops.addcmul(x, x, x, value=n),
    "lerp": lambda x, n: ops.lerp(x, x + 1, n),
    "leaky_relu": lambda x, n: ops.leaky_relu(x - 0.5, n),
    "threshold": lambda x, n: ops.threshold(x, 0.5, n),
    "fast door": lambda x, n: iterlab.sub(x, n),
}


def graphs(
    function: Callable[..., torch.Tensor], calls: Sequence[torch.Tensor], backward: bool = False
) -> int:
    """Compile a function, compare its calls with the eager ones; how many graphs that took."""
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend=counter)
    for x in calls:
        a, b = (x.clone().requires_grad_(backward) for _ in range(2))
        got, want = compiled(a), function(b)
        assert torch.allclose(got, want)
        if backward:
            got.sum().backward()
            want.sum().backward()
            assert a.grad is not None and b.grad is not None and torch.allclose(a.grad, b.grad)
    count: int = counter.frame_count
    return count


@pytest.mark.parametrize("name", OF_A_SIZE)
def test_a_size_is_a_number(name: str) -> None:
    call = OF_A_SIZE[name]
    inputs = [torch.rand(4, n) for n in range(2, 7)]
    assert graphs(lambda x: call(x, x.shape[1]), inputs) == 1


@pytest.mark.parametrize("name", ["div", "mul by half", "add alpha", "addcmul", "clamp"])
def test_a_size_in_a_derivative(name: str) -> None:
    call = OF_A_SIZE[name]
    inputs = [torch.rand(4, n) for n in range(2, 7)]
    assert graphs(lambda x: call(x, x.shape[1]), inputs, backward=True) == 1


def test_an_element_is_a_number() -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        inputs = [torch.rand(4, 3) for _ in range(3)]
        assert graphs(lambda x: ops.mul(x, x[0, 0].item()), inputs) == 1


def test_inductor() -> None:
    torch._dynamo.reset()

    def function(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = ops.add(ops.mul(x, x.shape[1] * 0.5), x, alpha=x.shape[0])
        return result

    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    for n in range(2, 5):
        x = torch.rand(4, n)
        assert torch.allclose(compiled(x), function(x))


def test_export() -> None:
    class Module(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            result: torch.Tensor = ops.div(ops.sum(x, [0]), x.shape[0])
            return result

    rows = torch.export.Dim("rows")
    program = torch.export.export(Module(), (torch.ones(4, 3),), dynamic_shapes=({0: rows},))
    for n in (2, 7):
        x = torch.rand(n, 3)
        assert torch.allclose(program.module()(x), x.mean(0))


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_a_comparison_in_place_is_flat(name: str) -> None:
    a, b = (torch.rand(3, requires_grad=True) for _ in range(2))
    for got in (getattr(ops, name + "_")(a * 1, b), getattr(a * 1, name + "_")(b)):
        grads = torch.autograd.grad(got.sum(), [a, b])
        assert all(torch.equal(grad, torch.zeros(3)) for grad in grads)


@pytest.mark.parametrize("name", ["heaviside", "floor_divide"])
def test_without_a_derivative_every_way_to_ask_raises(name: str) -> None:
    """The node of such an operator leads on to its inputs, or the engine would leave it out."""
    function = getattr(ops, name)
    a, b = torch.rand(3, requires_grad=True), torch.rand(3)
    ways: list[Callable[[], object]] = [
        lambda: function(a, b).sum().backward(),
        lambda: torch.autograd.grad((function(a, b) + a).sum(), a),
        lambda: torch.autograd.grad((function(a, b) + a).sum(), [a]),
        lambda: (function(a, b) + a).sum().backward(inputs=[a]),
        lambda: torch.func.jacrev(lambda v: function(v, b))(b),
        lambda: getattr(ops, name + "_")(a * 1, b).sum().backward(inputs=[a]),
    ]
    for way in ways:
        with pytest.raises(RuntimeError, match=f"derivative for iterlab::{name} is not"):
            way()
