"""The package's functions: the operators' results, seen by all that sees the operators."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import calls
import numpy as np
import pytest
import sample_calls
import torch
from sample_calls import TABLE
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import iterlab
from iterlab import OpEntry, _functions, stubs
from iterlab.measured import quiet_profile


def function(entry: OpEntry, inplace: bool = False) -> Callable[..., Any]:
    return getattr(iterlab, entry.name + "_" * inplace)  # type: ignore[no-any-return]


def check_same(got: Any, want: Any) -> None:
    for mine, theirs in zip(calls.outputs_of(got), calls.outputs_of(want), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
        assert mine.stride() == theirs.stride()


@pytest.mark.parametrize("entry", TABLE, ids=calls.name_of)
def test_same_as_the_operator(entry: OpEntry, device: str) -> None:
    values = sample_calls.operands(entry, device=device)
    fn = function(entry)
    for parameters in calls.parameter_sets(entry):
        want = calls.invoke(calls.function(entry), entry, values, parameters)
        check_same(calls.invoke(fn, entry, values, parameters), want)
        named = dict(zip(entry.inputs, values, strict=True)) | parameters
        check_same(fn(**named), want)
        if isinstance(want, torch.Tensor):
            out = torch.empty_like(want)
            assert calls.invoke(fn, entry, values, parameters, out=out) is out
            check_same(out, want)


@pytest.mark.parametrize("entry", calls.INPLACE, ids=calls.name_of)
def test_inplace(entry: OpEntry, device: str) -> None:
    values = sample_calls.operands(entry, device=device)
    mine, theirs = copy.deepcopy(values), copy.deepcopy(values)
    parameters = sample_calls.required(entry)
    try:
        calls.invoke(calls.function(entry, True), entry, theirs, parameters)
    except RuntimeError:
        pytest.skip("the result does not fit into the operand")
    version = mine[0]._version
    assert calls.invoke(function(entry, True), entry, mine, parameters) is mine[0]
    assert mine[0]._version == version + 1
    check_same(mine[0], theirs[0])


@pytest.mark.parametrize("entry", calls.ELEMENTWISE, ids=calls.name_of)
def test_numbers(entry: OpEntry, device: str) -> None:
    values = sample_calls.operands(entry, device=device)
    overloads = calls.function(entry).overloads()
    for i, name in enumerate(entry.inputs):
        if f"Scalar_{name}" not in overloads:
            continue
        for number in (2, 1.5, True):
            mixed = [number if k == i else value for k, value in enumerate(values)]
            try:
                want = sample_calls.call(entry, mixed)
            except (RuntimeError, NotImplementedError) as error:
                with pytest.raises(type(error)):
                    calls.invoke(function(entry), entry, mixed, sample_calls.required(entry))
                continue
            check_same(
                calls.invoke(function(entry), entry, mixed, sample_calls.required(entry)), want
            )


def test_errors_are_torchs_parsers() -> None:
    x = torch.ones(2)
    for bad in (
        lambda: iterlab.add(x),
        lambda: iterlab.add(x, "1"),
        lambda: iterlab.add(x, x, beta=1),
        lambda: iterlab.add(x, x, x),
        lambda: iterlab.exp(2.0),
    ):
        with pytest.raises(TypeError):
            bad()
    with pytest.raises(RuntimeError, match="expected operands that broadcast"):
        iterlab.add(x, torch.ones(3))


def test_numpys_names_and_dims() -> None:
    x = torch.arange(6.0).view(2, 3)
    for got in (
        iterlab.sum(x, axis=1),
        iterlab.sum(x, 1),
        iterlab.sum(x, (1,)),
        iterlab.sum(x, dim=[-1], keepdims=False),
        iterlab.sum(x, np.int64(1)),
        iterlab.sum(x, (np.int32(1),)),
    ):
        torch.testing.assert_close(got, x.sum(1))


def test_autograd_modes_and_profiler_see_the_call() -> None:
    x, y = torch.ones(2, requires_grad=True), torch.ones(2)
    iterlab.mul(x, y).sum().backward()
    torch.testing.assert_close(x.grad, y)
    with torch.inference_mode():
        assert iterlab.mul(x, y).is_inference()
    seen: list[str] = []

    class Dispatched(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Dispatched():
        iterlab.add(x, y)
    assert seen == ["iterlab.add.default"]
    with quiet_profile() as profile:
        iterlab.add(x, y)
    assert any(event.key == "iterlab::add" for event in profile.key_averages())


def test_torch_function() -> None:
    class Logged(torch.Tensor):
        called: list[Any] = []  # noqa: RUF012

        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            cls.called.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2).as_subclass(Logged)
    assert isinstance(iterlab.add(x, 1), Logged)
    assert iterlab.add in Logged.called
    functions: list[Any] = []

    class Mode(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            functions.append(func)
            return func(*args, **(kwargs or {}))

    with Mode():
        iterlab.add(torch.ones(2), torch.ones(2))
    assert iterlab.add in functions


def test_the_gil_is_released() -> None:
    x = torch.rand(1 << 24)
    ticks = 0
    done = threading.Event()

    def count() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1

    thread = threading.Thread(target=count)
    thread.start()
    before = ticks
    iterlab.exp(x)
    during = ticks - before
    done.set()
    thread.join()
    assert during > 0


@pytest.mark.parametrize("entry", TABLE, ids=calls.name_of)
def test_names_signatures_and_docs(entry: OpEntry) -> None:
    fn = function(entry)
    assert entry.name in iterlab.__all__ and entry.name in dir(iterlab)
    assert (fn.__name__, fn.__module__) == (entry.name, "iterlab")
    assert entry.doc in (fn.__doc__ or "")
    parameters = list(inspect.signature(fn).parameters)
    assert parameters[: len(entry.inputs)] == list(entry.inputs)
    assert "out" in parameters


@pytest.mark.parametrize("name", ["max", "min"])
def test_max_and_min_of_two(name: str, device: str) -> None:
    fn, twin = getattr(iterlab, name), getattr(torch, name)
    x, y = (torch.randn(4, 3, device=device) for _ in range(2))
    check_same(fn(x, y), twin(x, y))
    check_same(fn(x, other=y[0], out=torch.empty_like(x)), twin(x, y[0]))


@pytest.mark.parametrize("name", ["max", "min", "aminmax", "frexp", "var_mean"])
def test_several_results_are_of_torchs_types(name: str, device: str) -> None:
    x = torch.randn(4, 3, device=device)
    more = {} if name == "frexp" else {"dim": 0}
    got, want = (getattr(library, name)(x, **more) for library in (iterlab, torch))
    assert type(got) is type(want)
    check_same(pickle.loads(pickle.dumps(got)), got)
    torch.testing.assert_close(tuple(got), tuple(want))


def test_stubs_are_current() -> None:
    stub = Path(stubs.__file__).resolve().with_name("_functions.pyi")
    assert stub.read_text() == stubs.text(), f"run: python -m iterlab.stubs {stub}"


def test_names_are_written_out_in_the_stub() -> None:
    """Type checkers evaluate nothing: they see the names of a list that is there."""
    tree = ast.parse(stubs.text())
    named = [one for one in tree.body if isinstance(one, ast.Assign)]
    assert [ast.unparse(one.targets[0]) for one in named] == ["__all__"]
    assert ast.literal_eval(named[0].value) == _functions.__all__


USER = """
import torch
from torch import Tensor
from typing_extensions import assert_type

import iterlab

x = torch.ones(3, 3)
assert_type(iterlab.add(x, 1.5, alpha=2), Tensor)
assert_type(iterlab.add_(x, x), Tensor)
assert_type(iterlab.max(x), Tensor)
assert_type(iterlab.max(x, x), Tensor)
assert_type(iterlab.max(x, 0).values, Tensor)
assert_type(iterlab.min(x, axis=0).indices, Tensor)
assert_type(iterlab.frexp(x).mantissa, Tensor)
assert_type(iterlab.aminmax(x, dim=0).min, Tensor)
assert_type(iterlab.var_mean(x, False)[0], Tensor)
assert_type(iterlab.sum(x, axis=0, keepdims=True), Tensor)
assert_type(iterlab.sum(x, (0, 1)), Tensor)
assert_type(iterlab.clamp(x, 0, x[0, 0]), Tensor)
iterlab.compile.disable_fusion()


@iterlab.override_aten(only=["add"])
def twice(x: Tensor) -> Tensor:
    return x + x


assert_type(twice(x), Tensor)
"""
MISUSES = {
    "iterlab.nope(x)": "attr-defined",
    "iterlab.add(x, 'x')": "arg-type",
    "iterlab.sum(x, along=0)": "call-overload",
}


@pytest.mark.slow
def test_types_are_what_a_user_sees(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mypy over a file outside of the package, strict; what it accepts runs."""
    api = pytest.importorskip("mypy.api")
    exec(USER, {"__name__": "user"})
    monkeypatch.setenv("MYPYPATH", str(Path(__file__).parents[1] / "python_bindings"))
    file = tmp_path / "user.py"
    file.write_text(USER + "\n".join(MISUSES))
    first = USER.count("\n") + 1
    cache = f"--cache-dir={tmp_path / 'cache'}"
    found, errors, _ = api.run(["--strict", "--config-file=", cache, str(file)])
    assert errors == ""
    told = {
        line.split(":")[1] + line[line.rindex("[") :]
        for line in found.splitlines()
        if ": error: " in line
    }
    assert told == {f"{first + i}[{code}]" for i, code in enumerate(MISUSES.values())}, found
