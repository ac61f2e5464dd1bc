"""torch.compile, torch.export and AOTInductor; subclasses, nested tensors, sparse layouts."""

from __future__ import annotations

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

    targets: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        targets.extend(str(n.target) for n in graph.graph.nodes if n.op == "call_function")
        return graph.forward

    got = torch.compile(fn, fullgraph=True, backend=backend)(*values)
    torch.testing.assert_close(got, fn(*values), equal_nan=True)
    assert any(target.startswith(f"iterlab.{entry.name}") for target in targets), targets


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
    if len(entry.inputs) > 2 or entry.promotion == "to_argument":
        pytest.skip("torch has rules for one and two operands")
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
        with pytest.raises(NotImplementedError, match="iterlab"):
            sample_calls.call(entry, sparse)
    quantized = [torch.quantize_per_tensor(v.float(), 0.1, 0, torch.quint8) for v in values]
    with pytest.raises(NotImplementedError, match="iterlab"):
        sample_calls.call(entry, quantized)
