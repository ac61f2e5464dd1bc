"""Explained dispatch against what ran: kernels that record themselves, and dispatch modes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

import iterlab
from iterlab.dispatch import Dispatch, dispatch, kernel_table, keys_of, signature
from iterlab.measured import quiet_profile

# Said once in a process, when the first kernel is replaced by one that records.
pytestmark = pytest.mark.filterwarnings("ignore:Warning only once for all operators")

# Keys whose kernels a test may replace by one that records, and then calls the first.
RECORDED = (
    "AutocastCPU",
    "FuncTorchBatched",
    "Functionalize",
    "AutogradCPU",
    "ADInplaceOrView",
    "CPU",
    "Meta",
)

CONTEXTS: dict[str, Callable[[], Any]] = {
    "grad": nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
}


@contextmanager
def recording(name: str, keys: tuple[str, ...] = RECORDED) -> Iterator[list[str]]:
    """Collect the keys of `name` ("iterlab::add") whose kernels run inside the block, in order.

    The dispatcher has its own kernels again after the block, whatever happened in it or before it.
    """
    seen: list[str] = []
    namespace, _, rest = name.partition("::")
    table = kernel_table(name)
    library = torch.library.Library(namespace, "IMPL")

    def instrument(key: str) -> None:
        kernel = torch.library.get_kernel(name, key)

        def record(keyset: Any, *args: Any, **kwargs: Any) -> Any:
            seen.append(key)
            return kernel.call_boxed(keyset, *args, **kwargs)

        # torch 2.11 must be asked to replace a kernel that it has in Python, as those of Meta.
        library.impl(rest, record, key, with_keyset=True, allow_override=True)

    try:
        for key in keys:
            if key in table and not table[key].startswith("fallthrough"):
                instrument(key)
        yield seen
    finally:
        library._destroy()


def ran(explained: Dispatch) -> list[str]:
    return [key for key in explained.runs if key in RECORDED]


OVERLOADS = {
    "iterlab::add": torch.ops.iterlab.add.default,
    "iterlab::exp": torch.ops.iterlab.exp.default,
    "iterlab::add_": torch.ops.iterlab.add_.default,
    "aten::mul.Tensor": torch.ops.aten.mul.Tensor,
    "aten::mm": torch.ops.aten.mm.default,
}


@pytest.mark.parametrize("name", OVERLOADS)
def test_recording_leaves_no_trace(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = kernel_table(name)
    with recording(name):
        assert kernel_table(name) != before
    assert kernel_table(name) == before
    with pytest.raises(KeyError), recording(name):
        raise KeyError
    assert kernel_table(name) == before

    get_kernel, seen = torch.library.get_kernel, []

    def second_fails(name: str, key: str) -> Any:
        seen.append(key)
        if len(seen) == 2:
            raise RuntimeError("no such kernel")
        return get_kernel(name, key)

    monkeypatch.setattr(torch.library, "get_kernel", second_fails)
    with pytest.raises(RuntimeError, match="no such kernel"), recording(name):
        pass
    assert kernel_table(name) == before


def arguments(name: str, requires_grad: bool) -> list[torch.Tensor]:
    x = torch.randn(4, 4, requires_grad=requires_grad and not name.endswith("_"))
    return [x] if name == "iterlab::exp" else [x, torch.randn(4, 4)]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("name", OVERLOADS)
def test_layers_are_those_whose_kernels_run(name: str, context: str, requires_grad: bool) -> None:
    args = arguments(name, requires_grad)
    with CONTEXTS[context]():
        explained = dispatch(OVERLOADS[name], args, {})
        with recording(name) as seen:
            OVERLOADS[name](*args)
    assert seen == ran(explained)
    assert seen[-1] == "CPU"


def test_inference_mode_and_new_tensors_skip_autograd() -> None:
    x = torch.randn(3, requires_grad=True)
    with torch.inference_mode():
        explained = dispatch(torch.ops.iterlab.add.default, [x, torch.randn(3)], {})
    assert explained.runs == ("CPU",)
    states = {layer.key: (layer.state, layer.what) for layer in explained.layers}
    assert states["AutogradCPU"] == ("skipped", "inference mode")
    assert states["AutocastCPU"] == ("skipped", "autocast is off for cpu")


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: torch.func.vmap(f),
        lambda f: torch.func.vmap(torch.func.vmap(f)),
        lambda f: torch.func.vmap(torch.func.grad(lambda x: f(x).sum())),
        lambda f: torch.func.grad(lambda x: torch.func.vmap(f)(x).sum()),
    ],
    ids=["vmap", "vmap of vmap", "vmap of grad", "grad of vmap"],
)
def test_layers_under_torch_func(transform: Callable[..., Any]) -> None:
    explained: list[Dispatch] = []
    y = torch.randn(4)

    with recording("iterlab::mul") as seen:

        def function(x: torch.Tensor) -> torch.Tensor:
            explained.append(dispatch(torch.ops.iterlab.mul.default, [x, y], {}))
            del seen[:]
            result: torch.Tensor = torch.ops.iterlab.mul.default(x, y)
            calls.append(list(seen))
            return result

        calls: list[list[str]] = []
        transform(function)(torch.randn(2, 3, 4))
    assert calls[0] == ran(explained[0])
    assert "FuncTorchBatched" in calls[0] and calls[0][-1] == "CPU"


@pytest.mark.parametrize("name", ["iterlab::add", "iterlab::add_", "aten::mul.Tensor"])
def test_layers_under_functionalize(name: str) -> None:
    explained: list[Dispatch] = []
    calls: list[list[str]] = []
    with recording(name) as seen:

        def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            explained.append(dispatch(OVERLOADS[name], [x, y], {}))
            del seen[:]
            result: torch.Tensor = OVERLOADS[name](x, y)
            calls.append(list(seen))
            return result

        torch.func.functionalize(function)(torch.randn(4, 4), torch.randn(4, 4))
    assert calls[0] == ran(explained[0])
    assert calls[0][0] == "Functionalize"
    # A write ends there: the operator without writes is called in its place.
    writes = name.endswith("_")
    assert (calls[0] == ["Functionalize"]) == writes
    assert (explained[0].layers[-1].state == "not reached") == writes


@pytest.mark.parametrize("requires_grad", [False, True])
def test_out_variants_and_dispatch(requires_grad: bool) -> None:
    x, out = torch.randn(4), torch.empty(4)
    x.requires_grad_(requires_grad)
    overload = torch.ops.iterlab.add.out
    with torch.no_grad():
        explained = dispatch(overload, [x, x], {"out": out})
        with recording("iterlab::add.out") as seen:
            overload(x, x, out=out)
    assert seen == ran(explained) == ["AutogradCPU", "ADInplaceOrView", "CPU"]
    assert [name for name, _ in explained.operands] == ["input", "other", "out"]


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("name", ["iterlab::add", "iterlab::exp", "iterlab::add_"])
def test_layers_of_fake_tensors(name: str, requires_grad: bool) -> None:
    with FakeTensorMode(), torch.no_grad() if name.endswith("_") else nullcontext():
        x = torch.empty(3, requires_grad=requires_grad)
        args = [x] if name == "iterlab::exp" else [x, torch.empty(3)]
        explained = dispatch(OVERLOADS[name], args, {})
        with recording(name) as seen:
            OVERLOADS[name](*args)
    assert seen == ran(explained)
    assert seen[0] == "AutogradCPU" and seen[-1] == "Meta" and "CPU" not in seen


class Wrapper(torch.Tensor):
    """A tensor around another; its `__torch_dispatch__` calls the operator on that."""

    asked: list[str]

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        made = torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
        made.inner, made.asked = inner, []
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for one in args:
            if isinstance(one, cls):
                one.asked.append(str(func))
        return func(*(one.inner if isinstance(one, cls) else one for one in args), **(kwargs or {}))


@pytest.mark.parametrize("name", ["iterlab::add", "aten::mul.Tensor", "aten::mm"])
def test_layers_of_a_tensor_subclass(name: str) -> None:
    x, y = Wrapper(torch.randn(4, 4)), torch.randn(4, 4)
    explained = dispatch(OVERLOADS[name], [x, y], {})
    with recording(name) as seen:
        OVERLOADS[name](x, y)
    assert x.asked == [str(OVERLOADS[name])]
    assert seen == ran(explained) == ["AutogradCPU", "CPU"]
    layers = [layer.key for layer in explained.layers if layer.state == "runs"]
    assert layers.index("AutogradCPU") < layers.index("Python") < layers.index("CPU")
    python = next(layer for layer in explained.layers if layer.key == "Python")
    assert "Wrapper" in python.what


def test_fake_tensors_end_in_the_meta_kernel() -> None:
    with FakeTensorMode():
        x, y = torch.empty(3), torch.empty(3)
        explained = dispatch(torch.ops.iterlab.add.default, [x, y], {})
        with recording("iterlab::add") as seen:
            torch.ops.iterlab.add.default(x, y)
    assert ran(explained) == seen == ["AutogradCPU", "Meta"]
    assert explained.layers[-1].state == "not reached"


class Sees(TorchDispatchMode):
    """Notes what it is asked, and the key set that a call from inside starts from."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


def test_a_dispatch_mode_sees_what_stands_below_autograd() -> None:
    x, y = torch.randn(3, requires_grad=True), torch.randn(3)
    with Sees() as mode:
        explained = dispatch(torch.ops.iterlab.add.default, [x, y], {})
        with recording("iterlab::add") as seen:
            torch.ops.iterlab.add.default(x, y)
    assert mode.seen == ["iterlab.add.default"]
    assert seen == ran(explained) == ["AutogradCPU", "CPU"]
    python = next(layer for layer in explained.layers if layer.key == "Python")
    assert python.state == "runs" and "Sees" in python.what


def test_composites_unfold_where_the_mode_says_so() -> None:
    x, y = torch.randn(3, 3), torch.randn(3, 3)
    explained = dispatch(torch.ops.aten.matmul.default, [x, y], {})
    with Sees() as mode:
        torch.matmul(x, y)
    assert mode.seen == ["aten.mm.default"]
    assert "composite" in explained.layers[1].what
    assert explained.layers[-1].state == "not reached"


def test_lazy_conjugates_are_resolved_by_a_layer() -> None:
    x = torch.randn(3, dtype=torch.cfloat).conj()
    explained = dispatch(torch.ops.aten.mm.default, [x[None], x[:, None]], {})
    table = {layer.key: layer for layer in explained.layers}
    assert ("Conjugate" in table) == torch._C._dispatch_keys(x).has(torch._C.DispatchKey.Conjugate)


def test_key_sets_are_torchs_own() -> None:
    x = torch.randn(3)
    explained = dispatch(torch.ops.iterlab.add.default, [x, 2.0], {})
    text = str(torch._C._dispatch_keys(x))
    assert explained.operands == (("input", keys_of(torch._C._dispatch_keys(x))),)
    assert all(key in text for key in explained.operands[0][1])
    assert explained.to_dict()["key_set"] == explained.key_set


def test_signature() -> None:
    facts = signature(torch.ops.iterlab.add.out)
    assert (facts.name, facts.overload) == ("iterlab::add", "out")
    assert facts.aliases == ("writes `out`", "returns an alias of `out`")
    assert "pointwise" in facts.tags
    assert signature(torch.ops.iterlab.add.default).aliases == ()


def test_explaining_runs_nothing() -> None:
    with quiet_profile() as profiler:
        iterlab.explain("add", torch.randn(3), torch.randn(3)).dispatch  # noqa: B018
    assert not [event for event in profiler.events() if event.name.startswith("iterlab::add")]
