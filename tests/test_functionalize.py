"""Functionalization: graphs hold functional overloads alone, and mutations reach their tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import calls
import pytest
import sample_calls
import torch
from sample_calls import TABLE
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from iterlab import OpEntry

OPS = torch.ops.iterlab


def written(graph: torch.fx.GraphModule) -> list[str]:
    """The calls of a graph that write to an argument, other than the last copy into inputs."""
    return [
        str(node.target)
        for node in graph.graph.nodes
        if isinstance(node.target, torch._ops.OpOverload)
        and node.target._schema.is_mutable
        and node.target is not torch.ops.aten.copy_.default
    ]


def own_calls(graph: torch.fx.GraphModule) -> list[str]:
    return [str(n.target) for n in graph.graph.nodes if str(n.target).startswith("iterlab.")]


def check_functionalized(fn: Callable[..., Any], values: list[torch.Tensor]) -> list[str]:
    """The functionalized graph writes nothing and computes the same; gives its own calls."""
    want = fn(*(v.clone() for v in values))
    graph = make_fx(functionalize(fn, remove="mutations_and_views"))(*(v.clone() for v in values))
    assert written(graph) == []
    torch.testing.assert_close(graph(*(v.clone() for v in values)), want, equal_nan=True)
    return own_calls(graph)


def test_a_copy_keeps_the_strides_of_what_it_overwrites() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        gaps = torch.empty_strided((2, 2), (5, 1))
        OPS.copy_(gaps, x)
        return gaps

    x = torch.arange(4.0).reshape(2, 2)
    result = functionalize(fn, remove="mutations_and_views")(x)
    assert result.stride() == (5, 1)
    assert torch.equal(result, x)
    expanded = torch.empty(3, 1).expand(3, 4)
    assert OPS.copy(expanded, x[0, 0]).stride() == torch.ops.aten.copy(expanded, x[0, 0]).stride()


@pytest.mark.parametrize("entry", calls.INPLACE, ids=calls.name_of)
def test_inplace_becomes_functional(entry: OpEntry) -> None:
    values = sample_calls.operands(entry)
    try:
        sample_calls.call(entry, [v.clone() for v in values], inplace=True)
    except RuntimeError:
        pytest.skip("the result does not fit into the operand")

    def fn(first: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
        copy = first.clone()
        sample_calls.call(entry, [copy, *rest], inplace=True)
        return copy

    assert check_functionalized(fn, values) == [f"iterlab.{entry.name}.default"]


@pytest.mark.parametrize("entry", TABLE, ids=calls.name_of)
def test_out_becomes_functional(entry: OpEntry) -> None:
    values = sample_calls.operands(entry)
    outputs = calls.outputs_of(sample_calls.call(entry, values))
    if len(outputs) != 1:
        pytest.skip("has several outputs")

    def fn(*v: torch.Tensor) -> torch.Tensor:
        out = v[0].new_empty(outputs[0].shape, dtype=outputs[0].dtype)
        sample_calls.call(entry, list(v), out=out)
        return out

    assert check_functionalized(fn, values) == [f"iterlab.{entry.name}.default"]


def test_numbers_views_and_resized_outputs() -> None:
    x, y = torch.randn(4, 3), torch.randn(4, 3)

    def views(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        c = OPS.add(a, b)
        OPS.mul_(c[0], 2)
        OPS.add_(c.view(-1), b.reshape(-1))
        return c

    check_functionalized(views, [x, y])

    def resized(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = torch.empty(0)
        OPS.add(a, b, out=out)
        return out

    check_functionalized(resized, [x, y])

    def narrow(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        c = a.half()
        OPS.add_(c, b)
        return c

    check_functionalized(narrow, [x, y])


def test_broadcasting_into_self_is_refused() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return OPS.add_(a.clone(), b)

    with pytest.raises(RuntimeError, match="in-place operand of the broadcast shape"):
        functionalize(fn)(torch.randn(3), torch.randn(4, 3))


def test_writing_to_what_is_not_functional_is_refused() -> None:
    outside = torch.randn(3)
    with pytest.raises(RuntimeError, match="expected to write to a tensor that is functionalized"):
        functionalize(lambda a: OPS.add_(outside, a))(torch.randn(3))


def test_compiled_mutation_of_an_input() -> None:
    def fn(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        OPS.add_(a, b)
        OPS.mul(a, b, out=a)
        return OPS.exp(a)

    graphs: list[torch.fx.GraphModule] = []

    def keep(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        graphs.append(graph)
        return graph.forward

    from torch._dynamo.backends.common import aot_autograd

    x, y = torch.randn(4, 3), torch.randn(4, 3)
    eager, compiled = x.clone(), x.clone()
    want = fn(eager, y)
    backend = aot_autograd(fw_compiler=keep)
    with torch.no_grad():
        got = torch.compile(fn, fullgraph=True, backend=backend)(compiled, y)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(compiled, eager)
    assert written(graphs[0]) == []
    assert own_calls(graphs[0]) == [
        "iterlab.add.default",
        "iterlab.mul.default",
        "iterlab.exp.default",
    ]
