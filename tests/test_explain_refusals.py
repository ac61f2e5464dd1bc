"""Explanations of calls that fail or have no derivative, and what explaining leaves alone."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch

import iterlab
from iterlab import rate

X, Y = torch.randn(64, 64), torch.randn(64, 64)


@pytest.mark.parametrize("library", ["", "aten::"])
@pytest.mark.parametrize(("name", "calls"), [("max", "maximum"), ("min", "minimum")])
def test_max_of_two_tensors_is_no_reduction(library: str, name: str, calls: str) -> None:
    explained = iterlab.explain(f"{library}{name}", X, Y)
    owner = "aten" if library else "iterlab"
    assert explained.summary == f"calls {owner}::{calls}" and explained.plan is None
    assert "reduced" not in str(explained)
    if not library:
        inner = explained.calls[0].plan
        assert isinstance(inner, iterlab.Plan) and inner.shape == (64, 64)
        with pytest.raises(ValueError, match=f"'{name}', which calls iterlab::{calls}"):
            iterlab.plan(name, X, Y)
    for args in ((X,), (X, 1)):
        assert iterlab.explain(f"{library}{name}", *args).twin_plan is not None


@pytest.mark.parametrize(
    ("op", "args", "error", "message"),
    [
        ("aten::add", (X, torch.ones(3)), RuntimeError, "aten::add refuses the call: .*broadcast"),
        ("aten::add_", (X[0], X), RuntimeError, "aten::add_ refuses the call"),
        ("aten::bitwise_and", (X, Y), NotImplementedError, "not implemented for 'Float'"),
        ("aten::mm", (X, torch.ones(3, 3)), RuntimeError, "aten::mm refuses the call"),
        ("aten::sum", (X, [3]), IndexError, "aten::sum refuses the call: Dimension out of range"),
    ],
)
def test_calls_that_aten_refuses(
    op: str, args: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error):
        getattr(torch.ops.aten, op.removeprefix("aten::"))(*args)
    with pytest.raises(error, match=f"^iterlab: .*{message}"):
        iterlab.explain(op, *args)


def test_operators_that_need_data_are_not_refused() -> None:
    for op in ("aten::nonzero", "aten::unique_dim"):
        args = (X,) if op == "aten::nonzero" else (X, 0)
        assert "CPU" in iterlab.explain(op, *args).dispatch.runs
    assert iterlab.explain("aten::item", X[0, 0]).summary


def leaf() -> torch.Tensor:
    return X.clone().requires_grad_()


REFUSED_BY_AUTOGRAD: dict[str, tuple[str, Callable[[], tuple[Any, ...]], dict[str, Any]]] = {
    "a leaf": ("add_", lambda: (leaf(), Y), {}),
    "a leaf of torch's": ("aten::add_", lambda: (leaf(), Y), {}),
    "a view of a leaf": ("add_", lambda: (leaf()[0], Y[0]), {}),
    "out": ("add", lambda: (leaf(), Y), {"out": torch.empty(64, 64)}),
}


@pytest.mark.parametrize("case", REFUSED_BY_AUTOGRAD)
def test_what_autograd_refuses_is_part_of_the_explanation(case: str) -> None:
    op, make, kwargs = REFUSED_BY_AUTOGRAD[case]
    library, _, name = op.rpartition("::")
    with pytest.raises(RuntimeError) as raised:
        getattr(getattr(torch.ops, library or "iterlab"), name)(*make(), **kwargs)
    explained = iterlab.explain(op, *make(), **kwargs)
    assert str(raised.value) in explained.summary
    states = {layer.key: layer.state for layer in explained.dispatch.layers}
    assert states["AutogradCPU"] == "raises" and states["CPU"] == "not reached"
    with torch.no_grad():
        assert iterlab.explain(op, *make(), **kwargs).dispatch.failure == ""
    with pytest.raises(RuntimeError):
        iterlab.explain(op, *make(), run=True, **kwargs)


def test_writes_that_autograd_allows() -> None:
    explained = iterlab.explain("add_", leaf() * 2, Y, run=True)
    assert explained.dispatch.failure == "" and explained.measured is not None


@pytest.mark.parametrize(
    ("op", "says"),
    [
        ("heaviside", "there is no derivative"),
        ("aten::heaviside", "there is no derivative"),
        ("eq", "the result has no derivative: records nothing"),
        ("aten::eq", "the result has no derivative: records nothing"),
        ("add", "records the node for backward"),
        ("aten::add", "records the node for backward"),
    ],
)
def test_derivatives_that_are_not_there(op: str, says: str) -> None:
    layers = {layer.key: layer.what for layer in iterlab.explain(op, leaf(), Y).dispatch.layers}
    assert layers["AutogradCPU"].startswith(says)


def test_layers_below_the_one_that_answers_are_not_reached() -> None:
    failing = iterlab.explain("add", X.to_sparse(), Y)
    states = {layer.key: layer.state for layer in failing.dispatch.layers}
    assert states["SparseCPU"] == "raises" and states["CPU"] == "not reached"
    error = "NotImplementedError: iterlab takes dense tensors"
    assert failing.summary == f"the call fails: {error} (SparseCPU)"
    running = iterlab.explain("aten::add", X.to_sparse(), X.to_sparse())
    assert running.dispatch.runs == ("AutogradCPU", "SparseCPU")


def test_measuring_leaves_random_numbers_alone() -> None:
    own = torch.Generator().manual_seed(1)
    before = torch.get_rng_state(), own.get_state()
    iterlab.explain("aten::bernoulli", X.sigmoid(), run=True)
    iterlab.explain("aten::bernoulli", X.sigmoid(), generator=own, run=True)
    after = torch.get_rng_state(), own.get_state()
    assert all(map(torch.equal, before, after))


def test_a_compiled_function_calls_an_explanation_as_it_is() -> None:
    code = (
        "import torch, iterlab\n"
        "x = torch.randn(8, 8)\n"
        "def work():\n"
        "    y = x + 1\n"
        "    path = iterlab.explain('add', y, x).summary, iterlab.plan('add', y, x).path\n"
        "    return path, y * 2\n"
        "print(torch.compile(work, backend='eager')()[0][1])\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr) == ("vectorized\n", "")


def test_the_memory_rate_is_that_of_one_thread_where_others_are_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(rate, "contiguous_add", lambda *of: lambda: time.sleep(0.1))
    rate._seconds.cache_clear()
    try:
        assert rate._seconds(2**20, "cpu", 2) < 0.01
    finally:
        rate._seconds.cache_clear()


def test_errors_name_the_operand() -> None:
    with pytest.raises(NotImplementedError, match="got other, a sparse"):
        iterlab.plan("add", X, X.to_sparse())
    with pytest.raises(NotImplementedError, match="got out, a sparse"):
        iterlab.plan("add", X, Y, out=X.to_sparse())
