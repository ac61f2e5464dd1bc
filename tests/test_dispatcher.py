"""Operators as citizens of the dispatcher: schemas, tags, Meta, FakeTensor, opcheck."""

from __future__ import annotations

import itertools
from typing import Any

import calls
import layouts
import pytest
import sample_calls
import samples
import torch
from calls import ELEMENTWISE, REDUCTIONS, function, invoke, name_of, outputs_of
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from iterlab import OpEntry

pytestmark = calls.TORCH_WARNINGS

ALL = [*ELEMENTWISE, *REDUCTIONS]
OVERLOADS = [
    (entry, name, overload) for entry in ALL for name, overload in calls.overloads(entry).items()
]
HAS_OUT_TAG = hasattr(torch.Tag, "out")
# Overloads of reductions that torch has too: with an index, and by other names of arguments.
SPELLINGS = dict.fromkeys(("max", "min"), ("dim",))
SPELLINGS |= dict.fromkeys(("var", "std", "var_mean", "std_mean"), ("dim", "unbiased"))
SPELLINGS["norm"] = ("ord", "name")


EVERY_OVERLOAD = [pytest.param(entry, overload, id=name) for entry, name, overload in OVERLOADS]


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=name_of)
def test_a_tensors_place_is_tried_before_a_numbers(entry: OpEntry) -> None:
    """Overloads with out= come last; with parameters, each follows its functional one."""
    packet = getattr(torch.ops.iterlab, entry.name)
    names = [name for name in packet.overloads() if not name.startswith("inplace")]
    out = [name == "out" or name.endswith("_out") for name in names]
    pairs = out.count(True)
    assert out == ([False, True] * pairs if entry.parameters else [False] * pairs + [True] * pairs)
    schemas = [
        getattr(packet, n)._schema for n, is_out in zip(names, out, strict=True) if not is_out
    ]
    wants_number = [
        [str(argument.type) == "number" for argument in schema.arguments[: len(entry.inputs)]]
        for schema in schemas
    ]
    assert wants_number == sorted(wants_number)


def test_numbers_of_masked_fill_and_fill_are_not_read_from_a_tensor() -> None:
    with FakeTensorMode():
        x = torch.randn(3, 4)
        assert torch.ops.iterlab.masked_fill(x, x > 0, -1).shape == (3, 4)
        assert torch.ops.iterlab.fill(x, 2.5).shape == (3, 4)


@pytest.mark.parametrize("entry", ALL, ids=name_of)
def test_overloads_follow_from_the_table(entry: OpEntry) -> None:
    found = set(calls.overloads(entry))
    wanted = {f"{entry.name}.default", f"{entry.name}.out"}
    if "inplace" in entry.variants:
        wanted.add(f"{entry.name}_.default")
    for name in SPELLINGS.get(entry.name, ()):
        wanted |= {f"{entry.name}.{name}", f"{entry.name}.{name}_out"}
    places = [i for i in range(len(entry.inputs)) if entry.promoted_inputs >> i & 1]
    if entry.kind == "elementwise" and len(places) > 1:
        for count in range(1, len(places) + 1):
            for chosen in itertools.combinations(places, count):
                suffix = "Scalar" + "".join(f"_{entry.inputs[i]}" for i in chosen)
                wanted |= {f"{entry.name}.{suffix}", f"{entry.name}.{suffix}_out"}
                if "inplace" in entry.variants and 0 not in chosen:
                    wanted.add(f"{entry.name}_.{suffix}")
    assert found == wanted


@pytest.mark.parametrize(("entry", "overload"), EVERY_OVERLOAD)
def test_schema(entry: OpEntry, overload: torch._ops.OpOverload) -> None:
    schema = overload._schema
    arguments = {argument.name: argument for argument in schema.arguments}
    assert not {"self", "self_"} & set(arguments)
    assert list(arguments)[: len(entry.inputs)] == list(entry.inputs)
    for parameter in entry.parameters:
        assert arguments[parameter.name].kwarg_only == parameter.keyword_only
        assert arguments[parameter.name].has_default_value() == (parameter.default is not None)
    written = [a.name for a in schema.arguments if a.alias_info and a.alias_info.is_write]
    if overload._overloadname.endswith("out"):
        assert len(written) == len(schema.returns)
        assert all(arguments[name].kwarg_only for name in written)
    elif schema.name.endswith("_"):
        assert written == [entry.inputs[0]]
    else:
        assert written == []
    assert all((r.alias_info is not None) == bool(written) for r in schema.returns)
    assert schema.is_mutable == bool(written)


@pytest.mark.parametrize(("entry", "overload"), EVERY_OVERLOAD)
def test_tags(entry: OpEntry, overload: torch._ops.OpOverload) -> None:
    tags = set(overload.tags)
    kind = torch.Tag.pointwise if entry.kind == "elementwise" else torch.Tag.reduction
    wanted = {kind, torch.Tag.pt2_compliant_tag, torch.Tag.flexible_layout}
    # Note [Tag::out]: where Inductor does right by it.
    arguments = overload._schema.arguments
    by_keyword = any(a.kwarg_only and a.alias_info is None for a in arguments)
    good = tuple(map(int, torch.__version__.split(".")[:2])) >= (2, 14) and not by_keyword
    if good and overload._overloadname.endswith("out"):
        wanted.add(torch.Tag.out)
    if HAS_OUT_TAG and overload._schema.name.endswith("_"):
        wanted.add(torch.Tag.inplace)
    assert tags == wanted


@pytest.mark.parametrize("entry", ALL, ids=name_of)
def test_out_variant_is_found_for_the_functional_one(entry: OpEntry) -> None:
    out_variant = pytest.importorskip("torch._library._out_variant")
    packet = function(entry)
    if getattr(torch.Tag, "out", None) not in packet.out.tags:
        pytest.skip("Note [Tag::out]")
    assert out_variant.to_out_variant(packet.default) is packet.out


def sample_of(
    entry: OpEntry, overload: torch._ops.OpOverload, device: str, grad: bool = False
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of any overload, by its schema."""
    dtype = calls.usual_dtype(entry)
    # A number is of the widest dtype of its kind, and lerp takes operands of one dtype.
    if entry.name == "lerp" and "Scalar" in overload._overloadname:
        dtype = torch.float64
    inplace = overload._schema.name.endswith("_")
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    draws = iter(calls.draws_of(entry, (dtype,), device))
    for i, argument in enumerate(overload._schema.arguments[: len(entry.inputs)]):
        draw = next(draws)
        if str(argument.type) != "Tensor":
            whole = not dtype.is_floating_point or entry.name in calls.ABOVE_ONE
            args.append(2 if whole else 0.5)
            continue
        tensor = draw(12).view(3, 4)
        constant = i == 0 and (inplace or entry.name in calls.NO_GRADIENT_OF_FIRST)
        if grad and tensor.is_floating_point() and not constant:
            tensor.requires_grad_()
        args.append(tensor)
    kwargs |= calls.parameter_sets(entry)[0]
    if entry.kind == "reduction":
        takes = {argument.name for argument in overload._schema.arguments}
        values = {"dim": [1], "keepdim": True, "unbiased": False, "ord": 3}
        values |= {"p": "fro"} if overload._overloadname.startswith("name") else {}
        kwargs = {k: v for k, v in values.items() if k in takes}
    if overload._overloadname.endswith("out"):
        functional = overload._overloadname.removesuffix("out").removesuffix("_") or "default"
        plain = [a.detach() if isinstance(a, torch.Tensor) else a for a in args]
        want = getattr(function(entry), functional)(*plain, **kwargs)
        names = [a.name for a in overload._schema.arguments if a.alias_info is not None]
        kwargs |= {n: torch.empty_like(w) for n, w in zip(names, outputs_of(want), strict=True)}
    return args, kwargs


def opcheck_cases() -> list[Any]:
    """Overloads with number operands differ from the others by their schema alone."""
    cases = []
    for entry, name, overload in OVERLOADS:
        marks = []
        if "Scalar" in overload._overloadname and entry.name not in calls.REPRESENTATIVES:
            marks = [pytest.mark.slow]
        cases.append(pytest.param(entry, overload, id=name, marks=marks))
    return cases


@pytest.mark.parametrize(("entry", "overload"), opcheck_cases())
def test_opcheck(entry: OpEntry, overload: torch._ops.OpOverload, device: str) -> None:
    has_grad = not overload._overloadname.endswith("out") and sample_calls.is_differentiable(entry)
    args, kwargs = sample_of(entry, overload, device, grad=has_grad)
    results = torch.library.opcheck(overload, args, kwargs)
    assert set(results.values()) == {"SUCCESS"}, results


@pytest.fixture
def texts(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that were made of tensors."""
    made: list[str] = []
    monkeypatch.setattr(torch.Tensor, "__repr__", lambda _: made.append("a tensor") or made[-1])
    return made


@pytest.mark.parametrize(("entry", "overload"), EVERY_OVERLOAD)
def test_no_overload_is_found_by_way_of_a_tensors_text(
    entry: OpEntry,
    overload: torch._ops.OpOverload,
    device: str,
    texts: list[str],
) -> None:
    """Where a number is wanted and a tensor given, the error holds its elements as text: slow."""
    args, kwargs = sample_of(entry, overload, device)
    calls.function(entry, overload._schema.name.endswith("_"))(*args, **kwargs)
    assert not texts


@pytest.mark.parametrize("name", ["max", "min"])
def test_nor_are_the_larger_and_smaller_of_two(name: str, texts: list[str]) -> None:
    x, y, out = torch.rand(5), torch.rand(5), torch.empty(5)
    getattr(torch.ops.iterlab, name)(x, y)
    getattr(torch.ops.iterlab, name)(x, y, out=out)
    assert not texts


def assert_same_metadata(meta: torch.Tensor, real: torch.Tensor, what: object) -> None:
    got = (meta.dtype, tuple(meta.shape), tuple(meta.stride()))
    assert got == (real.dtype, tuple(real.shape), tuple(real.stride())), what


def meta_dtypes(entry: OpEntry) -> list[tuple[torch.dtype, ...]]:
    known = calls.input_dtypes(entry)
    wanted = [(torch.float32,), (torch.int32,), (torch.complex64,), (torch.bfloat16, torch.int64)]
    several = len(calls.promoted(entry, entry.inputs)) > 1
    return [
        w
        for w in wanted
        if set(w) <= set(known) and (len(w) == 1 or (several and calls.takes(entry, w)))
    ]


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=name_of)
def test_meta_is_the_plan_without_the_run(entry: OpEntry, device: str) -> None:
    parameters = calls.parameter_sets(entry)[0]
    for case, dtypes in itertools.product(layouts.CASES, meta_dtypes(entry)):
        real = case.make(calls.draws_of(entry, dtypes, device))
        meta = [
            torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device="meta") for t in real
        ]
        got = outputs_of(invoke(function(entry), entry, meta, parameters))
        want = outputs_of(invoke(function(entry), entry, real, parameters))
        for m, r in zip(got, want, strict=True):
            assert m.is_meta
            assert_same_metadata(m, r, (case.name, dtypes))


def hinted(tensor: torch.Tensor) -> tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]:
    def value(size: Any) -> int:
        return size if isinstance(size, int) else int(size.node.hint)

    return tensor.dtype, tuple(map(value, tensor.shape)), tuple(map(value, tensor.stride()))


def symbolic(mode: FakeTensorMode, tensor: torch.Tensor) -> torch.Tensor:
    """A fake of `tensor` whose sizes are unknown, but for those of one element."""
    dims = [DimDynamic.STATIC if size == 1 else DimDynamic.DYNAMIC for size in tensor.shape]
    context = StatelessSymbolicContext(dynamic_sizes=dims)
    return mode.from_tensor(tensor, symbolic_context=context)


@pytest.mark.parametrize(
    "entry", [calls.slow_unless_representative(e) for e in ELEMENTWISE], ids=name_of
)
def test_fake_tensors_of_dynamic_shape(entry: OpEntry, device: str) -> None:
    parameters = calls.parameter_sets(entry)[0]
    for case in layouts.CORE:
        real = case.make(calls.draws_of(entry, (calls.usual_dtype(entry),), device))
        mode = FakeTensorMode(shape_env=ShapeEnv())
        with mode:
            fakes = [symbolic(mode, tensor) for tensor in real]
            outputs = outputs_of(invoke(function(entry), entry, fakes, parameters))
        for got, want in zip(
            outputs, outputs_of(invoke(function(entry), entry, real, parameters)), strict=True
        ):
            assert hinted(got) == (want.dtype, tuple(want.shape), want.stride()), case.name
            dynamic = [isinstance(size, torch.SymInt) for size in got.shape]
            assert dynamic == [size != 1 for size in want.shape], case.name
            assert got.device == want.device


@pytest.mark.parametrize("entry", ALL, ids=name_of)
def test_unbacked_sizes(entry: OpEntry, device: str) -> None:
    """A size that no one knows: nothing is asked of it."""
    parameters = calls.parameter_sets(entry)[0]
    dtype = calls.usual_dtype(entry)
    env = ShapeEnv()
    with FakeTensorMode(shape_env=env):
        size = env.create_unbacked_symint()
        torch._check(size >= 0)
        operands = [
            torch.empty(
                size, 3, device=device, dtype=torch.bool if calls.is_bool_input(entry, i) else dtype
            )
            for i in range(len(entry.inputs))
        ]
        if entry.kind == "reduction":
            for result in outputs_of(calls.reduce(entry, operands[0], [1])):
                assert result.shape == (size,) and result.stride() == (1,)
            return
        (result,) = outputs_of(invoke(function(entry), entry, operands, parameters))
        assert result.shape == (size, 3)
        assert result.stride() == (3, 1)
        if "inplace" in entry.variants and result.dtype == dtype:
            target = torch.empty(size, 3, device=device, dtype=dtype)
            call = function(entry, inplace=True)
            assert invoke(call, entry, [target, *operands[1:]], parameters) is target


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=name_of)
def test_meta_out_is_resized(entry: OpEntry) -> None:
    parameters = calls.parameter_sets(entry)[0]
    dtype = calls.usual_dtype(entry)
    operands = [d(6).view(2, 3).to("meta") for d in calls.draws_of(entry, (dtype,), "cpu")]
    want = invoke(function(entry), entry, operands, parameters)
    out = torch.empty(0, dtype=want.dtype, device="meta")
    assert invoke(function(entry), entry, operands, parameters, out=out) is out
    assert_same_metadata(out, want, entry.name)


@pytest.mark.parametrize("entry", REDUCTIONS, ids=name_of)
def test_meta_of_reductions(entry: OpEntry, device: str) -> None:
    for shape in ((4, 5, 6), (3, 0, 2), (), (7,)):
        for dtype in calls.input_dtypes(entry):
            real = samples.ordinary_values(dtype, torch.Size(shape).numel()).view(shape).to(device)
            for dim, keepdim in itertools.product((None, *range(len(shape))), (False, True)):
                what = (shape, dtype, dim, keepdim)
                try:
                    want = outputs_of(calls.reduce(entry, real, dim, keepdim))
                except (IndexError, RuntimeError) as error:
                    with pytest.raises(type(error)):
                        calls.reduce(entry, real.to("meta"), dim, keepdim)
                    continue
                got = outputs_of(calls.reduce(entry, real.to("meta"), dim, keepdim))
                for m, r in zip(got, want, strict=True):
                    assert_same_metadata(m, r, what)
