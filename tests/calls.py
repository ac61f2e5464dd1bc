"""Calls of any operator of the table: overloads, sample arguments, torch twin, comparison."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import samples
import torch

import iterlab
from iterlab import OpEntry, Parameter

# Operators with an operand that is one value have tests of their own: test_ternary_reference.py.
ELEMENTWISE = [
    entry for entry in iterlab.op_table() if entry.kind == "elementwise" and not entry.number_inputs
]
# What torch says of its own conversions, of complex32, and of what its forward mode imports.
TORCH_WARNINGS = [
    pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Casting complex values to real discards:UserWarning"),
    pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental:UserWarning"),
]

# By name: max and min are in the table once for each of their schemas.
REDUCTIONS = list(
    {entry.name: entry for entry in iterlab.op_table() if entry.kind == "reduction"}.values()
)
INPLACE = [entry for entry in ELEMENTWISE if "inplace" in entry.variants]
WITH_TWIN = [entry for entry in ELEMENTWISE if entry.torch_name is not None]

# Distance to torch in units in the last place. An operator that computes in integers too is taken
# to be exact; another one, to follow torch's vector mathematics within DEFAULT_ULPS. Those listed
# are further away: torch contracts products and sums where its compiler likes to, calls MKL for
# some, and rounds half types at every step of others.
DEFAULT_ULPS = 2
ULPS: dict[str, int] = dict.fromkeys(
    ["pow", "float_power", "ldexp", "asinh", "acosh", "sigmoid", "silu", "special_erfcx"], 4
)
ULPS |= dict.fromkeys(["i0", "special_i0e"], 8)
ULPS |= dict.fromkeys(
    ["erfinv", "special_ndtri", "special_i1", "special_i1e", "digamma", "lgamma", "_polygamma"], 16
)
ULPS |= dict.fromkeys(["igamma", "igammac"], 2048)

# Formulas that cancel: distance in units of eps of the dtype, at the scale of the operands.
CANCELS = {
    "addcdiv",
    "addcmul",
    "digamma",
    "elu_backward",
    "gelu",
    "gelu_backward",
    "lerp",
    "lgamma",
    "logaddexp",
    "logaddexp2",
    "logit",
    "mish",
    "mish_backward",
    "sigmoid_backward",
    "silu_backward",
    "softsign",
    "special_ndtr",
    "tanh_backward",
    "tanhshrink",
}
CANCELLED_EPS = 32


def ulps(entry: OpEntry, dtype: torch.dtype = torch.float32) -> int:
    """The tolerance for results of `dtype`.

    A complex product is a sum of products, which torch's own loops round in different ways
    (fused or not) by layout.
    """
    if dtype.is_complex and entry.promotion != "to_argument":
        return max(DEFAULT_ULPS, ULPS.get(entry.name, 0))
    return ULPS.get(entry.name, 0 if is_exact(entry) else DEFAULT_ULPS)


def is_exact(entry: OpEntry) -> bool:
    """Whether the operator computes in integers too, so that nothing in it is approximated."""
    return "int64" in entry.dtypes and not entry.promotion.startswith("int_to_float")


def name_of(value: object) -> str:
    """A test's id of an operator, layout or dtype."""
    if isinstance(value, torch.dtype):
        return samples.short_name(value)
    return str(getattr(value, "name", value))


def function(entry: OpEntry, inplace: bool = False) -> Callable[..., Any]:
    return getattr(torch.ops.iterlab, entry.name + "_" * inplace)  # type: ignore[no-any-return]


def overloads(entry: OpEntry) -> dict[str, torch._ops.OpOverload]:
    """Every registered overload, by "name.overload"."""
    found = {}
    for inplace in (False, True):
        packet = getattr(torch.ops.iterlab, entry.name + "_" * inplace, None)
        for overload in packet.overloads() if packet is not None else ():
            if not overload.startswith("other"):  # max and min of two tensors are no reductions
                found[f"{entry.name}{'_' * inplace}.{overload}"] = getattr(packet, overload)
    return found


def twin(entry: OpEntry) -> Callable[..., Any]:
    """The torch function with the same meaning."""
    if entry.promotion == "to_argument":
        return lambda tensor, dtype: tensor.to(dtype, copy=True)
    return operator.attrgetter(str(entry.torch_name))(torch)  # type: ignore[no-any-return]


def outputs_of(result: Any) -> tuple[torch.Tensor, ...]:
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


def input_dtypes(entry: OpEntry) -> list[torch.dtype]:
    """Dtypes that promoted inputs may have."""
    dtypes = [samples.dtype_of(name) for name in entry.dtypes]
    if entry.promotion.startswith("int_to_float") or entry.promotion == "float_to_bool":
        dtypes += [d for d in (torch.bool, *samples.INTEGERS) if d not in dtypes]
    if entry.promotion == "bool_to_int":
        dtypes.append(torch.bool)
    return dtypes


def usual_dtype(entry: OpEntry) -> torch.dtype:
    """One that the operator computes: float32 where it can."""
    known = input_dtypes(entry)
    return next((d for d in (torch.float32, torch.int64, torch.bool) if d in known), known[0])


def is_bool_input(entry: OpEntry, i: int) -> bool:
    return bool(entry.bool_inputs >> i & 1)


# A value that a required parameter gets, and one that differs from every usual default.
REQUIRED = {"scalar": 2, "alpha": 2, "float": 0.5, "optional_float": 0.5, "int": 1, "bool": True}
REQUIRED |= {"dtype": torch.float32}
OTHER = {"scalar": 0.75, "alpha": 3, "float": 0.25, "optional_float": 0.25, "int": 2}


# What schemas ask for that the table does not tell, or torch's where ours has a default, or some
# dtypes.
ALSO_REQUIRED: dict[str, dict[str, Any]] = {
    "logsumexp": {"dim": []},
    "hardtanh": {"min_val": 0},  # uint8 takes no negative bounds
    "leaky_relu_backward": {"self_is_result": False},
}


def other_values(parameter: Parameter) -> list[Any]:
    """Values beside the default."""
    if parameter.kind == "choice":
        return list(parameter.choices)
    if parameter.kind == "bool":
        return [parameter.default != "True"]
    return [OTHER[parameter.kind]] if parameter.kind in OTHER else []


def parameter_sets(entry: OpEntry) -> list[dict[str, Any]]:
    """Arguments that are not tensors: required ones alone, then each other value in turn."""
    required: dict[str, Any] = dict(ALSO_REQUIRED.get(entry.name, {}))
    for parameter in entry.parameters:
        if parameter.default is None:
            first = parameter.choices[0] if parameter.choices else None
            required[parameter.name] = REQUIRED.get(parameter.kind, first)
    sets = [required]
    for parameter in entry.parameters:
        sets += [required | {parameter.name: value} for value in other_values(parameter)]
    return sets


def invoke(
    call: Callable[..., Any],
    entry: OpEntry,
    operands: Sequence[Any],
    parameters: dict[str, Any],
    **more: Any,
) -> Any:
    positional, keywords, skipped = [], {}, False
    for parameter in entry.parameters:
        if parameter.name not in parameters:
            skipped = True
            continue
        if parameter.keyword_only or skipped:
            keywords[parameter.name] = parameters[parameter.name]
        else:
            positional.append(parameters[parameter.name])
    known = {parameter.name for parameter in entry.parameters}
    keywords |= {name: value for name, value in parameters.items() if name not in known}
    return call(*operands, *positional, **(keywords | more))


# Operators that are defined on numbers below 1 alone, or on those above.
BELOW_ONE = {"asin", "acos", "atanh", "erfinv", "logit", "logit_backward", "special_ndtri"}
ABOVE_ONE = {"acosh", "special_zeta"}


def in_domain(entry: OpEntry, drawn: torch.Tensor) -> torch.Tensor:
    """Ordinary floats, from 0.25 to 2, moved to where the operator is defined."""
    if not drawn.dtype.is_floating_point or drawn.element_size() == 1:
        return drawn
    if entry.name in BELOW_ONE:
        return drawn * 0.45
    return drawn + 1 if entry.name in ABOVE_ONE else drawn


# Operators that have, as torch's, no derivative in their first operand.
NO_GRADIENT_OF_FIRST = {"igamma", "igammac", "special_zeta"}

# Operators that divide integers: a divisor of 0 raises, and with -1, or the lowest number in lcm,
# ATen's process ends.
DIVIDES = {"floor_divide", "remainder", "fmod", "div"}


def without_traps(entry: OpEntry, i: int, values: torch.Tensor) -> torch.Tensor:
    """The values of operand i that integer division is tested with elsewhere, replaced by 1."""
    if values.dtype not in samples.INTEGERS:
        return values
    wide = values.to(torch.int64)
    trapped = torch.zeros(values.shape, dtype=torch.bool)
    if entry.name in DIVIDES and i == 1:
        trapped = (wide == 0) | (wide == -1)
    if entry.name == "lcm":
        trapped = wide == torch.iinfo(values.dtype).min
    return torch.where(trapped, 1, wide).to(values.dtype)


def draws_of(
    entry: OpEntry, dtypes: Sequence[torch.dtype], device: str, ordinary: bool = True, seed: int = 1
) -> list[Callable[[int], torch.Tensor]]:
    """For each operand, what draws its values."""

    def draw(i: int) -> Callable[[int], torch.Tensor]:
        dtype = torch.bool if is_bool_input(entry, i) else dtypes[i % len(dtypes)]
        values = samples.ordinary_values if ordinary else samples.full_range_values
        inside = in_domain if ordinary else lambda _, drawn: drawn
        return lambda count: without_traps(
            entry, i, inside(entry, values(dtype, count, seed + i))
        ).to(device)

    return [draw(i) for i in range(len(entry.inputs))]


def promoted(entry: OpEntry, operands: Sequence[Any]) -> list[Any]:
    return [operand for i, operand in enumerate(operands) if entry.promoted_inputs >> i & 1]


def common_dtype(values: Sequence[Any]) -> torch.dtype:
    """torch.result_type of any number of operands."""
    ranked: list[torch.dtype | None] = [None, None, None]  # dimensioned, zero-dim, number
    for value in values:
        tensor = isinstance(value, torch.Tensor)
        rank = 2 if not tensor else 0 if value.dim() else 1
        dtype = value.dtype if tensor else torch.result_type(value, value)
        known = ranked[rank]
        ranked[rank] = dtype if known is None else torch.promote_types(known, dtype)
    stand_ins: list[Any] = []
    for rank, dtype in enumerate(ranked):
        if dtype is not None:
            zero = torch.zeros((1,) if rank == 0 else (), dtype=dtype)
            stand_ins.append(zero if rank < 2 else zero.item())
    result = stand_ins[-1]
    for value in reversed(stand_ins[:-1]):
        kept = torch.result_type(value, result)
        result = torch.zeros(value.shape, dtype=kept)
    return torch.result_type(result, result)


def result_dtype(
    entry: OpEntry, operands: Sequence[Any], parameters: dict[str, Any]
) -> torch.dtype:
    """The dtype that the operator's promotion kind gives."""
    if entry.promotion == "to_argument":
        return parameters["dtype"]  # type: ignore[no-any-return]
    common = common_dtype(promoted(entry, operands))
    rounds = entry.rounding is not None and parameters.get(entry.rounding) is not None
    if entry.promotion.startswith("int_to_float") and samples.is_integral(common) and not rounds:
        return torch.get_default_dtype()
    if entry.promotion == "always_int":
        return torch.int32
    if entry.promotion == "bool_to_int" and common == torch.bool:
        return torch.int64
    if entry.promotion in ("always_bool", "float_to_bool"):
        return torch.bool
    if entry.promotion.endswith("complex_to_real"):
        return samples.REAL_OF.get(common, common)
    return common


def widened(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(samples.WIDER.get(value.dtype, value.dtype))
    return value


def expected(
    entry: OpEntry, operands: Sequence[Any], parameters: dict[str, Any]
) -> tuple[torch.Tensor, ...]:
    """What torch says; where torch lacks the dtype, what it says in a wider one, cast back."""
    on_gpu = any(isinstance(x, torch.Tensor) and x.is_cuda and x.is_complex() for x in operands)
    if on_gpu and entry.name != "sinc" and (entry.name in ULPS or not is_exact(entry)):
        return expected_of_complex(entry, operands, parameters)
    try:
        return outputs_of(invoke(twin(entry), entry, operands, parameters))
    except (NotImplementedError, RuntimeError) as error:
        if "not implemented for" not in str(error) and not isinstance(error, NotImplementedError):
            raise
    wide = invoke(twin(entry), entry, [widened(operand) for operand in operands], parameters)
    dtype = result_dtype(entry, operands, parameters)
    return tuple(output.to(dtype) for output in outputs_of(wide))


def expected_of_complex(
    entry: OpEntry, operands: Sequence[Any], parameters: dict[str, Any]
) -> tuple[torch.Tensor, ...]:
    """What torch says on the CPU in complex128: on the GPU it has formulas that cancel."""
    device = next(x.device for x in operands if isinstance(x, torch.Tensor) and x.is_cuda)
    here = [samples.on_cpu(x) if isinstance(x, torch.Tensor) else x for x in operands]
    widest = [samples.widest(x) if isinstance(x, torch.Tensor) else x for x in here]
    truth = outputs_of(invoke(twin(entry), entry, widest, parameters))
    return tuple(x.to(result_dtype(entry, operands, parameters)).to(device) for x in truth)


def expected_of_half(
    entry: OpEntry, operands: Sequence[Any], parameters: dict[str, Any]
) -> tuple[torch.Tensor, ...]:
    """The result in float, rounded once, of operands that are rounded to the half type first:
    zero-dim ones and numbers too, but where ATen's kernel (on a GPU, any) takes them unrounded.
    """
    common, wide = common_dtype(promoted(entry, operands)), samples.WIDE_INPUTS.get(entry.name)
    on_gpu = any(isinstance(x, torch.Tensor) and x.is_cuda for x in operands)

    def value(i: int, operand: Any) -> torch.Tensor:
        tensor = torch.as_tensor(operand)
        if is_bool_input(entry, i):
            return tensor
        is_wide = tensor.dim() == 0 and (i == wide or (on_gpu and not tensor.is_cuda))
        rounded = entry.promoted_inputs >> i & 1 and not is_wide
        return (tensor.to(common) if rounded else tensor).float()

    floats = [value(i, operand) for i, operand in enumerate(operands)]
    dtype = result_dtype(entry, operands, parameters)
    return tuple(t.to(dtype) for t in outputs_of(invoke(twin(entry), entry, floats, parameters)))


def reduce(
    entry: OpEntry, x: torch.Tensor, dim: Any = None, keepdim: bool = False, **more: Any
) -> Any:
    """Call a reduction by keywords: schemas differ in where dim stands, and some must have it."""
    over = {"dim": dim, "keepdim": keepdim} if dim is not None or keepdim else {}
    return invoke(function(entry), entry, [x], parameter_sets(entry)[0] | over, **more)


def takes(entry: OpEntry, dtypes: Sequence[torch.dtype]) -> bool:
    """Whether the operator takes inputs of these dtypes together; some want one dtype alone."""
    meta = [draw(2).to("meta") for draw in draws_of(entry, dtypes, "cpu")]
    try:
        invoke(function(entry), entry, meta, parameter_sets(entry)[0])
    except RuntimeError as error:
        if "of one dtype" in str(error):
            return False
        raise
    return True


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as integers, every nan as one: which of two nans an addition gives is the
    compiler's choice, as it is in ATen.
    """
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor)
    if tensor.is_floating_point():
        if tensor.element_size() > 1:
            tensor = tensor.where(~tensor.isnan(), torch.nan)
        widths = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
        return tensor.view(widths[tensor.element_size()])
    return tensor


def isnan(tensor: torch.Tensor) -> torch.Tensor:
    real = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
    if not real.is_floating_point():
        return torch.zeros(real.shape, dtype=torch.bool, device=tensor.device)
    wide = real.to(torch.float64 if real.dtype == torch.float64 else torch.float32)
    return torch.isnan(wide)


def ulp_distance(got: torch.Tensor, want: torch.Tensor) -> torch.Tensor:
    """How many representable numbers lie between; of real floats other than float8."""

    def ordered(tensor: torch.Tensor) -> torch.Tensor:
        raw = bits(tensor)
        lowest = torch.iinfo(raw.dtype).min
        signed = raw.to(torch.int64)
        return torch.where(signed < 0, lowest - signed, signed)

    a, b = ordered(got), ordered(want)
    apart = (a < 0) != (b < 0)
    return torch.where(apart, a.double().abs() + b.double().abs(), (a - b).abs().double())


def assert_bitwise(got: torch.Tensor, want: torch.Tensor, what: object = "") -> None:
    """Same dtype, shape and bits."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape), what
    if not torch.equal(bits(got), bits(want)):
        where = (bits(got) != bits(want)).nonzero()[:3].tolist()
        raise AssertionError(f"{what}: bits differ at {where}: got {got}, want {want}")


def assert_close(got: torch.Tensor, want: torch.Tensor, tolerance: int, what: object = "") -> None:
    """Same dtype, shape and nans; values within `tolerance` units in the last place.

    With a tolerance, complex numbers are compared as a whole: by the size of their difference.
    """
    assert (got.dtype, got.shape) == (want.dtype, want.shape), (what, got, want)
    got, want = got.detach().resolve_conj(), want.detach().resolve_conj()
    nans = isnan(want)
    assert torch.equal(isnan(got), nans), f"{what}: nan in other places: got {got}, want {want}"
    if not want.is_floating_point() and not want.is_complex():
        assert torch.equal(got, want), f"{what}: got {got}, want {want}"
    elif tolerance == 0 or want.element_size() == 1:
        same = (bits(got) == bits(want)) | nans
        assert same.all(), f"{what}: at {(~same).nonzero()[:3].tolist()}: got {got}, want {want}"
    elif want.is_complex():
        eps = torch.finfo(want.dtype).eps
        wide = torch.complex128
        torch.testing.assert_close(
            got.to(wide),
            want.to(wide),
            rtol=2 * tolerance * eps,
            atol=torch.finfo(want.dtype).tiny,
            equal_nan=True,
        )
    else:
        distance = torch.where(nans, 0.0, ulp_distance(got, want))
        worst = float(distance.max()) if distance.numel() else 0.0
        assert worst <= tolerance, (
            f"{what}: {worst} ulp at {int(distance.argmax())}: got {got}, want {want}"
        )


def assert_near(entry: OpEntry, got: torch.Tensor, want: torch.Tensor, what: object = "") -> None:
    """As near to torch as the operator's formula allows, on ordinary values."""
    if entry.name not in CANCELS or samples.is_integral(want.dtype) or want.element_size() == 1:
        both = 2 if want.is_cuda and entry.name == "special_erfcx" else 1  # CUDA's own errs too
        assert_close(got, want, both * ulps(entry, want.dtype), what)
        return
    assert (got.dtype, got.shape) == (want.dtype, want.shape), (what, got, want)
    real = samples.REAL_OF.get(want.dtype, want.dtype)
    tolerance = CANCELLED_EPS * torch.finfo(real).eps
    wide = torch.complex128 if want.is_complex() else torch.float64
    torch.testing.assert_close(
        got.to(wide), want.to(wide), rtol=tolerance, atol=tolerance, equal_nan=True
    )


def dtype_mixes(entry: OpEntry) -> Iterator[tuple[torch.dtype, ...]]:
    """Dtypes of the promoted inputs: each alone, and where there are several, every mix."""
    dtypes = input_dtypes(entry)
    for dtype in dtypes:
        yield (dtype,)
    if len(promoted(entry, entry.inputs)) > 1:
        for first in dtypes:
            for second in dtypes:
                if first == second:
                    continue
                try:
                    torch.promote_types(first, second)
                except RuntimeError:
                    continue
                yield (first, second)


def _representatives() -> set[str]:
    """The first operator of each signature: layouts and variants are the same code for the rest."""
    first: dict[object, str] = {}
    for entry in iterlab.op_table():
        kinds = tuple(parameter.kind for parameter in entry.parameters)
        signature = (entry.kind, len(entry.inputs), entry.promotion, entry.promoted_inputs, kinds)
        first.setdefault(signature, entry.name)
    return set(first.values())


REPRESENTATIVES = _representatives()


def slow_unless_representative(
    entry: OpEntry, *more: Any, quick: bool = False, id: str | None = None
) -> Any:
    """A pytest parameter set. `make test` runs representatives and what is `quick`."""
    thorough = entry.name not in REPRESENTATIVES and not quick
    return pytest.param(entry, *more, marks=[pytest.mark.slow] if thorough else [], id=id)
