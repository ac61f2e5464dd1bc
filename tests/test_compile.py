"""torch.compile, torch.export and AOTInductor; subclasses, nested tensors, sparse layouts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import calls
import pytest
import sample_calls
import torch
from sample_calls import TABLE
from torch.utils._pytree import tree_map

import iterlab
from iterlab import OpEntry
from iterlab.compile import decomposition_table, disable_fusion, enable_fusion

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
OPS = torch.ops.iterlab


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Nothing that was compiled before: Inductor's caches do not know the build of an operator."""
    folder = tmp_path_factory.getbasetemp() / "inductor"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
    torch._dynamo.reset()


class Chain(torch.nn.Module):
    """Operators of several kinds, in a function that a compiler takes whole."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = iterlab.mul(iterlab.exp(x), y)
        iterlab.add_(z, 1.5, alpha=2)
        return iterlab.sum(iterlab.where(iterlab.eq(z, 0), x, z), dim=-1)


def inputs(n: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(n, 8), torch.randn(8)


@pytest.mark.parametrize("entry", TABLE, ids=calls.name_of)
def test_functions_trace_whole(entry: OpEntry) -> None:
    values = sample_calls.operands(entry)
    parameters = sample_calls.required(entry)

    def fn(*v: torch.Tensor) -> Any:
        return calls.invoke(getattr(iterlab, entry.name), entry, v, parameters)

    targets: list[Any] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        targets.extend(n.target for n in graph.graph.nodes if n.op == "call_function")
        return graph.forward

    got = torch.compile(fn, fullgraph=True, backend=backend)(*values)
    torch.testing.assert_close(got, fn(*values), equal_nan=True)
    assert getattr(iterlab, entry.name) in targets


SPELLINGS: dict[str, Callable[[torch.Tensor], Any]] = {
    "var(x, False)": lambda x: iterlab.var(x, False),
    "std(x, False)": lambda x: iterlab.std(x, False),
    "var_mean(x, False)": lambda x: iterlab.var_mean(x, False),
    "std_mean(x, False)": lambda x: iterlab.std_mean(x, False),
    "max(x, 0)": lambda x: iterlab.max(x, 0),
    "min(x, 0).values": lambda x: iterlab.min(x, 0).values,
    "frexp(x).mantissa": lambda x: iterlab.frexp(x).mantissa,
    "aminmax(x, dim=0).max": lambda x: iterlab.aminmax(x, dim=0).max,
    "sum(x, axis=0)": lambda x: iterlab.sum(x, axis=0, keepdims=True),
    "add(x1=x, x2=x)": lambda x: iterlab.add(x1=x, x2=x),
    "clamp(x, None, tensor)": lambda x: iterlab.clamp(x, None, x[0]),
    "max(x, 0, out=...)": lambda x: iterlab.max(x, 0, out=(x.new_empty(3), x.new_empty(3).long())),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_compiled_calls_are_parsed_as_eager_ones(spelling: str) -> None:
    fn, x = SPELLINGS[spelling], torch.randn(4, 3)
    got, want = torch.compile(fn, fullgraph=True, backend="aot_eager")(x), fn(x)
    assert type(got) is type(want)
    torch.testing.assert_close(calls.outputs_of(got), calls.outputs_of(want))


def test_a_zero_dim_bound_beside_a_number() -> None:
    """Reads a number from a tensor: torch.clamp breaks the graph there too."""

    def fn(x: torch.Tensor, low: torch.Tensor) -> torch.Tensor:
        return iterlab.clamp(x, low, 1.0)

    x, low = torch.randn(4, 3), torch.tensor(-1.0)
    torch.testing.assert_close(torch.compile(fn, backend="aot_eager")(x, low), fn(x, low))


@pytest.mark.parametrize("name", ["sum", "max", "argmax", "amax", "logsumexp"])
def test_symbolic_dims(name: str) -> None:
    fn = getattr(iterlab, name)
    compiled = torch.compile(
        lambda x, dim: fn(x, dim), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    x = torch.randn(4, 3)
    for dim in (1, 0, -1):
        got, want = calls.outputs_of(compiled(x, dim)), calls.outputs_of(fn(x, dim))
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("dynamic", [False, True])
def test_inductor(dynamic: bool) -> None:
    model = Chain()
    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic)
    for n in (4, 5, 6):
        x, y = inputs(n)
        torch.testing.assert_close(compiled(x, y), model(x, y))


def test_inductor_backward() -> None:
    x, y = (v.requires_grad_() for v in inputs())
    want = torch.autograd.grad(Chain()(x, y).sum(), (x, y))
    got = torch.autograd.grad(torch.compile(Chain(), fullgraph=True)(x, y).sum(), (x, y))
    torch.testing.assert_close(got, want)


def test_numbers_and_out() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        iterlab.mul(x, 2.5, out=out)
        return iterlab.add(1, out)

    x = torch.randn(3)
    torch.testing.assert_close(torch.compile(fn, fullgraph=True, backend="aot_eager")(x), fn(x))


def exported(dynamic: bool) -> torch.export.ExportedProgram:
    shapes = ({0: torch.export.Dim("n", min=2, max=64)}, None) if dynamic else None
    return torch.export.export(Chain(), inputs(), dynamic_shapes=shapes)


@pytest.mark.parametrize("dynamic", [False, True])
def test_export_saves_and_loads(dynamic: bool, tmp_path: Path) -> None:
    torch.export.save(exported(dynamic), tmp_path / "chain.pt2")
    loaded = torch.export.load(tmp_path / "chain.pt2").module()
    x, y = inputs(7 if dynamic else 4)
    torch.testing.assert_close(loaded(x, y), Chain()(x, y))


def test_decompositions() -> None:
    graph = exported(dynamic=True).run_decompositions(decomposition_table()).graph_module
    targets = [str(n.target) for n in graph.graph.nodes if n.op == "call_function"]
    assert targets and not any("iterlab" in target for target in targets)
    torch.testing.assert_close(graph(*inputs())[0].shape, torch.Size([4]))


class Extremes(torch.nn.Module):
    """Calls that torch takes in another form, and one that it does not take."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            *iterlab.max(x, 1),
            iterlab.prod(x, 1),
            iterlab.maximum(x, 0.0),
            *iterlab.max(x, (0, 1)),
        )


def test_decompositions_leave_what_torch_does_not_take() -> None:
    x = torch.randn(4, 3)
    program = torch.export.export(Extremes(), (x,)).run_decompositions(decomposition_table())
    targets = [str(n.target) for n in program.graph.nodes]
    assert [target for target in targets if "iterlab" in target] == ["iterlab.max.dim"]
    torch.testing.assert_close(program.module()(x), Extremes()(x))


def generated_code(fn: Any, *args: Any) -> str:
    from torch._inductor.utils import run_and_get_code

    result, codes = run_and_get_code(torch.compile(fn, fullgraph=True), *args)
    torch.testing.assert_close(result, fn(*args))
    return "\n".join(codes)


def test_fusion_is_opt_in() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return OPS.add(OPS.mul(OPS.exp(x), 2.0), x, alpha=3)

    x = torch.randn(33)
    assert "iterlab" in generated_code(fn, x)
    enable_fusion()
    try:
        assert "iterlab" not in generated_code(fn, x)
    finally:
        disable_fusion()
    assert "iterlab" in generated_code(fn, x)


@pytest.fixture
def fusion() -> Iterator[None]:
    enable_fusion()
    yield
    disable_fusion()


def check_fused(entry: OpEntry, fn: Callable[..., Any], values: list[torch.Tensor]) -> None:
    """Compiled with the decompositions, the call and its gradients are what they are without."""
    torch._dynamo.reset()
    backend = "aot_eager_decomp_partition"
    compiled = torch.compile(fn, fullgraph=True, dynamic=True, backend=backend)
    differentiable = sample_calls.is_differentiable(entry)
    leaves = []
    for i, value in enumerate(values):
        constant = i == 0 and entry.name in calls.NO_GRADIENT_OF_FIRST
        if differentiable and value.is_floating_point() and not constant:
            leaves.append(value.requires_grad_())
    results = [calls.outputs_of(call(*values)) for call in (fn, compiled)]
    torch.testing.assert_close(results[1], results[0], equal_nan=True)
    for got in results[1]:
        assert all(got is not value for value in values)
    want, got = (
        torch.autograd.grad(sum(one.sum() for one in result if one.requires_grad), leaves)
        if any(one.requires_grad for one in result)
        else ()
        for result in results
    )
    torch.testing.assert_close(got, want, equal_nan=True)


@pytest.mark.usefixtures("fusion")
@pytest.mark.parametrize(
    "entry", [calls.slow_unless_representative(entry) for entry in TABLE], ids=calls.name_of
)
def test_fused_calls(entry: OpEntry) -> None:
    function = getattr(iterlab, entry.name)
    for parameters in calls.parameter_sets(entry):
        check_fused(
            entry,
            lambda *v, p=parameters: calls.invoke(function, entry, v, p),
            sample_calls.operands(entry),
        )


@pytest.mark.usefixtures("fusion")
@pytest.mark.parametrize("entry", calls.REDUCTIONS, ids=calls.name_of)
def test_fused_dims(entry: OpEntry) -> None:
    function = getattr(iterlab, entry.name)
    for dim in (0, (1,), (0, 1), ()):
        for keepdim in (False, True):
            more = sample_calls.required(entry) | {"dim": dim, "keepdim": keepdim}
            check_fused(entry, lambda x, m=more: function(x, **m), sample_calls.operands(entry))


@pytest.mark.usefixtures("fusion")
@pytest.mark.parametrize(
    "entry",
    [calls.slow_unless_representative(e) for e in calls.ELEMENTWISE if len(e.inputs) > 1],
    ids=calls.name_of,
)
def test_fused_numbers(entry: OpEntry) -> None:
    function, packet = getattr(iterlab, entry.name), getattr(OPS, entry.name)
    parameters = sample_calls.required(entry)
    number = 0.5 if calls.usual_dtype(entry).is_floating_point else 2
    for i, name in enumerate(entry.inputs):
        if f"Scalar_{name}" not in packet.overloads():
            continue
        if entry.name == "lerp" and i == 0:  # takes the dtype of a number for its own
            continue

        def fn(*others: torch.Tensor, i: int = i) -> Any:
            operands = [*others[:i], number, *others[i:]]
            return calls.invoke(function, entry, operands, parameters)

        values = sample_calls.operands(entry)
        check_fused(entry, fn, values[:i] + values[i + 1 :])


@pytest.mark.usefixtures("fusion")
@pytest.mark.parametrize("dtype", [torch.int32, torch.bfloat16, torch.float64], ids=calls.name_of)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_fused_numbers_stay_weak(dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return iterlab.maximum(x, 0.5), iterlab.minimum(2, x), iterlab.copysign(x, -1.5)

    x = torch.ones(shape, dtype=dtype)
    compiled = torch.compile(fn, fullgraph=True, backend="aot_eager_decomp_partition")
    torch.testing.assert_close(compiled(x), fn(x))


@pytest.mark.parametrize("entry", TABLE, ids=calls.name_of)
def test_what_has_a_twin_fuses(entry: OpEntry) -> None:
    if entry.torch_name is None:
        pytest.skip("torch has no such operator")
    from torch.fx.experimental.proxy_tensor import make_fx

    values, parameters = sample_calls.operands(entry), sample_calls.required(entry)
    if "dim" in parameters or entry.overload == "dim":
        parameters["dim"] = 0

    def fn(*v: torch.Tensor) -> Any:
        return calls.invoke(calls.function(entry), entry, v, parameters)

    graph = make_fx(fn, decomposition_table=decomposition_table())(*values)
    assert "iterlab" not in graph.code


@pytest.mark.slow
def test_aotinductor_package(tmp_path: Path) -> None:
    path = torch._inductor.aoti_compile_and_package(
        exported(dynamic=True), package_path=str(tmp_path / "chain.pt2")
    )
    x, y = inputs(9)
    torch.testing.assert_close(torch._inductor.aoti_load_package(path)(x, y), Chain()(x, y))


class Wrapped(torch.Tensor):
    """A tensor of a library that sees the calls below autograd."""

    seen: list[str] = []  # noqa: RUF012

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Wrapped:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner: torch.Tensor) -> None:
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.seen.append(str(func))
        plain = [a.inner if isinstance(a, cls) else a for a in args]
        return tree_map(cls, func(*plain, **(kwargs or {})))


@pytest.mark.parametrize("entry", TABLE, ids=calls.name_of)
def test_dispatch_subclass(entry: OpEntry) -> None:
    values = sample_calls.operands(entry)
    Wrapped.seen.clear()
    got = sample_calls.call(entry, [Wrapped(values[0]), *values[1:]])
    want = sample_calls.call(entry, values)
    for mine, theirs in zip(calls.outputs_of(got), calls.outputs_of(want), strict=True):
        assert isinstance(mine, Wrapped)
        torch.testing.assert_close(mine.inner, theirs, equal_nan=True)
    assert len(Wrapped.seen) == 1 and Wrapped.seen[0].startswith(f"iterlab.{entry.name}.")


@pytest.mark.parametrize("entry", TABLE, ids=calls.name_of)
def test_function_subclass(entry: OpEntry) -> None:
    """A subclass that only comes along stays what it is; the package's function is what it sees."""
    seen = []

    class Named(torch.Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    values = sample_calls.operands(entry)
    function = getattr(iterlab, entry.name)
    first = values[0].as_subclass(Named)
    seen.clear()
    parameters = sample_calls.required(entry)
    got = calls.invoke(function, entry, [first, *values[1:]], parameters)
    assert seen[0] is function
    assert all(isinstance(one, Named) for one in calls.outputs_of(got))


@pytest.mark.parametrize("entry", calls.ELEMENTWISE, ids=calls.name_of)
def test_jagged_nested_tensors(entry: OpEntry) -> None:
    if entry.promotion == "to_argument":
        pytest.skip("torch has no rule for the argument that is a dtype")
    flat = sample_calls.operands(entry, (7, 3))
    offsets = torch.tensor([0, 3, 7])
    nested = [torch.nested.nested_tensor_from_jagged(v, offsets) for v in flat]
    nested = [torch.nested.nested_tensor_from_jagged(v, nested[0].offsets()) for v in flat]
    got = sample_calls.call(entry, nested)
    want = sample_calls.call(entry, flat)
    for mine, theirs in zip(calls.outputs_of(got), calls.outputs_of(want), strict=True):
        assert mine.is_nested
        torch.testing.assert_close(mine.values(), theirs, equal_nan=True)


@pytest.mark.parametrize("entry", TABLE, ids=calls.name_of)
@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
def test_layouts_that_are_not_dense_are_refused(entry: OpEntry) -> None:
    values = sample_calls.operands(entry)
    for layout in (torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr):
        sparse = [layout(v.float()) if v.dim() != 0 else v for v in values]
        with pytest.raises(NotImplementedError, match=r"iterlab::.*, a sparse tensor"):
            sample_calls.call(entry, sparse)
    quantized = [torch.quantize_per_tensor(v.float(), 0.1, 0, torch.quint8) for v in values]
    with pytest.raises(NotImplementedError, match=r"iterlab::.*, a quantized tensor"):
        sample_calls.call(entry, quantized)
