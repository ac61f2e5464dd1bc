"""Operators under torch.compile, export, functionalization and torch.func."""

from __future__ import annotations

import functools
import io
import itertools
from typing import Any

import calls
import pytest
import samples
import torch
from calls import ELEMENTWISE, REDUCTIONS, function, invoke, name_of, outputs_of
from test_gradients import DIFFERENTIABLE, DIFFERENTIABLE_REDUCTIONS, parameters_of
from torch._dynamo.backends.common import aot_autograd

from iterlab import OpEntry

pytestmark = calls.TORCH_WARNINGS

QUICK = [calls.slow_unless_representative(entry) for entry in [*ELEMENTWISE, *REDUCTIONS]]


@pytest.fixture(autouse=True)
def fresh_dynamo() -> None:
    torch._dynamo.reset()


def operands_of(entry: OpEntry, device: str, rows: int = 3) -> list[torch.Tensor]:
    dtypes = calls.input_dtypes(entry)
    dtype = torch.float32 if torch.float32 in dtypes else dtypes[0]
    return [d(rows * 4).view(rows, 4) for d in calls.draws_of(entry, (dtype,), device)]


def call_of(entry: OpEntry) -> Any:
    parameters = calls.parameter_sets(entry)[0]
    return lambda *operands: invoke(function(entry), entry, operands, parameters)


def check_same(got: Any, want: Any, what: object = "") -> None:
    for one, other in zip(outputs_of(got), outputs_of(want), strict=True):
        calls.assert_bitwise(one, other, what)


@pytest.mark.parametrize("entry", QUICK, ids=name_of)
def test_compile_without_graph_breaks(entry: OpEntry, device: str) -> None:
    call = call_of(entry)
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (3, 5):
        operands = operands_of(entry, device, rows)
        check_same(compiled(*operands), call(*operands), rows)


@pytest.mark.parametrize("entry", QUICK, ids=name_of)
def test_compile_of_out_and_in_place(entry: OpEntry, device: str) -> None:
    parameters = calls.parameter_sets(entry)[0]
    operands = operands_of(entry, device)
    wants = outputs_of(invoke(function(entry), entry, operands, parameters))
    want = wants[0]
    schema = function(entry).out._schema
    names = [argument.name for argument in schema.arguments if argument.alias_info is not None]

    def into(outs: list[torch.Tensor], *tensors: torch.Tensor) -> Any:
        given = dict(zip(names, outs, strict=True))
        return invoke(function(entry), entry, tensors, parameters, **given)

    outs = [torch.zeros_like(one) for one in wants]
    torch.compile(into, fullgraph=True, backend="aot_eager")(outs, *operands)
    check_same(tuple(outs), wants)
    if "inplace" not in entry.variants or want.dtype != operands[0].dtype:
        return

    def inplace(target: torch.Tensor, *tensors: torch.Tensor) -> torch.Tensor:
        return invoke(function(entry, inplace=True), entry, [target, *tensors], parameters).clone()

    target = operands[0].clone()
    result = torch.compile(inplace, fullgraph=True, backend="aot_eager")(target, *operands[1:])
    calls.assert_bitwise(target, want)
    calls.assert_bitwise(result, want)


@pytest.mark.parametrize(
    "entry",
    [calls.slow_unless_representative(e) for e in [*DIFFERENTIABLE, *DIFFERENTIABLE_REDUCTIONS]],
    ids=name_of,
)
def test_compiled_gradients(entry: OpEntry, device: str) -> None:
    parameters = parameters_of(entry, torch.float32)[0]
    grads = []
    call = lambda *t: invoke(function(entry), entry, t, parameters)  # noqa: E731
    for run in (call, torch.compile(call, fullgraph=True, backend="aot_eager")):
        operands = operands_of(entry, device)
        leaves = [t.requires_grad_() for t in operands if t.is_floating_point()]
        outputs_of(run(*operands))[0].sum().backward()
        grads.append([leaf.grad for leaf in leaves])
    for got, want in zip(*grads, strict=True):
        calls.assert_bitwise(got, want)


@pytest.mark.slow
def test_inductor(device: str) -> None:
    """One fused program around opaque operators, in all three variants."""

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = torch.ops.iterlab.add(x * 2, y.t())
        torch.ops.iterlab.mul_(z, x)
        return torch.ops.iterlab.sum(torch.ops.iterlab.exp(z.relu()), [1]) + 1

    x, y = torch.rand(40, 50, device=device), torch.rand(50, 40, device=device)
    compiled = torch.compile(program, fullgraph=True)
    torch.testing.assert_close(compiled(x, y), program(x, y))


def test_compiled_equals_eager_with_a_zero_dim_operand(device: str) -> None:
    """pytorch#185605: bfloat16 with a zero-dim float64."""
    x = torch.tensor([0.1, -0.2], device=device).bfloat16()
    s = torch.tensor(-0.1, dtype=torch.float64, device=device)
    add = torch.ops.iterlab.add
    compiled = torch.compile(lambda a, b: add(a, b), fullgraph=True, backend="aot_eager")
    calls.assert_bitwise(compiled(x, s), add(x, s))


@pytest.mark.parametrize("entry", QUICK, ids=name_of)
def test_export_round_trip(entry: OpEntry, device: str) -> None:
    class Module(torch.nn.Module):
        def forward(self, *operands: torch.Tensor) -> Any:
            return call_of(entry)(*operands)

    operands = tuple(operands_of(entry, device))
    rows = torch.export.Dim("rows", min=2, max=100)
    program = torch.export.export(
        Module(), operands, dynamic_shapes={"operands": tuple({0: rows} for _ in operands)}
    )
    targets = [str(node.target) for node in program.graph.nodes]
    assert f"iterlab.{entry.name}.default" in targets
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    buffer.seek(0)
    loaded = torch.export.load(buffer).module()
    other = operands_of(entry, device, 7)
    check_same(loaded(*other), call_of(entry)(*other))


@pytest.mark.parametrize("entry", [e for e in ELEMENTWISE if "inplace" in e.variants], ids=name_of)
def test_functionalization_leaves_no_writes(entry: OpEntry, device: str) -> None:
    parameters = calls.parameter_sets(entry)[0]

    def program(*operands: torch.Tensor) -> torch.Tensor:
        target = operands[0].clone()
        invoke(
            function(entry, inplace=True),
            entry,
            [target[::2], *(t[::2] for t in operands[1:])],
            parameters,
        )
        return target

    operands = operands_of(entry, device, 4)
    if outputs_of(call_of(entry)(*operands))[0].dtype != operands[0].dtype:
        return
    graphs: list[torch.fx.GraphModule] = []

    def keep(module: torch.fx.GraphModule, _: list[Any]) -> Any:
        graphs.append(module)
        return module.forward

    backend = aot_autograd(fw_compiler=keep)
    compiled = torch.compile(program, fullgraph=True, backend=backend)
    with torch.no_grad():
        got = compiled(*operands)
    check_same(got, program(*operands))
    ours = [
        node.target
        for node in graphs[0].graph.nodes
        if "iterlab" in str(node.target) or "auto_functionalized" in str(node.target)
    ]
    assert ours
    schemas = [t._schema for t in ours if isinstance(t, torch._ops.OpOverload)]
    assert not any(schema.is_mutable for schema in schemas)


def tangent_pairs(entry: OpEntry, device: str) -> tuple[list[torch.Tensor], list[int]]:
    operands = [d(6) for d in calls.draws_of(entry, (torch.float64,), device)]
    return operands, [i for i, t in enumerate(operands) if t.is_floating_point()]


@pytest.mark.parametrize("entry", DIFFERENTIABLE, ids=name_of)
def test_torch_func_grad_and_jvp(entry: OpEntry, device: str) -> None:
    operands, places = tangent_pairs(entry, device)
    parameters = parameters_of(entry)[0]
    results = []
    for call in (function(entry), calls.twin(entry)):

        def total(*tensors: torch.Tensor, call: Any = call) -> torch.Tensor:
            return outputs_of(invoke(call, entry, tensors, parameters))[0].sum()

        grad = torch.func.grad(total, argnums=tuple(places))(*operands)

        def inner(*tensors: torch.Tensor, total: Any = total) -> torch.Tensor:
            full = list(operands)
            for i, tensor in zip(places, tensors, strict=True):
                full[i] = tensor
            return total(*full)

        primals = tuple(operands[i] for i in places)
        value, tangent = torch.func.jvp(inner, primals, tuple(torch.ones_like(p) for p in primals))
        second = torch.func.grad(
            lambda *t, f=inner: sum(
                g.sum() for g in torch.func.grad(f, argnums=tuple(range(len(t))))(*t)
            )
        )(*primals)
        results.append([*grad, value, tangent, second])
    for got, want in zip(*results, strict=True):
        torch.testing.assert_close(got, want)


def batch_rule_exists(entry: OpEntry) -> bool:
    name = f"iterlab::{entry.name}"
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, "FuncTorchBatched"))


BATCHED = [entry for entry in ELEMENTWISE if batch_rule_exists(entry)]


def test_vmap(device: str) -> None:
    """Every operator with a batch rule, each operand batched or not, without the fallback."""
    for entry in BATCHED:
        parameters = calls.parameter_sets(entry)[0]
        operands = operands_of(entry, device)
        for dims in itertools.product((0, 1, None), repeat=len(operands)):
            if not any(dim is not None for dim in dims):
                continue
            sides = [
                t.t() if dim == 1 else t if dim == 0 else t[0]
                for t, dim in zip(operands, dims, strict=True)
            ]
            torch._C._functorch._set_vmap_fallback_enabled(False)
            try:
                got = torch.vmap(call_of(entry), in_dims=dims)(*sides)
            finally:
                torch._C._functorch._set_vmap_fallback_enabled(True)
            plain = [t if dim is not None else t[:1] for t, dim in zip(operands, dims, strict=True)]
            check_same(got, invoke(function(entry), entry, plain, parameters), (entry.name, dims))
    assert len(BATCHED) in (0, len(ELEMENTWISE)), "batch rules come for all operators at once"


def squared_sum(
    call: Any, entry: OpEntry, parameters: dict[str, Any], *tensors: torch.Tensor
) -> torch.Tensor:
    return (outputs_of(invoke(call, entry, tensors, parameters))[0] ** 2).sum()


def test_hessian(device: str) -> None:
    if not BATCHED:
        return
    for entry in DIFFERENTIABLE:
        operands, places = tangent_pairs(entry, device)
        parameters = parameters_of(entry)[0]
        hessians = []
        for call in (function(entry), calls.twin(entry)):
            total = functools.partial(squared_sum, call, entry, parameters)
            hessians.append(torch.func.hessian(total, argnums=places[0])(*operands))
        torch.testing.assert_close(*hessians)


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=name_of)
def test_modes_and_subclasses_see_the_operator(entry: OpEntry, device: str) -> None:
    from torch.utils._python_dispatch import TorchDispatchMode

    seen: list[str] = []

    class Listener(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    operands = operands_of(entry, device)
    with Listener():
        call_of(entry)(*operands)
    assert seen == [f"iterlab.{entry.name}.default"]
    assert samples.ALL_DTYPES
