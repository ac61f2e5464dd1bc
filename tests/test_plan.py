"""The planner without tensors: shapes, dtypes, layout classes, paths, outputs and errors."""

from __future__ import annotations

import itertools
from typing import Any

import calls
import layouts
import numpy as np
import pytest
import samples
import torch
from calls import ELEMENTWISE, name_of

import iterlab
from iterlab import _C
from iterlab.planning import dtype_name

pytestmark = calls.TORCH_WARNINGS


def describe(
    sizes: tuple[int, ...],
    strides: tuple[int, ...] | None = None,
    dtype: str = "float32",
    address: int = 0,
    wrapped_number: bool = False,
) -> _C.Operand:
    if strides is None:
        strides = torch.empty(sizes, device="meta").stride()
    return _C.Operand(list(sizes), list(strides), dtype, wrapped_number, address)


def add(*operands: _C.Operand, **more: Any) -> dict[str, Any]:
    facts = _C.make_plan("add", list(operands), **more)
    assert isinstance(facts, dict)
    return facts


BROADCASTS = [
    ((), (), ()),
    ((3,), (), (3,)),
    ((2, 3), (3,), (2, 3)),
    ((2, 1), (1, 3), (2, 3)),
    ((2, 1, 4), (3, 1), (2, 3, 4)),
    ((0, 3), (1, 3), (0, 3)),
    ((1,), (0,), (0,)),
    ((5, 0, 1), (1, 7), (5, 0, 7)),
    ((1, 1), (1,), (1, 1)),
]


@pytest.mark.parametrize(("a", "b", "shape"), BROADCASTS)
def test_broadcasting(a: tuple[int, ...], b: tuple[int, ...], shape: tuple[int, ...]) -> None:
    assert torch.broadcast_shapes(a, b) == shape
    for operands in ((a, b), (b, a)):
        facts = add(*map(describe, operands))
        assert facts["shape"] == shape
        assert facts["numel"] == torch.Size(shape).numel()
        assert facts["output_strides"] == torch.empty(shape, device="meta").stride()


@pytest.mark.parametrize(
    ("a", "b"), [((2, 3), (4,)), ((2,), (3, 1, 3)), ((0,), (2,)), ((3, 0), (2, 1, 2))]
)
def test_shapes_that_do_not_broadcast(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    with pytest.raises(RuntimeError) as raised:
        add(describe(a), describe(b))
    text = f"iterlab::add: expected operands that broadcast, got shapes {list(a)} and {list(b)}"
    assert str(raised.value) == text


def promotion_cases() -> list[tuple[str, torch.Tensor | complex]]:
    """One operand of each dtype in each promotion category."""
    cases: list[tuple[str, torch.Tensor | complex]] = []
    for dtype in samples.ALL_DTYPES:
        for shape in ((2,), ()):
            value = torch.empty(shape, dtype=dtype, device="meta")
            cases.append((f"{samples.short_name(dtype)}{list(shape)}", value))
    cases += [(str(number), number) for number in (True, 2, 2.5, 1 + 2j)]
    return cases


@pytest.mark.parametrize("default", [torch.float32, torch.float64, torch.float16], ids=name_of)
def test_promotion_of_every_pair(default: torch.dtype) -> None:
    """`where` promotes as torch.result_type does, and computes in every dtype."""
    torch.set_default_dtype(default)
    condition = torch.empty((), dtype=torch.bool, device="meta")
    wrong = []
    for (name_a, a), (name_b, b) in itertools.product(promotion_cases(), repeat=2):
        try:
            want = samples.short_name(torch.result_type(a, b))
        except RuntimeError:
            want = "refused"
        try:
            plan = iterlab.plan("where", condition, a, b)
            assert isinstance(plan, iterlab.Plan) and plan.common_dtype == plan.result_dtype
            got = plan.result_dtype
        except RuntimeError as error:
            assert str(error).startswith("iterlab::where: expected dtypes that promote"), error
            got = "refused"
        if got != want:
            wrong.append(f"{name_a} with {name_b}: {got}, torch {want}")
    assert not wrong, wrong


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=name_of)
def test_result_dtype_by_promotion_kind(entry: iterlab.OpEntry) -> None:
    for dtypes in calls.dtype_mixes(entry):
        if len(dtypes) > 1 and not calls.takes(entry, dtypes):
            continue
        operands = [
            torch.empty(3, device="meta", dtype=torch.bool if calls.is_bool_input(entry, i) else d)
            for i, d in zip(range(len(entry.inputs)), itertools.cycle(dtypes), strict=False)
        ]
        parameters = calls.parameter_sets(entry)[0]
        want = calls.result_dtype(entry, operands, parameters)
        common = want
        if entry.promotion != "to_argument":
            common = calls.common_dtype(calls.promoted(entry, operands))
            if samples.short_name(common) not in entry.dtypes and entry.promotion == "default":
                continue
        plan = calls.invoke(
            lambda *a, **k: iterlab.plan(entry.name, *a, **k), entry, operands, parameters
        )
        assert plan.result_dtype == samples.short_name(want), dtypes


# The path and the layout classes (output, then inputs) of each case, with two inputs.
PATHS = {
    "contiguous": ("vectorized", "flat", "contiguous contiguous contiguous"),
    "contiguous large": ("vectorized", "flat", "contiguous contiguous contiguous"),
    "one dim": ("vectorized", "flat", "contiguous contiguous contiguous"),
    "transposed": ("tiled", "fastest_dim_differs", "contiguous contiguous transposed"),
    "transposed large": ("tiled", "fastest_dim_differs", "contiguous contiguous transposed"),
    "transposed both": ("vectorized", "flat", "contiguous contiguous contiguous"),
    "transposed first": ("tiled", "fastest_dim_differs", "contiguous contiguous transposed"),
    "transposed batch": ("tiled", "fastest_dim_differs", "contiguous contiguous transposed"),
    "transposed strided": ("tiled", "fastest_dim_differs", "contiguous contiguous transposed"),
    "misaligned": ("vectorized", "flat", "contiguous contiguous contiguous"),
    "misaligned both": ("vectorized", "flat", "contiguous contiguous contiguous"),
    "row": ("strided", "nested_dims", "contiguous contiguous contiguous"),
    "column": ("strided", "nested_dims", "contiguous contiguous broadcast"),
    "one element": ("vectorized", "flat", "contiguous contiguous broadcast"),
    "zero-dim": ("vectorized", "flat", "contiguous contiguous broadcast"),
    "outer product": ("strided", "nested_dims", "contiguous broadcast contiguous"),
    "middle row": ("strided", "nested_dims", "contiguous contiguous contiguous"),
    "expanded": ("strided", "nested_dims", "contiguous contiguous broadcast"),
    "expanded both": ("strided", "nested_dims", "contiguous broadcast broadcast"),
    "sliding windows": ("strided", "nested_dims", "contiguous contiguous contiguous"),
    "channels_last": ("vectorized", "flat", "contiguous contiguous contiguous"),
    "channels_last mixed": ("tiled", "fastest_dim_differs", "contiguous contiguous transposed"),
    "channels_last large": ("tiled", "fastest_dim_differs", "contiguous contiguous transposed"),
    "outer every other": ("strided", "nested_dims", "contiguous contiguous contiguous"),
    "middle sliced": ("strided", "nested_dims", "contiguous contiguous contiguous"),
    "power of two pitch": ("strided", "nested_dims", "contiguous contiguous contiguous"),
    "size-1 dims": ("vectorized", "flat", "contiguous contiguous contiguous"),
    "only size-1 dims": ("vectorized", "flat", "contiguous contiguous contiguous"),
    "permuted 3-D": ("tiled", "fastest_dim_differs", "contiguous contiguous transposed"),
    "permuted 3-D both": ("tiled", "fastest_dim_differs", "contiguous contiguous transposed"),
    "permuted 5-D": ("tiled", "fastest_dim_differs", "contiguous contiguous transposed"),
    "reversed 5-D": ("tiled", "fastest_dim_differs", "contiguous contiguous transposed"),
    "eight dims": ("generic", "tiny_tiles", "contiguous contiguous transposed"),
    "image to planes": ("tiled", "fastest_dim_differs", "contiguous contiguous transposed"),
    "rows of three": ("strided", "short_rows", "contiguous contiguous rows"),
    "short transposed": ("tiled", "fastest_dim_differs", "contiguous contiguous transposed"),
    "zero size": ("vectorized", "empty", "contiguous contiguous contiguous"),
    "zero size strided": ("vectorized", "empty", "contiguous contiguous contiguous"),
    "zero size broadcast": ("vectorized", "empty", "contiguous contiguous rows"),
    "zero dims": ("vectorized", "flat", "contiguous contiguous contiguous"),
    "one element only": ("vectorized", "flat", "contiguous contiguous contiguous"),
    "inner stride 2": ("strided", "inner_strided", "contiguous contiguous strided"),
    "inner stride 2 both": ("strided", "inner_strided", "contiguous strided strided"),
    "inner stride 3": ("strided", "inner_strided", "contiguous contiguous strided"),
    "inner stride 3 both": ("strided", "inner_strided", "contiguous strided strided"),
    "inner stride 4": ("strided", "inner_strided", "contiguous contiguous strided"),
    "inner stride 4 both": ("strided", "inner_strided", "contiguous strided strided"),
    "inner 3 of 4": ("strided", "short_rows", "contiguous contiguous rows"),
    "inner 3 of 4 both": ("strided", "short_rows", "contiguous rows rows"),
    "inner 7 of 8": ("strided", "short_rows", "contiguous contiguous rows"),
    "inner 7 of 8 both": ("strided", "short_rows", "contiguous rows rows"),
}


def plan_case(case: layouts.Case) -> iterlab.Plan:
    operands = case.make([lambda n: torch.empty(n, device="meta")] * 2)
    plan = iterlab.plan("add", *operands)
    assert isinstance(plan, iterlab.Plan)
    return plan


@pytest.mark.parametrize("case", layouts.CASES, ids=name_of)
def test_path_and_layout_classes(case: layouts.Case) -> None:
    plan = plan_case(case)
    classes = " ".join(operand.layout for operand in plan.operands)
    assert (plan.path, plan.reason, classes) == PATHS[case.name]
    assert plan.path in plan.legal_paths
    assert {"strided", "generic"} <= set(plan.legal_paths)


@pytest.mark.parametrize("case", layouts.CASES, ids=name_of)
def test_a_plan_walks_every_element_once(case: layouts.Case) -> None:
    """Loop dims and byte strides reach exactly the addresses that indexing the tensors reaches."""
    operands = case.make([lambda n: torch.empty(n, device="meta")] * 2)
    if torch.broadcast_shapes(*(t.shape for t in operands)).numel() > 20_000:
        return
    plan = iterlab.plan("add", *operands)
    views = [torch.empty_strided(plan.shape, plan.output_strides, device="meta")]
    views += [tensor.expand(plan.shape) for tensor in operands]

    def addresses(shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
        total = torch.zeros(shape, dtype=torch.int64)
        for d, (size, stride) in enumerate(zip(shape, strides, strict=True)):
            steps = torch.arange(size) * stride
            total = total + steps.view([-1 if i == d else 1 for i in range(len(shape))])
        return total.flatten()

    walked = torch.stack([addresses(plan.loop_shape, o.strides) for o in plan.operands], dim=1)
    indexed = torch.stack([addresses(v.shape, v.stride()) * 4 for v in views], dim=1)
    assert walked.shape == indexed.shape
    key = [sorted(map(tuple, rows.tolist())) for rows in (walked, indexed)]
    assert key[0] == key[1]


def test_forced_paths_are_legal_or_refused() -> None:
    for case in layouts.CASES:
        legal = plan_case(case).legal_paths
        for path in ("vectorized", "strided", "tiled", "generic"):
            with iterlab.force_path(path):
                if path in legal:
                    plan = plan_case(case)
                    assert plan.path == path or plan.reason == "empty"
                    assert plan.output_strides == plan_case(case).output_strides
                    continue
                with pytest.raises(
                    RuntimeError, match=rf"^iterlab::add: expected .*{path}.*, got "
                ):
                    plan_case(case)
    assert plan_case(layouts.BY_NAME["contiguous"]).path == "vectorized", "force_path ends"


def test_force_path_nests_and_is_undone_by_an_error() -> None:
    case = layouts.BY_NAME["contiguous"]
    with iterlab.force_path("generic"):
        with pytest.raises(ZeroDivisionError), iterlab.force_path("strided"):
            assert plan_case(case).path == "strided"
            raise ZeroDivisionError
        assert plan_case(case).path == "generic"
    assert plan_case(case).path == "vectorized"
    with (
        pytest.raises(ValueError, match=r"^iterlab: expected path vectorized, .* got 'fast'$"),
        iterlab.force_path("fast"),
    ):
        pass


def test_paths_of_other_threads_are_their_own() -> None:
    import threading

    seen: list[str] = []
    with iterlab.force_path("generic"):
        worker = threading.Thread(
            target=lambda: seen.append(plan_case(layouts.BY_NAME["contiguous"]).path)
        )
        worker.start()
        worker.join()
    assert seen == ["vectorized"]


def test_staging_follows_dtype_and_stride() -> None:
    x = torch.empty(40, 70, device="meta")
    assert [o.staged for o in iterlab.plan("add", x, x).operands] == [False, False, False]
    assert [o.staged for o in iterlab.plan("add", x, x.double()).operands] == [False, True, False]
    assert [o.staged for o in iterlab.plan("add", x, x[:, :1]).operands] == [False, False, True]


def lane_dtypes(op: str, *args: object) -> list[str]:
    return [o.lane_dtype for o in iterlab.plan(op, *args).operands]


def test_kernels_in_float_convert_lanes_themselves() -> None:
    x, y = torch.empty(40, 70, device="meta"), torch.empty(40, 70, device="meta").bfloat16()
    assert lane_dtypes("add", x, y) == ["float32", "float32", "bfloat16"]
    assert lane_dtypes("add", y, y.half()) == ["float32", "bfloat16", "float16"]
    assert lane_dtypes("lt", y, y) == ["bool", "bfloat16", "bfloat16"]
    assert lane_dtypes("add", x, y.long()) == ["float32"] * 3
    assert lane_dtypes("add", x.double(), y) == ["float64"] * 3
    # A broadcast value is converted once, and formulas worth many adds do not convert.
    assert lane_dtypes("add", x, y[:, :1]) == ["float32"] * 3
    assert lane_dtypes("erf", y) == ["float32"] * 2
    for operand in iterlab.plan("add", y, y).operands:
        assert (operand.lane_dtype, operand.staged) == ("bfloat16", False)
    with iterlab.force_path("generic"):
        assert lane_dtypes("add", y, y) == ["float32"] * 3


@pytest.mark.parametrize(
    ("op", "dtype", "packed", "in_place"),
    [
        ("add", torch.float32, 31, 32),
        ("add", torch.int32, 15, 16),
        ("add", torch.float64, 7, 8),
        ("add", torch.bfloat16, 63, 64),
        ("add", torch.int8, 63, 64),
        ("lt", torch.float64, 63, 64),  # a bool for each
        ("exp", torch.float64, 63, 64),  # costly
        ("clone", torch.float64, 63, 64),  # packed where the result lies
    ],
)
def test_short_rows_are_packed(op: str, dtype: torch.dtype, packed: int, in_place: int) -> None:
    for width, staged in ((packed, True), (in_place, False)):
        x = torch.empty(500, width + 3, dtype=dtype, device="meta")[:, :width]
        plan = iterlab.plan(op, *[x] * (1 if op in ("exp", "clone") else 2))
        assert plan.operands[-1].staged == staged, width
        assert (plan.reason == "short_rows") == staged, width


def test_large_results_are_written_past_the_caches() -> None:
    def streamed(op: str, *args: torch.Tensor, **kwargs: torch.Tensor) -> bool:
        return iterlab.plan(op, *args, **kwargs).operands[0].streamed

    x = torch.empty(4096, 2048, device="meta")
    assert streamed("add", x, x)
    assert streamed("add", x, x.bfloat16())
    assert not streamed("add", x[1:], x[1:])
    assert not streamed("lt", x.repeat(4, 1), x.repeat(4, 1))
    assert not streamed("add", x.long(), x.long())
    assert streamed("add", x.long(), torch.empty(2048, 4096, device="meta").long().t())


def test_bytes_count_each_element_once() -> None:
    x = torch.empty(40, 70, device="meta")
    assert iterlab.plan("add", x, x).bytes == 3 * 4 * x.numel()
    assert iterlab.plan("add", x, x[0]).bytes == 2 * 4 * x.numel() + 4 * 70
    assert iterlab.plan("add", x, x.bfloat16()).bytes == 10 * x.numel()
    assert iterlab.plan("add", x, x[:, :1].expand(40, 70)).bytes == 8 * x.numel() + 4 * 40


def test_sizes_beyond_32_bits() -> None:
    facts = add(describe((65536, 1)), describe((1, 65537)))
    assert facts["numel"] == 65536 * 65537 > 2**31
    assert facts["output_strides"] == (65537, 1)
    facts = add(describe((2**40,)), describe((2**40,)))
    assert (facts["numel"], facts["path"]) == (2**40, "vectorized")


def test_as_many_dims_as_torch_takes() -> None:
    for ndim in (1, 16, 17, 25, 64):
        shape = (1,) * (ndim - 1) + (2,)
        assert add(describe(shape), describe(shape))["shape"] == shape
        strided = tuple([2 if d % 9 == 0 else 1 for d in range(ndim)])
        assert add(describe(strided), describe(strided[-1:]))["shape"] == strided


def test_out_is_resized_or_kept() -> None:
    x = describe((4, 6))
    assert not add(x, x, out=describe((4, 6)))["resizes_output"]
    assert add(x, x, out=describe((0,)))["resizes_output"]
    assert add(x, x, out=describe((6, 4)))["resizes_output"]
    assert add(x, x, out=describe((4, 6, 1)))["resizes_output"]
    with pytest.raises(
        RuntimeError, match=r"^iterlab::add: expected an in-place operand of the .*"
    ):
        add(describe((1, 6)), x, inplace=True)


@pytest.mark.parametrize("common", samples.ALL_DTYPES, ids=name_of)
def test_out_must_hold_the_result(common: torch.dtype) -> None:
    operands = [torch.empty(2, dtype=d, device="meta") for d in (torch.bool, common, common)]
    for dtype in samples.ALL_DTYPES:
        out = torch.empty(2, dtype=dtype, device="meta")
        if torch.can_cast(common, dtype):
            assert iterlab.plan("where", *operands, out=out).operands[0].dtype == name_of(dtype)
            continue
        with pytest.raises(RuntimeError) as raised:
            iterlab.plan("where", *operands, out=out)
        text = f"a result of dtype {name_of(common)}, got one of dtype {name_of(dtype)}"
        assert str(raised.value) == f"iterlab::where: expected an output that can hold {text}"


def test_errors_of_the_python_door() -> None:
    x = torch.empty(2, device="meta")
    with pytest.raises(ValueError, match=r"^iterlab: expected the name of an operator .*'nope'$"):
        iterlab.plan("nope", x)
    with pytest.raises(
        ValueError, match=r"^iterlab: expected an operator with an in-place variant"
    ):
        iterlab.plan("where_", x, x, x)
    with pytest.raises(ValueError, match=r"a plan of its own, got 'clamp', which calls .*_between"):
        iterlab.plan("clamp", x, 0, 1)
    sparse = torch.eye(2).to_sparse()
    with pytest.raises(
        NotImplementedError, match=r"^iterlab: expected strided .* a sparse_coo one"
    ):
        iterlab.plan("add", sparse, sparse)
    with pytest.raises(ValueError, match=r"^iterlab: expected as many strides as sizes$"):
        _C.Operand([2], [], "float32")
    with pytest.raises(IndexError, match="Dimension out of range"):
        iterlab.plan("sum", x, dim=1)


REFUSED: dict[str, tuple[str, tuple[Any, ...], dict[str, Any], str]] = {
    "too few": ("add", (1,), {}, "at least the arguments input, other, got input"),
    "none": ("logsumexp", (), {}, "at least the arguments input, dim, got none"),
    "too many": ("max", (torch.ones(2), 0, True, 1), {}, "at most 3 positional arguments, got 4"),
    "unknown": (
        "sum",
        (torch.ones(2),),
        {"foo": 1},
        "arguments ['dim', 'keepdim', 'dtype'], got ['foo']",
    ),
    "of no overload": (
        "max",
        (torch.ones(2),),
        {"dim": 0, "dtype": torch.float64},
        "arguments ['dim', 'keepdim'], got ['dtype']",
    ),
    "twice": ("add", (1, 2), {"other": 3}, "arguments ['alpha'], got ['other']"),
    "text": ("add", (torch.ones(2), "2"), {}, "Tensor or number as other, got str"),
    "a number": ("exp", (2.0,), {}, "Tensor as input, got float"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_arguments_that_no_overload_takes(name: str) -> None:
    op, args, kwargs, expected = REFUSED[name]
    for ask in (iterlab.plan, iterlab.explain):
        with pytest.raises(TypeError) as raised:
            ask(op, *args, **kwargs)
        assert str(raised.value) == f"iterlab::{op}: expected {expected}"


def test_operands_are_taken_as_the_operator_takes_them() -> None:
    x, two = torch.ones(3, 4), np.float32(2)
    wanted = iterlab.plan("add", x, 2.0)
    assert iterlab.add(x, two).equal(x + 2)
    assert iterlab.plan("add", x, two) == iterlab.plan("add", x, other=two) == wanted
    assert iterlab.plan("sum", input=x, dim=0) == iterlab.plan("sum", x, 0)


def test_a_reduction_plans_all_of_its_results() -> None:
    x = torch.ones(3, 4, dtype=torch.complex64)
    for op, given in (("max", x.real), ("aminmax", x.real), ("var_mean", x), ("sum", x.bool())):
        plan = iterlab.plan(op, given, dim=0)
        assert isinstance(plan, iterlab.ReductionPlan)
        found = getattr(torch.ops.iterlab, op)(given, dim=0)
        results = [found] if isinstance(found, torch.Tensor) else found
        assert [dtype for _, dtype in plan.results] == [dtype_name(one.dtype) for one in results]


@pytest.mark.parametrize(
    ("op", "operands", "arguments"),
    [
        ("round", [torch.arange(3)], {"decimals": 1}),
        ("add", [torch.arange(3), torch.arange(3)], {"alpha": 0.5}),
        ("add_", [torch.ones(3), 1], {"alpha": 1j}),
        ("div", [torch.ones(3), 2], {"rounding_mode": "up"}),
        ("celu", [torch.ones(3)], {"alpha": 0.0}),
        ("clamp_min", [torch.ones(3, dtype=torch.uint8), 300], {}),
    ],
)
def test_a_plan_raises_what_the_call_does(
    op: str, operands: list[Any], arguments: dict[str, Any]
) -> None:
    with pytest.raises((RuntimeError, NotImplementedError)) as of_call:
        getattr(torch.ops.iterlab, op)(*operands, **arguments)
    with pytest.raises(of_call.type) as of_plan:
        iterlab.plan(op, *operands, **arguments)
    assert str(of_plan.value) == str(of_call.value)


@pytest.mark.parametrize("op", [entry.name for entry in ELEMENTWISE])
def test_plans_are_plain_data(op: str) -> None:
    import json

    entry = next(entry for entry in ELEMENTWISE if entry.name == op)
    operands = [d(6) for d in calls.draws_of(entry, (calls.input_dtypes(entry)[0],), "cpu")]
    parameters = calls.parameter_sets(entry)[0]
    plan = calls.invoke(lambda *a, **k: iterlab.plan(op, *a, **k), entry, operands, parameters)
    data = json.loads(json.dumps(plan.to_dict()))
    assert (data["op"], data["path"], data["shape"]) == (op, "vectorized", [6])
    assert plan == calls.invoke(
        lambda *a, **k: iterlab.plan(op, *a, **k), entry, operands, parameters
    )


@pytest.mark.parametrize("entry", calls.ELEMENTWISE, ids=calls.name_of)
def test_plain_operands_plan_as_all_others(entry: iterlab.OpEntry) -> None:
    """Note [Plain operands]: the short way comes to what the steps come to, which out= takes."""
    if entry.name == "copy":
        pytest.skip("keeps the strides of input where out= is not given")
    for name in entry.dtypes:
        dtype = torch.bool if entry.bool_inputs else getattr(torch, name)
        parameters = calls.parameter_sets(entry)[0]
        for shape in [(16,), (3, 4, 5), (2, 1, 7)]:
            operands = [torch.empty(shape, dtype=dtype, device="meta") for _ in entry.inputs]
            plain = iterlab.plan(entry.name, *operands, **parameters)
            out = torch.empty(shape, dtype=getattr(torch, plain.result_dtype), device="meta")
            assert plain == iterlab.plan(entry.name, *operands, **parameters, out=out)
