"""Every elementwise operator against its torch twin: values, dtypes, numbers, out= and in-place."""

from __future__ import annotations

import itertools
import re
import warnings
from typing import Any

import calls
import pytest
import samples
import torch
from calls import ELEMENTWISE, INPLACE, WITH_TWIN, function, invoke, name_of, outputs_of

import iterlab
from iterlab import OpEntry

pytestmark = calls.TORCH_WARNINGS

# Values of the others, and numbers in their places, are compared in test_unary_reference.py,
# test_binary_reference.py and test_ternary_reference.py, which know where torch is wrong or coarse.
FOUNDATION = {"exp", "leaky_relu", "add", "mul", "eq", "where", "to"}
COMPARED = [entry for entry in WITH_TWIN if entry.name in FOUNDATION]

# Bool differences, and quotients of integers.
ADVISED = {
    "sub",
    "rsub",
    "addcdiv",
    "deg2rad",
    "fmax",
    "fmin",
    "hardtanh",
    "heaviside",
    "isneginf",
    "isposinf",
    "maximum",
    "minimum",
    "neg",
    "positive",
    "rad2deg",
    "relu",
    "relu6",
}

NUMBERS = (3, 2.5, 0.1, True, 1.5 + 2j)
TENSOR_DTYPES = (
    torch.bool,
    torch.int8,
    torch.int64,
    torch.bfloat16,
    torch.float32,
    torch.complex64,
)


def required_parameters(entry: OpEntry) -> list[dict[str, Any]]:
    if entry.promotion == "to_argument":
        return [{"dtype": dtype} for dtype in samples.ALL_DTYPES]
    return calls.parameter_sets(entry)[:1]


def cartesian(entry: OpEntry, dtypes: tuple[torch.dtype, ...], device: str) -> list[torch.Tensor]:
    """All combinations of special values, and random ones after them."""
    operands = []
    n = len(entry.inputs)
    per_input = {1: 300, 2: 26, 3: 9}.get(n, 4)
    for i in range(n):
        dtype = torch.bool if calls.is_bool_input(entry, i) else dtypes[i % len(dtypes)]
        values = samples.full_range_values(dtype, per_input, seed=i)
        if dtype in samples.WIDE_UNSIGNED:  # the reference is computed in int64
            values = values.to(torch.int64).remainder(1 << 15).to(dtype)
        values = calls.without_traps(entry, i, values)
        repeats = [per_input if j == i else 1 for j in range(n)]
        operands.append(values.view(repeats).expand([per_input] * n).clone().to(device))
    return operands


def check_against_torch(
    entry: OpEntry, operands: list[Any], parameters: dict[str, Any], exact: bool = True
) -> None:
    """Same values, or the same kind of error.

    Not `exact`: with a factor such as alpha, torch fuses the sum in some of its loops only.
    """
    what = (entry.name, [getattr(x, "dtype", x) for x in operands], parameters)
    try:
        wanted = calls.expected(entry, operands, parameters)
    except (RuntimeError, TypeError) as error:
        with pytest.raises(type(error)):
            invoke(function(entry), entry, operands, parameters)
        return
    results = outputs_of(invoke(function(entry), entry, operands, parameters))
    for got, want in zip(results, wanted, strict=True):
        if exact or samples.is_integral(want.dtype):
            calls.assert_close(got, want, calls.ulps(entry, want.dtype), what)
        else:
            torch.testing.assert_close(got, want, equal_nan=True, msg=lambda m: f"{what}: {m}")
        assert got.stride() == want.stride(), what


def converts_out_of_range(source: torch.dtype, parameters: dict[str, Any]) -> bool:
    """Conversion of nan, inf or large floats to integers: C++ leaves the result undefined."""
    target = parameters.get("dtype")
    real = source.is_floating_point or source.is_complex
    return target is not None and real and samples.is_integral(target) and target != torch.bool


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=name_of)
def test_documented(entry: OpEntry) -> None:
    assert len(entry.doc) > 10 and entry.doc.endswith(".")
    assert any(name in entry.doc for name in entry.inputs)
    assert entry.dtypes
    assert len(entry.inputs) == len(set(entry.inputs))
    assert entry.torch_name is None or callable(calls.twin(entry))


# Names of arguments that are words of the texts as well.
WORDS = {"alpha", "dtype", "exponent", "max", "nan", "output", "scale", "value"}


def test_texts_name_arguments_that_there_are() -> None:
    arguments: dict[str, set[str]] = {}
    for entry in iterlab.op_table():
        packet = getattr(torch.ops.iterlab, entry.name)
        schemas = [getattr(packet, overload)._schema for overload in packet.overloads()]
        arguments[entry.name] = {one.name for schema in schemas for one in schema.arguments}
    known = set().union(*arguments.values()) - WORDS
    for entry in iterlab.op_table():
        named = known & set(re.findall(r"\w+", entry.doc))
        of_forward = {"input"} if entry.name.endswith("_backward") else set()
        assert named <= arguments[entry.name] | of_forward, (entry.name, entry.doc)


@pytest.mark.parametrize("entry", COMPARED, ids=name_of)
def test_special_values_of_every_dtype(entry: OpEntry, device: str) -> None:
    for dtype in calls.input_dtypes(entry):
        for parameters in required_parameters(entry):
            operands = cartesian(entry, (dtype,), device)
            if converts_out_of_range(dtype, parameters):
                operands = [samples.ordinary_values(dtype, 300).to(device)]
            check_against_torch(entry, operands, parameters)


@pytest.mark.parametrize("entry", COMPARED, ids=name_of)
def test_ordinary_values_of_every_dtype_and_mix(entry: OpEntry, device: str) -> None:
    for dtypes in calls.dtype_mixes(entry):
        draws = calls.draws_of(entry, dtypes, device)
        for parameters in required_parameters(entry):
            check_against_torch(entry, [draw(70) for draw in draws], parameters)
        for parameters in calls.parameter_sets(entry)[1:]:
            check_against_torch(entry, [draw(70) for draw in draws], parameters, exact=False)
        if len(dtypes) == 1 or dtypes[0] in (torch.float16, torch.bfloat16):
            continue
        for parameters in required_parameters(entry):  # a zero-dim operand is weaker
            operands = [draws[0](70), *(draw(1)[0] for draw in draws[1:])]
            check_against_torch(entry, operands, parameters)


@pytest.mark.parametrize("entry", COMPARED, ids=name_of)
def test_zero_dim_operands_beside_half_types(entry: OpEntry, device: str) -> None:
    if len(calls.promoted(entry, entry.inputs)) < 2:
        return
    for dtype in (torch.float16, torch.bfloat16):
        for other in (torch.float32, torch.float64, torch.int32):
            draws = calls.draws_of(entry, (dtype, other), device)
            operands = [draw(70) for draw in draws]
            dtypes = [operand.dtype for operand in operands]
            operands[-1] = torch.tensor(0.6180339887498949, dtype=torch.float64).to(other)
            if (
                dtypes.index(dtype) == len(operands) - 1
                or calls.common_dtype(calls.promoted(entry, operands)) != dtype
            ):
                operands = [
                    x.to(dtype) if x.is_floating_point() and x.dim() else x for x in operands
                ]
            wanted = calls.expected_of_half(entry, operands, {})
            for got, want in zip(outputs_of(function(entry)(*operands)), wanted, strict=True):
                calls.assert_close(got, want, calls.ulps(entry), (dtype, other))


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=name_of)
def test_dtypes_outside_the_table_are_refused(entry: OpEntry, device: str) -> None:
    for dtype in set(samples.ALL_DTYPES) - set(calls.input_dtypes(entry)):
        operands = [
            torch.zeros(3, dtype=torch.bool if calls.is_bool_input(entry, i) else dtype)
            for i in range(len(entry.inputs))
        ]
        # Dtypes that ATen itself refuses with a word of advice raise what it raises there.
        error = RuntimeError if entry.name in ADVISED else NotImplementedError
        with pytest.raises(error, match=rf"^iterlab::{entry.name}: expected .*, got "):
            invoke(function(entry), entry, operands, calls.parameter_sets(entry)[0])


def as_reference(entry: OpEntry, operands: list[Any]) -> list[Any]:
    """Numbers as full tensors of the common dtype, for twins that take tensors alone."""
    common = calls.common_dtype(calls.promoted(entry, operands))
    return [x if isinstance(x, torch.Tensor) else torch.tensor(x, dtype=common) for x in operands]


@pytest.mark.parametrize("entry", COMPARED, ids=name_of)
def test_numbers_as_operands(entry: OpEntry, device: str) -> None:
    """Every promoted operand may be a Python number; it is the weakest in promotion."""
    places = [i for i in range(len(entry.inputs)) if entry.promoted_inputs >> i & 1]
    if len(places) < 2:
        return
    for count in range(1, len(places) + 1):
        for numbered in itertools.combinations(places, count):
            for number, dtype in itertools.product(NUMBERS, TENSOR_DTYPES):
                operands: list[Any] = [d(40) for d in calls.draws_of(entry, (dtype,), device)]
                for i in numbered:
                    operands[i] = number
                common = calls.common_dtype(calls.promoted(entry, operands))
                if samples.short_name(common) not in entry.dtypes:
                    continue
                if common in (torch.float16, torch.bfloat16):
                    wanted = calls.expected_of_half(entry, operands, {})
                else:
                    wanted = calls.expected(entry, as_reference(entry, operands), {})
                results = outputs_of(function(entry)(*operands))
                for got, want in zip(results, wanted, strict=True):
                    dtype = calls.result_dtype(entry, operands, {})
                    what = (entry.name, operands)
                    calls.assert_close(got, want.to(dtype), calls.ulps(entry, dtype), what)


@pytest.mark.parametrize("default", [torch.float64, torch.float32, torch.bfloat16], ids=name_of)
@pytest.mark.parametrize("entry", COMPARED, ids=name_of)
def test_default_dtype_decides_for_numbers(
    entry: OpEntry, default: torch.dtype, device: str
) -> None:
    torch.set_default_dtype(default)
    dtype = torch.int32 if torch.int32 in calls.input_dtypes(entry) else torch.float16
    operands: list[Any] = [draw(5) for draw in calls.draws_of(entry, (dtype,), device)]
    if entry.promoted_inputs & (entry.promoted_inputs - 1):
        operands[-1] = 2.5
    parameters = calls.parameter_sets(entry)[0]
    wanted = invoke(calls.twin(entry), entry, operands, parameters)
    got = invoke(function(entry), entry, operands, parameters)
    assert [t.dtype for t in outputs_of(got)] == [t.dtype for t in outputs_of(wanted)]


def plain_call(
    entry: OpEntry, device: str, shape: tuple[int, ...] = (6, 7), dtype: torch.dtype | None = None
) -> tuple[list[torch.Tensor], dict[str, Any], torch.Tensor]:
    """Ordinary contiguous operands, parameters, and the result."""
    chosen = dtype or calls.input_dtypes(entry)[0]
    if dtype is None and torch.float32 in calls.input_dtypes(entry):
        chosen = torch.float32
    numel = torch.Size(shape).numel()
    draws = calls.draws_of(entry, (chosen,), device)
    operands = [draw(numel).view(shape) for draw in draws]
    parameters = calls.parameter_sets(entry)[0]
    return operands, parameters, outputs_of(invoke(function(entry), entry, operands, parameters))[0]


OUT = [entry for entry in ELEMENTWISE if "out" in entry.variants]


@pytest.mark.parametrize("entry", OUT, ids=name_of)
def test_out_is_resized(entry: OpEntry, device: str, capfd: pytest.CaptureFixture[str]) -> None:
    operands, parameters, want = plain_call(entry, device)
    empty = torch.empty(0, dtype=want.dtype, device=device)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert invoke(function(entry), entry, operands, parameters, out=empty) is empty
    assert not caught, "an empty out= is resized without a warning"
    calls.assert_bitwise(empty, want)
    assert empty.stride() == want.stride()
    wrong = torch.empty((3, 5), dtype=want.dtype, device=device)
    capfd.readouterr()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        invoke(function(entry), entry, operands, parameters, out=wrong)
    # Calls by way of torch.ops warn on stderr, as those of aten do.
    assert "was resized" in capfd.readouterr().err + "".join(str(w.message) for w in caught)
    calls.assert_bitwise(wrong, want)
    if len(entry.inputs) == 1:  # resized in the layout of the inputs
        transposed = torch.empty(0, dtype=want.dtype, device=device)
        flipped = [operand.t() for operand in operands]
        invoke(function(entry), entry, flipped, parameters, out=transposed)
        calls.assert_bitwise(transposed, want.t())
        assert transposed.stride() == want.t().stride()


@pytest.mark.parametrize("entry", OUT, ids=name_of)
def test_out_of_another_dtype(entry: OpEntry, device: str) -> None:
    for source in (torch.float32, torch.int32, torch.bool):
        if source not in calls.input_dtypes(entry):
            continue
        operands, parameters, want = plain_call(entry, device, dtype=source)
        for dtype in samples.ALL_DTYPES:
            out = torch.zeros(want.shape, dtype=dtype, device=device)
            if torch.can_cast(want.dtype, dtype):
                invoke(function(entry), entry, operands, parameters, out=out)
                calls.assert_close(out, want.to(dtype), 0, (source, dtype))
                continue
            message = rf"^iterlab::{entry.name}: expected an output that can hold .*, got "
            with pytest.raises(RuntimeError, match=message):
                invoke(function(entry), entry, operands, parameters, out=out)
            assert not out.to(torch.complex128).any(), "an error must leave the output alone"


@pytest.mark.parametrize("entry", OUT, ids=name_of)
def test_out_may_be_an_input(entry: OpEntry, device: str) -> None:
    for which in range(len(entry.inputs)):
        if calls.is_bool_input(entry, which):
            continue
        operands, parameters, want = plain_call(entry, device)
        if operands[which].dtype != want.dtype:
            continue
        out = operands[which]
        address = out.data_ptr()
        assert invoke(function(entry), entry, operands, parameters, out=out) is out
        assert out.data_ptr() == address
        calls.assert_bitwise(out, want, which)


@pytest.mark.parametrize("entry", OUT, ids=name_of)
def test_out_given_decides_the_loop_but_not_the_values(entry: OpEntry, device: str) -> None:
    operands, parameters, want = plain_call(entry, device, (8, 9))
    out = torch.empty((9, 8), dtype=want.dtype, device=device).t()
    invoke(function(entry), entry, operands, parameters, out=out)
    calls.assert_bitwise(out, want)
    assert out.stride() == (1, 8)


@pytest.mark.parametrize("entry", INPLACE, ids=name_of)
def test_in_place(entry: OpEntry, device: str) -> None:
    for dtype in calls.input_dtypes(entry):
        operands, parameters, want = plain_call(entry, device, dtype=dtype)
        target = operands[0]
        call = function(entry, inplace=True)
        if not torch.can_cast(want.dtype, target.dtype):
            before = target.clone()
            with pytest.raises(RuntimeError, match="expected an output that can hold"):
                invoke(call, entry, operands, parameters)
            calls.assert_bitwise(target, before)
            continue
        if dtype.is_complex and want.is_floating_point():
            with pytest.raises(RuntimeError, match="its result is real"):
                invoke(call, entry, operands, parameters)
            continue
        version = target._version
        assert invoke(call, entry, operands, parameters) is target
        assert target._version == version + 1
        calls.assert_bitwise(target, want.to(dtype), dtype)


@pytest.mark.parametrize("entry", INPLACE, ids=name_of)
def test_in_place_on_a_strided_view_with_a_broadcast_operand(entry: OpEntry, device: str) -> None:
    operands, parameters, _ = plain_call(entry, device, (6, 8))
    whole = operands[0].clone()
    view = whole[:, ::2]
    small = [operand[:1, :4] for operand in operands[1:]]
    want = invoke(function(entry), entry, [view.clone(), *small], parameters)
    invoke(function(entry, inplace=True), entry, [view, *small], parameters)
    calls.assert_bitwise(view, want.to(view.dtype))
    calls.assert_bitwise(whole[:, 1::2], operands[0][:, 1::2])


@pytest.mark.parametrize("entry", INPLACE, ids=name_of)
def test_in_place_does_not_broadcast_its_target(entry: OpEntry, device: str) -> None:
    if len(entry.inputs) < 2:
        return
    operands, parameters, _ = plain_call(entry, device)
    target = operands[0][:1].clone()
    before = target.clone()
    with pytest.raises(RuntimeError, match=rf"^iterlab::{entry.name}: expected an in-place"):
        invoke(function(entry, inplace=True), entry, [target, *operands[1:]], parameters)
    calls.assert_bitwise(target, before)


def test_unsigned_arithmetic_wraps(device: str) -> None:
    """torch has no arithmetic on uint16, uint32 and uint64: modulo two to the width."""
    for dtype in samples.WIDE_UNSIGNED:
        modulus = torch.iinfo(dtype).max + 1
        values = [0, 1, 2, 3, 1000, modulus // 2, modulus - 1, modulus - 2, modulus // 3]
        a = samples.from_integers([x for x in values for _ in values], dtype).to(device)
        b = samples.from_integers(values * len(values), dtype).to(device)
        pairs = [(x, y) for x in values for y in values]
        assert iterlab.__name__ and a.numel() == len(pairs)
        added = torch.ops.iterlab.add(a, b, alpha=3).cpu().numpy().tolist()
        assert added == [(x + 3 * y) % modulus for x, y in pairs]
        multiplied = torch.ops.iterlab.mul(a, b).cpu().numpy().tolist()
        assert multiplied == [x * y % modulus for x, y in pairs]
