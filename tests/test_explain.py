"""Explanations against what ran: paths, reductions, measurements, and output."""

from __future__ import annotations

import functools
import json
import pickle
import random
import re
from collections.abc import Iterator
from typing import Any

import device_trace
import pytest
import torch
from rich.console import Console
from torch._C._autograd import DeviceType
from torch._subclasses import FakeTensorMode
from torch.autograd.profiler_util import FunctionEvent

import iterlab
from iterlab import _C
from iterlab.measured import Measured, kernels_of, last_call, quiet_profile
from iterlab.plan_sections import measured_section
from iterlab.sections import Section, rich_parts
from iterlab.table import CompositeEntry, composite_table

DTYPES = (torch.float32, torch.float32, torch.bfloat16, torch.float64, torch.int8)


def drawn(
    shape: tuple[int, ...],
    chance: random.Random,
    spread: float = 0.15,
    dtypes: tuple[torch.dtype, ...] = DTYPES,
) -> torch.Tensor:
    """A tensor of a random dtype and layout that broadcasts to `shape`: along `spread` of its dims
    it does.
    """
    sizes = [1 if chance.random() < spread else size for size in shape]
    order = chance.sample(range(len(sizes)), len(sizes))
    step = chance.choice((1, 1, 1, 2))
    stored = [sizes[dim] for dim in order]
    if stored:
        stored[-1] *= step
    dense = torch.ones(stored, dtype=chance.choice(dtypes))
    view = dense[..., ::step] if stored else dense
    return view.permute([order.index(dim) for dim in range(len(sizes))])


def reported(call: Any) -> str:
    """The path or form that the kernel's own range on the timeline names."""
    names = [name for name, _ in kernels_of(call)[0] if name.startswith("iterlab::")]
    assert len(names) == 1
    return names[0].partition("[")[2].removesuffix("]").rpartition(" ")[0]


Call = tuple[str, list[torch.Tensor], "torch.Tensor | None"]


def random_calls() -> Iterator[Call]:
    """Operators on operands of random layouts and dtypes; a third each into a new tensor, into a
    given one of another layout, and in place.
    """
    chance = random.Random(6)
    for i in range(180):
        shape = tuple(chance.choice((1, 2, 3, 5, 17, 64)) for _ in range(chance.randint(1, 4)))
        form = ("new", "out", "inplace")[i % 3]
        op = chance.choice(("add", "mul", "exp", "maximum", "where"))
        if form == "inplace" and op == "where":
            op = "add"
        count = {"exp": 1, "where": 3}.get(op, 2)
        operands = [drawn(shape, chance) for _ in range(count)]
        if op == "where":
            operands[0] = operands[0] > 0
        out = None
        if form != "new":
            target = drawn(shape, chance, spread=0, dtypes=(torch.float64,))
            out = target if form == "out" else None
            if form == "inplace":
                op, operands[0] = f"{op}_", target
        yield op, operands, out


def test_the_path_explained_is_the_path_that_ran() -> None:
    seen = set()
    for op, operands, out in random_calls():
        given = {} if out is None else {"out": out}
        explained = iterlab.explain(op, *operands, **given)
        assert isinstance(explained.plan, iterlab.Plan)
        call = functools.partial(getattr(torch.ops.iterlab, op), *operands, **given)
        assert reported(call) == explained.plan.path, (op, operands, out)
        seen.add((explained.plan.path, "_" if op.endswith("_") else "" if out is None else "out"))
    paths = {path for path, _ in seen}
    assert {"vectorized", "strided", "tiled"} <= paths
    assert {"_", "", "out"} == {form for path, form in seen if path == "strided"}


def test_lazy_conjugates_are_explained_as_the_copies_that_a_kernel_gets() -> None:
    x = torch.randn(30, 80, dtype=torch.complex64)[:, ::2]
    for view in (x, x.conj(), x.imag._neg_view(), x.t().conj()):
        explained = iterlab.explain("exp", view)
        assert isinstance(explained.plan, iterlab.Plan)
        assert reported(lambda: torch.ops.iterlab.exp(view)) == explained.plan.path  # noqa: B023
    assert iterlab.plan("exp", x).path == "strided"
    assert iterlab.plan("exp", x.conj()).path == "vectorized"


def random_reductions() -> Iterator[tuple[str, torch.Tensor, list[int]]]:
    chance = random.Random(8)
    for _ in range(90):
        shape = tuple(chance.choice((1, 2, 3, 8, 33, 100)) for _ in range(chance.randint(1, 4)))
        x = drawn(shape, chance)
        dims = chance.sample(range(x.dim()), chance.randint(1, x.dim()))
        yield chance.choice(("sum", "amax", "any", "argmax")), x, dims


def test_the_form_explained_is_the_form_that_ran_over_random_layouts() -> None:
    seen = set()
    for op, x, dims in random_reductions():
        dim: Any = dims[0] if op == "argmax" else dims
        explained = iterlab.explain(op, x, dim=dim)
        assert isinstance(explained.plan, iterlab.ReductionPlan)
        overload = getattr(torch.ops.iterlab, op)
        assert reported(lambda: overload(x, dim)) == explained.plan.form, (op, x, dims)  # noqa: B023
        out = torch.empty(explained.plan.output_shape, dtype=overload(x, dim).dtype)
        assert reported(lambda: overload(x, dim, out=out)) == explained.plan.form  # noqa: B023
        assert iterlab.explain(op, x, dim=dim, out=out).plan == explained.plan
        seen.add(explained.plan.form)
    assert seen == {"inner", "outer", "short inner"}


# Reductions whose overload, or number, their other arguments choose.
BOUND: dict[str, tuple[str, Any, str]] = {
    "max of all": ("max", lambda x, dims: ((x,), {}), "iterlab::max"),
    "max": ("max", lambda x, dims: ((x, dims), {}), "iterlab::max.dim"),
    "min": ("min", lambda x, dims: ((x,), {"dim": dims, "keepdim": True}), "iterlab::min.dim"),
    "var": ("var", lambda x, dims: ((x, dims), {"correction": 0}), "iterlab::var"),
    "unbiased": ("var", lambda x, dims: ((x, dims, False), {}), "iterlab::var.dim"),
    "norm": ("norm", lambda x, dims: ((x, 3.0, dims), {}), "iterlab::norm"),
    "fro": ("norm", lambda x, dims: ((x,), {"p": "fro", "dim": dims}), "iterlab::norm.name"),
    "logsumexp": ("logsumexp", lambda x, dims: ((x, dims), {}), "iterlab::logsumexp"),
}


@pytest.mark.parametrize("name", BOUND)
def test_a_reductions_arguments_are_those_of_its_overload(name: str) -> None:
    op, arguments, schema = BOUND[name]
    chance = random.Random(9)
    for _ in range(25):
        shape = tuple(chance.choice((2, 3, 8, 33)) for _ in range(chance.randint(2, 4)))
        x = drawn(shape, chance, spread=0, dtypes=(torch.float32,))
        args, kwargs = arguments(x, chance.sample(range(x.dim()), chance.randint(1, 2)))
        explained = iterlab.explain(op, *args, **kwargs)
        assert explained.schema.partition("(")[0] == schema
        assert isinstance(explained.plan, iterlab.ReductionPlan)
        call = functools.partial(getattr(torch.ops.iterlab, op), *args, **kwargs)
        result = call()
        first = result if isinstance(result, torch.Tensor) else result[0]
        assert explained.plan.output_shape == tuple(first.shape)
        assert reported(call) == explained.plan.form, (shape, x.stride(), args[1:], kwargs)


@pytest.mark.parametrize("dim", [0, 1, (0, 1), 2])
@pytest.mark.parametrize("transposed", [False, True])
def test_the_form_explained_is_the_form_that_ran(dim: Any, transposed: bool) -> None:
    x = torch.randn(40, 50, 3)
    x = x.transpose(0, 1) if transposed else x
    explained = iterlab.explain("sum", x, dim=dim)
    assert isinstance(explained.plan, iterlab.ReductionPlan)
    want = torch.sum(x, dim=dim)
    assert explained.plan.output_shape == tuple(want.shape)
    dims = [dim] if isinstance(dim, int) else list(dim)
    assert reported(lambda: torch.ops.iterlab.sum(x, dims)) == explained.plan.form


def test_forced_path_is_explained() -> None:
    x = torch.randn(64, 64)
    with iterlab.force_path("generic"):
        explained = iterlab.explain("add", x, x)
        assert reported(lambda: torch.ops.iterlab.add(x, x)) == "generic"
    assert explained.plan is not None and explained.plan.path == "generic"


def test_advice_gives_the_path_that_it_promises() -> None:
    x, y = torch.randn(256, 256), torch.randn(256, 256).t()
    explained = iterlab.explain("add", x, y)
    assert explained.advice is not None and explained.advice.code == "other.contiguous()"
    ran = reported(lambda: torch.ops.iterlab.add(x, y.contiguous()))
    assert ran == explained.advice.path != explained.summary.partition(":")[0]


def test_advice_leads_to_no_path_that_may_be_slower() -> None:
    chance = random.Random(3)
    paths = set()
    for _ in range(250):
        shape = tuple(chance.choice((2, 3, 8, 60, 200)) for _ in range(chance.randint(2, 4)))
        operands = [drawn(shape, chance, spread=0.1) for _ in range(2)]
        advice = iterlab.explain("add", *operands).advice
        if advice is not None:
            given = dict(zip(("input", "other"), operands, strict=True))
            made = [eval(code, {"torch": torch} | given) for code in advice.code.split(", ")]
            names = [code.partition(".")[0] for code in advice.code.split(", ")]
            changed = given | dict(zip(names, made, strict=True))
            before, after = iterlab.plan("add", **given), iterlab.plan("add", **changed)
            assert isinstance(before, iterlab.Plan) and isinstance(after, iterlab.Plan)
            paths.add((before.path, after.path, after.reason))
    assert {("tiled", "vectorized", "flat"), ("tiled", "strided", "nested_dims")} <= paths
    assert not {one for one in paths if one[:2] == ("tiled", "strided") and one[2] != "nested_dims"}


def test_running_measures() -> None:
    x = torch.randn(512, 512)
    explained = iterlab.explain("add", x, x.t(), run=True)
    measured = explained.measured
    assert measured is not None and 0 < measured.seconds < 10
    assert [name.split("[")[0] for name, _ in measured.kernels] == ["iterlab::add "]
    assert measured.allocated == x.nbytes
    assert "of a contiguous add's" in " ".join(str(explained).split())
    saves = measured.seconds - measured.memory_seconds >= 0.05 * measured.seconds
    assert ("worth it after" if saves else "save nothing") in explained.advice_text


def test_what_a_gpu_ran_and_allocated_is_read_from_its_operator() -> None:
    """Kernels of a GPU are rows of their own beside the operators that launched them, later."""
    calls = [
        FunctionEvent(
            i, "iterlab::add", 1, 10 * i, 10 * i + 8, device_memory_usage=4096, use_device="cuda"
        )
        for i in range(4)
    ]
    kernels_beside = [
        FunctionEvent(
            i, device_trace.OURS, 7, 30 + 25 * i, 55 + 25 * i,
            device_type=DeviceType.CUDA, use_device="cuda",
        )
        for i in range(4)
    ]  # fmt: skip
    for call in calls:
        call.append_kernel(device_trace.OURS, 0, 25)
    kernels, allocated = last_call([*calls, *kernels_beside], calls=4)
    assert kernels == ((device_trace.OURS, pytest.approx(25e-6)),)
    assert allocated == 4096


def test_running_leaves_operands_of_inplace_operators_alone() -> None:
    x, before = torch.ones(8), torch.ones(8)
    iterlab.explain("add_", x, torch.ones(8), run=True)
    assert torch.equal(x, before)


def test_running_needs_data() -> None:
    with pytest.raises(ValueError, match="expected operands with data"):
        iterlab.explain("add", torch.empty(3, device="meta"), 1.0, run=True)


def test_every_way_to_name_an_operator() -> None:
    x = torch.randn(3)
    own = [iterlab.add, torch.ops.iterlab.add, torch.ops.iterlab.add.default, "add", "iterlab::add"]
    own += ["add.default"]
    for function in (torch.special.entr, torch.nn.functional.logsigmoid, torch.nn.functional.silu):
        explained = iterlab.explain(function, x)
        assert explained.schema.startswith("aten::") and explained.twin_plan is not None
    torchs = [torch.add, torch.ops.aten.add, torch.ops.aten.add.Tensor, "aten::add.Tensor"]
    torchs += ["aten::add", "torch.add"]
    assert {iterlab.explain(op, x, x).schema for op in own} == {
        str(torch.ops.iterlab.add.default._schema)
    }
    assert {iterlab.explain(op, x, x).schema for op in torchs} == {
        str(torch.ops.aten.add.Tensor._schema)
    }


@pytest.mark.parametrize(
    ("op", "args", "error"),
    [
        ("nope", (1.0,), ValueError),
        ("matmul", (1.0,), ValueError),
        ("logsumexp", (torch.ones(2),), TypeError),
        ("aten::nope", (1.0,), ValueError),
        ("nolib::nope", (1.0,), ValueError),
        (len, (1.0,), TypeError),
        (torch.ops.aten.add, ("text",), TypeError),
        ("add", (torch.ones(2), torch.ones(3)), RuntimeError),
        ("add.out", (torch.ones(2), torch.ones(2)), TypeError),
        ("add.nope", (torch.ones(2), torch.ones(2)), ValueError),
    ],
)
def test_errors(op: Any, args: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^iterlab"):
        iterlab.explain(op, *args)


def test_operators_without_twin_show_their_dispatch() -> None:
    explained = iterlab.explain(torch.matmul, torch.randn(3, 3), torch.randn(3, 3))
    assert explained.plan is None and explained.aten is None
    assert "composite" in str(explained)
    assert explained.summary == "calls aten::mm"


@pytest.mark.parametrize("entry", composite_table(), ids=lambda entry: entry.name)
def test_operators_written_from_others_show_their_dispatch(entry: CompositeEntry) -> None:
    x = torch.rand(64, 64)
    args = {
        "clamp": (x, 0.1, 0.5),
        "float_power": (x, 2.0),
        "polygamma": (2, x),
        "prelu": (x, torch.ones(64)),
    }.get(entry.name, (x,))
    explained = iterlab.explain(entry.name, *args, run=True)
    assert explained.schema.startswith(f"iterlab::{entry.name}")
    assert explained.plan is None and "composite" in str(explained)
    assert explained.dispatch.runs == ("AutogradCPU",)
    assert explained.measured is not None
    ran = [name.partition(" ")[0] for name, _ in explained.measured.kernels if "[" in name]
    planned = [call.name for call in explained.calls if call.plan is not None]
    assert ran == planned == re.findall(r"^Loop of (\S+)", str(explained), re.MULTILINE)


def test_calls_of_others_are_planned_with_the_operands_that_they_get() -> None:
    x = torch.rand(64, 64)
    with iterlab.force_path("generic"):
        forced = iterlab.explain("clamp", x.t(), x, x).calls[0]
    with torch.inference_mode():
        tiled = iterlab.explain("clamp", x.t(), x, x).calls[0]
    assert forced.plan is not None and tiled.plan is not None
    assert (forced.plan.path, tiled.plan.path) == ("generic", "tiled")
    assert iterlab.explain("contiguous", x).calls == ()


def test_sparse_and_nested_tensors_have_a_dispatch_and_no_plan() -> None:
    sparse = torch.eye(3).to_sparse()
    rows = [torch.ones(2), torch.ones(3)]
    nested = torch.nested.nested_tensor(rows, layout=torch.jagged)
    for one in (sparse, nested):
        explained = iterlab.explain("add", one, one)
        assert explained.plan is None and iterlab.explain("sum", one).plan is None
    assert iterlab.explain("add", sparse, sparse).dispatch.layers[-1].state == "raises"
    with torch.inference_mode():  # a composite raises nothing, what it calls does
        assert iterlab.explain("clamp", sparse, 0).dispatch.layers[-1].state == "runs"


def test_both_results_are_shown() -> None:
    x = torch.rand(8, 16)
    values, indices = torch.empty(8), torch.empty(8, dtype=torch.int64)
    new = iterlab.explain("max", x, dim=1)
    given = iterlab.explain("max", x, dim=1, values=values, indices=indices)
    for explained, what in ((new, "new"), (given, "given")):
        rows = explained.sections[2].table[2:]
        assert [(row[0], row[1], row[-1]) for row in rows] == [
            ("values", "float32", what),
            ("indices", "int64", what),
        ]


@pytest.mark.parametrize("op", ["add", "sum", "clamp", "aten::add", "aten::matmul"])
def test_explanations_can_be_pickled(op: str) -> None:
    x = torch.rand(8, 8)
    explained = iterlab.explain(op, *([x] if op == "sum" else [x, x.t()]), run=op == "add")
    again = pickle.loads(pickle.dumps(explained))
    assert str(again) == str(explained) and again.to_dict() == explained.to_dict()
    assert again.html_page() == explained.html_page()


def test_a_time_of_a_busy_machine_is_called_unsteady() -> None:
    def line(spread: float) -> str:
        return measured_section(Measured(1e-6, spread, (), 0, 0, None), None).lines[0][1]

    assert line(0.12) == "1 µs ± 12 %"
    assert line(427.0).startswith("1 µs but unsteady")


def test_text_in_brackets_and_long_names_are_shown_whole() -> None:
    name = "VariableFallbackKernelOfABackend.cpp [1]"
    section = Section("", (("x[a]", "[b]"),), (("kernel", "what"), (name, "word " * 20)))
    console = Console(width=40)
    with console.capture() as captured:
        for part in rich_parts(section):
            console.print(part)
    shown = "".join(captured.get().split())
    assert "x[a]" in shown and "[b]" in shown and "…" not in shown


def test_the_plan_under_vmap_is_of_the_tensors_inside() -> None:
    found: list[iterlab.Explanation] = []

    def inner(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        found.append(iterlab.explain("mul", x, y))
        return torch.ops.iterlab.mul(x, y)

    x, y = torch.randn(8, 64), torch.randn(64, 8)
    with quiet_profile() as profiler:
        torch.func.vmap(inner, in_dims=(0, 1))(x, y)
    plan = found[0].plan
    assert isinstance(plan, iterlab.Plan) and plan.shape == (8, 64)
    assert any(f"[{plan.path} " in event.name for event in profiler.events())


@pytest.mark.parametrize("op", ["sum", "argmax"])
@pytest.mark.parametrize("dim", [0, 1, -1, None])
@pytest.mark.parametrize("batch", [0, 1])
def test_dims_of_a_reduction_under_vmap_are_those_inside(
    op: str, dim: int | None, batch: int
) -> None:
    found: list[iterlab.Explanation] = []

    def inner(x: torch.Tensor) -> torch.Tensor:
        found.append(iterlab.explain(op, x, dim=dim))
        return getattr(torch.ops.iterlab, op)(x, dim)

    x = torch.randn(6, 40, 5).movedim(0, batch)
    with quiet_profile() as profiler:
        result = torch.func.vmap(inner, in_dims=batch)(x)
    plan = found[0].plan
    assert isinstance(plan, iterlab.ReductionPlan)
    assert plan.output_shape == tuple(result.shape)
    assert any(event.name == f"iterlab::{op} [{plan.form} {_C.cpu_capability()}]"
               for event in profiler.events())  # fmt: skip


def test_fake_tensors_and_meta_tensors() -> None:
    with FakeTensorMode():
        explained = iterlab.explain("add", torch.empty(4, 5), torch.empty(5, 4).t())
        assert "FakeTensorMode has answered" in str(explained)
    assert explained.plan is not None
    meta = iterlab.explain("add", torch.empty(2**20, 2**20, device="meta"), 1.0)
    assert meta.dispatch.runs[-1] == "Meta" and meta.plan is not None


def test_output_forms() -> None:
    explained = iterlab.explain("add", torch.randn(4, 4), torch.randn(4, 4).t())
    data = json.loads(json.dumps(explained.to_dict(), default=str))
    assert data["plan"]["path"] == explained.plan.path  # type: ignore[union-attr]
    assert [layer["key"] for layer in data["dispatch"]["layers"]][-1] == "CPU"
    html = explained._repr_html_()
    assert "<script" not in html and "http" not in html and "AutogradCPU" in html
    assert repr(explained).startswith("<Explanation of iterlab::add: ")
