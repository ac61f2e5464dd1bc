"""Unary operators, activations and their backward operators against torch.

Every dtype, special values, random values, all short sizes, parameters; gradients of first and
second order, forward mode.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import calls
import pytest
import samples
import torch
from torch.autograd import gradcheck, gradgradcheck

import iterlab
from iterlab import OpEntry

pytestmark = calls.TORCH_WARNINGS

Parameters = dict[str, Any]

# Parameters besides the defaults; of required ones, instead of them.
PARAMETERS: dict[str, list[Parameters]] = {
    "leaky_relu": [{}, {"negative_slope": 0.3}],
    "hardtanh": [{}, {"min_val": -2, "max_val": 3}],
    "threshold": [{"threshold": 1, "value": 20}],
    "elu": [{}, {"alpha": 1.5}],
    "celu": [{}, {"alpha": 2.5}],
    "gelu": [{}, {"approximate": "tanh"}],
    "softplus": [{}, {"beta": 2, "threshold": 3}],
    "hardshrink": [{}, {"lambd": 1.5}],
    "softshrink": [{}, {"lambd": 1.5}],
    "logit": [{}, {"eps": 0.1}],
    "round": [{}],
    "nan_to_num": [{}, {"nan": 2.0}, {"posinf": 5.0, "neginf": -3.5}],
    "_polygamma": [{"n": n} for n in range(4)],
    "gelu_backward": [{}, {"approximate": "tanh"}],
    "elu_backward": [{}],
    "softplus_backward": [{"beta": 1.0, "threshold": 20.0}, {"beta": 2, "threshold": 3}],
    "hardtanh_backward": [{"min_val": -1, "max_val": 1}],
    "hardshrink_backward": [{"lambd": 0.5}],
    "softshrink_backward": [{"lambd": 0.5}],
    "threshold_backward": [{"threshold": 0}, {"threshold": 1}],
    "leaky_relu_backward": [{"negative_slope": 0.01, "self_is_result": False}],
    "logit_backward": [{}, {"eps": 0.1}],
}

# Twins that torch keeps under another signature.
TWINS: dict[str, Callable[..., torch.Tensor]] = {
    "_prelu_kernel": torch.ops.aten._prelu_kernel,
    "_polygamma": lambda x, n: torch.polygamma(n, x),
    "_frexp_mantissa": lambda x: torch.frexp(x).mantissa,
    "_frexp_exponent": lambda x: torch.frexp(x).exponent,
    "elu_backward": lambda grad, x: torch.ops.aten.elu_backward(grad, 1, 1, 1, False, x),
    "logsigmoid_backward": lambda grad, x: torch.ops.aten.log_sigmoid_backward(
        grad, x, torch.ops.aten.log_sigmoid_forward(x)[1]
    ),
}

# Where torch is wrong, by operator: which inputs are left out. Reasons beside them.
LEFT_OUT: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    # torch makes nan of infinity, and infinity of the largest numbers
    "gelu": lambda x: x.abs() > torch.finfo(x.dtype).max / 4,
    # torch multiplies what it subtracts by one, which spreads nan from a part to the other
    "tanhshrink": lambda x: ~x.isfinite() if x.is_complex() else x != x,
    # torch takes the absolute value of integers as an integer, which overflows
    "softsign": lambda x: x == x if samples.is_integral(x.dtype) else x != x,
    # torch's last digits depend on the lane: nan in some, the gradient in others
    "elu_backward": lambda x: x.isnan(),
    # a torch bug: log(tiny imaginary part) at the branch point
    "acos": lambda x: x.abs() == 1 if x.is_complex() else x != x,
}
# torch's constant 1 / 6 is a float, for doubles too.
FLOAT_CONSTANT = {"hardsigmoid_backward"}


def is_mine(entry: OpEntry) -> bool:
    has_twin = entry.torch_name is not None or entry.name in TWINS
    is_backward = entry.name.endswith("_backward") or entry.name == "_prelu_kernel"
    plain = len(entry.inputs) == 1 and entry.promotion != "to_argument"
    return entry.kind == "elementwise" and has_twin and (plain or is_backward)


ENTRIES = [entry for entry in iterlab.op_table() if is_mine(entry)]
CASES = [
    pytest.param(entry, parameters, id=f"{entry.name}-{'-'.join(map(str, parameters))}")
    for entry in ENTRIES
    for parameters in PARAMETERS.get(entry.name, [{}])
]


def twin(entry: OpEntry) -> Callable[..., torch.Tensor]:
    if entry.name in TWINS:
        return TWINS[entry.name]
    assert entry.torch_name is not None
    return operator.attrgetter(entry.torch_name)(torch)  # type: ignore[no-any-return]


def operands(entry: OpEntry, dtype: torch.dtype, count: int) -> list[torch.Tensor]:
    """The value that decides comes last; gradients before it are ordinary."""
    values = samples.full_range_values(dtype, count, 3)
    if len(entry.inputs) == 1:
        return [values]
    return [samples.ordinary_values(dtype, count, 7), values]


def expected(
    entry: OpEntry, inputs: list[torch.Tensor], parameters: Parameters
) -> torch.Tensor | None:
    """torch's result; of half types, that in float, rounded once. None where torch has none."""
    dtype = inputs[-1].dtype
    halves = (torch.float16, torch.bfloat16, torch.complex32)
    rounds = dtype in halves and entry.promotion not in ("always_bool", "always_int")
    rounds = rounds and entry.name != "nan_to_num"
    try:
        if rounds:
            single = torch.complex64 if dtype.is_complex else torch.float32
            wide = twin(entry)(*[tensor.to(single) for tensor in inputs], **parameters)
            return wide.to(dtype if wide.is_complex() else samples.REAL_OF.get(dtype, dtype))
        return twin(entry)(*inputs, **parameters)
    except RuntimeError:
        return None


def assert_near(
    entry: OpEntry, got: torch.Tensor, want: torch.Tensor, x: torch.Tensor, what: object
) -> None:
    ulps = max(calls.ULPS.get(entry.name, 0), calls.DEFAULT_ULPS)
    exact = entry.promotion == "always_bool" or entry.name in ("neg", "abs", "sign", "relu")
    if entry.name not in calls.CANCELS | FLOAT_CONSTANT or not want.is_floating_point():
        calls.assert_close(got, want, 0 if exact and not want.is_complex() else ulps, what)
        return
    assert (got.dtype, got.shape) == (want.dtype, want.shape), what
    eps = torch.finfo(torch.float32 if entry.name in FLOAT_CONSTANT else want.dtype).eps
    scale = x.double().abs().clamp(1, 100).nan_to_num(1)
    near = (got.double() - want.double()).abs() <= calls.CANCELLED_EPS * eps * scale
    same = near | (got == want) | (calls.isnan(got) & calls.isnan(want))
    relative = torch.isclose(got.double(), want.double(), rtol=calls.CANCELLED_EPS * eps, atol=0)
    assert (same | relative).all(), f"{what}: at {(~(same | relative)).nonzero()[:3].tolist()}"


@pytest.mark.parametrize(("entry", "parameters"), CASES)
def test_every_dtype(entry: OpEntry, parameters: Parameters) -> None:
    call = calls.function(entry)
    compared = 0
    for dtype in calls.input_dtypes(entry):
        if dtype in samples.FLOAT8:
            continue  # torch differs between them; test_predicates_of_float8
        inputs = operands(entry, dtype, 300)
        want = expected(entry, inputs, parameters)
        if want is None:
            continue
        got = call(*inputs, **parameters)
        kept = ~LEFT_OUT[entry.name](inputs[-1]) if entry.name in LEFT_OUT else slice(None)
        assert_near(entry, got[kept], want[kept], inputs[-1][kept], (entry.name, dtype))
        compared += 1
    assert compared > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=samples.short_name)
@pytest.mark.parametrize("entry", ENTRIES, ids=calls.name_of)
def test_a_result_does_not_depend_on_its_neighbours(entry: OpEntry, dtype: torch.dtype) -> None:
    """SLEEF chooses how to reduce an angle for a whole vector, by its largest element."""
    if samples.short_name(dtype) not in entry.dtypes:
        pytest.skip("not of this dtype")
    call, parameters = calls.function(entry), PARAMETERS.get(entry.name, [{}])[0]
    magnitudes = 10 ** (torch.rand(4000, dtype=torch.float64) * 40 - 10)
    values = (magnitudes * torch.randn(4000).sign()).to(dtype)
    shuffled = torch.randperm(4000)
    inputs = [values] * len(entry.inputs)
    mixed = call(*[tensor[shuffled] for tensor in inputs], **parameters)
    by_size = values.abs().argsort()
    alike = call(*[tensor[by_size] for tensor in inputs], **parameters)
    back = torch.empty_like(mixed)
    back[shuffled] = mixed
    calls.assert_close(back[by_size], alike, 0, entry.name)


@pytest.mark.parametrize("entry", ENTRIES, ids=calls.name_of)
def test_a_result_does_not_depend_on_size_or_position(entry: OpEntry) -> None:
    call, parameters = calls.function(entry), PARAMETERS.get(entry.name, [{}])[0]
    for dtype in (torch.float32, torch.float64, torch.int32, torch.complex64):
        if samples.short_name(dtype) not in entry.dtypes:
            continue
        inputs = operands(entry, dtype, 70)
        whole = call(*inputs, **parameters)
        for size in range(71):
            part = call(*[tensor[70 - size :].clone() for tensor in inputs], **parameters)
            calls.assert_close(part, whole[70 - size :], 0, (entry.name, dtype, size))


# Where a function is smooth and defined; (-2, 2) elsewhere.
DOMAINS = {
    "acosh": (1.2, 3.0),
    "erfinv": (-0.8, 0.8),
    "asin": (-0.8, 0.8),
    "acos": (-0.8, 0.8),
    "atanh": (-0.8, 0.8),
    "lgamma": (0.3, 3.0),
    "digamma": (0.3, 3.0),
    "_polygamma": (0.5, 3.0),
    "log1p": (-0.5, 2.0),
}
DOMAINS |= dict.fromkeys(["special_ndtri", "logit", "logit_backward"], (0.15, 0.85))
POSITIVE = ["log", "log2", "log10", "sqrt", "rsqrt", "special_entr", "reciprocal"]
DOMAINS |= dict.fromkeys(POSITIVE, (0.3, 2.0))


def smooth_operands(entry: OpEntry, dtype: torch.dtype) -> list[torch.Tensor]:
    low, high = DOMAINS.get(entry.name, (-2.0, 2.0))
    x = torch.rand(5, dtype=torch.float64) * (high - low) + low
    if low < 0:
        x = x + 0.05 * x.sign()  # off the corner at 0
    if dtype.is_complex:
        x = torch.complex(x, torch.rand(5, dtype=torch.float64) + 0.2)
    x.requires_grad_()
    if len(entry.inputs) == 1:
        return [x]
    return [torch.randn(5, dtype=dtype, requires_grad=True), x]


DIFFERENTIABLE = [
    pytest.param(
        entry, parameters, dtype, id=f"{entry.name}-{'-'.join(map(str, parameters))}-{dtype}"
    )
    for entry in ENTRIES
    if entry.promotion not in ("always_bool", "always_int")
    for dtype in (torch.float64, torch.complex128)
    if samples.short_name(dtype) in entry.dtypes
    for parameters in PARAMETERS.get(entry.name, [{}])
]


@pytest.mark.parametrize(("entry", "parameters", "dtype"), DIFFERENTIABLE)
def test_gradients(entry: OpEntry, parameters: Parameters, dtype: torch.dtype) -> None:
    call, inputs = calls.function(entry), smooth_operands(entry, dtype)

    def function(*tensors: torch.Tensor) -> Any:
        return call(*tensors, **parameters)

    assert gradcheck(function, inputs, check_forward_ad=True)
    assert gradgradcheck(function, inputs, check_fwd_over_rev=True)


@pytest.mark.parametrize("shape", [(4,), (2, 4), (2, 3, 4), (2, 3, 4, 5)])
@pytest.mark.parametrize("one", [False, True], ids=["channels", "one"])
def test_prelu(shape: tuple[int, ...], one: bool) -> None:
    """One weight for each channel, which is dim 1."""
    prelu = torch.ops.iterlab.prelu
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    channels = 1 if one or len(shape) == 1 else shape[1]
    weight = torch.randn(channels, dtype=torch.float64, requires_grad=True)
    calls.assert_bitwise(prelu(x, weight), torch.prelu(x, weight))
    assert gradcheck(prelu, (x, weight), check_forward_ad=True)
    out = torch.empty_like(x)
    with torch.no_grad():
        assert iterlab.prelu(x, weight, out=out) is out
        calls.assert_bitwise(out, prelu(x, weight))
    written = x.detach().clone()
    assert iterlab.prelu_(written, weight.detach()) is written
    calls.assert_bitwise(written, out)
    with pytest.raises(RuntimeError, match="as many weights as input has channels"):
        prelu(x, torch.ones(7, dtype=torch.float64))


def test_polygamma_takes_its_order_first() -> None:
    x = torch.rand(9) + 0.5
    want = torch.polygamma(2, x)
    calls.assert_close(torch.ops.iterlab.polygamma(2, x), want, 16)
    calls.assert_close(iterlab.polygamma(2, x, out=torch.empty(9)), want, 16)
    calls.assert_close(iterlab.polygamma_(x.clone(), 2), want, 16)
    with pytest.raises(RuntimeError, match="n of at least 0"):
        torch.ops.iterlab.polygamma(-1, x)


@pytest.mark.parametrize("dtype", samples.FLOATS, ids=calls.name_of)
def test_frexp(dtype: torch.dtype) -> None:
    x = samples.full_range_values(dtype, 200)
    for got in (iterlab.frexp(x), torch.ops.iterlab.frexp(x.t())):
        for mine, theirs in zip(got, torch.frexp(x), strict=True):
            calls.assert_close(mine, theirs, 0)
    assert iterlab.frexp(x).exponent.dtype == torch.int32
    exponent = torch.empty(200, dtype=torch.int32)
    written = x.clone()  # the mantissa may take the place of the input
    got = iterlab.frexp(written, out=(written, exponent))
    assert got[0] is written
    calls.assert_close(written, torch.frexp(x).mantissa, 0)
    calls.assert_close(exponent, torch.frexp(x).exponent, 0)


def test_frexp_says_what_it_takes() -> None:
    x = torch.ones(3)
    for call in (
        lambda: iterlab.frexp(torch.arange(3)),
        lambda: iterlab.frexp(x, out=(torch.empty(3), torch.empty(3))),
        lambda: iterlab.frexp(x, out=(torch.empty(3).double(), torch.empty(3).int())),
    ):
        with pytest.raises(RuntimeError, match=r"iterlab::frexp: expected .+, got .+"):
            call()


def test_squares_and_powers_of_truth() -> None:
    """As powers: bool to the power of an int is an int, to that of a bool a bool."""
    x = torch.tensor([True, False])
    calls.assert_bitwise(iterlab.square(x), torch.square(x))
    for exponent in (True, False, 2, 0):
        calls.assert_bitwise(iterlab.pow(x, exponent), torch.pow(x, exponent))
    calls.assert_bitwise(iterlab.pow_(x.clone(), True), x)
    for call in (lambda: iterlab.pow(x, x), lambda: iterlab.pow(True, x)):
        with pytest.raises(NotImplementedError, match="iterlab::pow: expected a dtype"):
            call()


def test_round_to_decimals() -> None:
    x = torch.tensor([1.25, -1.35, 2.5, 1234.567, 0.0, -0.0, float("inf"), float("nan")])
    for decimals in (-2, -1, 1, 2, 3):
        got = torch.ops.iterlab.round(x, decimals=decimals)
        calls.assert_close(got, torch.round(x, decimals=decimals), 1)
    with pytest.raises(NotImplementedError):
        torch.ops.iterlab.round(torch.arange(3), decimals=1)


def test_nan_to_num_knows_the_width_of_half_types() -> None:
    for dtype in samples.FLOATS:
        x = torch.tensor([float("inf"), float("-inf"), float("nan")], dtype=dtype)
        calls.assert_bitwise(torch.ops.iterlab.nan_to_num(x), torch.nan_to_num(x))


def test_predicates_of_float8() -> None:
    x = torch.tensor([0.0, 1.0, float("nan"), float("inf")]).to(torch.float8_e5m2)
    assert torch.ops.iterlab.isnan(x).tolist() == [False, False, True, False]
    assert torch.ops.iterlab.isinf(x).tolist() == [False, False, False, True]
    assert torch.ops.iterlab.isfinite(x).tolist() == [True, True, False, False]


def test_tails_that_torch_loses() -> None:
    """erf of small, ndtr of negative, asinh of large numbers: to float's last digits."""
    x = torch.tensor([1e-4, 1e-10, 3e-38], dtype=torch.float32)
    calls.assert_close(torch.ops.iterlab.erf(x), torch.erf(x.double()).float(), 1)
    x = torch.tensor([-1.0, -3.0, -5.0, -10.0])
    exact = 0.5 * torch.erfc(-x.double() / 2**0.5)
    torch.testing.assert_close(torch.ops.iterlab.special_ndtr(x), exact.float(), rtol=2e-6, atol=0)
    x = torch.tensor([1e10, 1e19, 1e30, -3e38, float("inf")])
    calls.assert_close(torch.ops.iterlab.asinh(x), torch.asinh(x.double()).float(), 1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda ops, x: ops.softshrink(x, -1), RuntimeError, "lambd of at least 0"),
        (lambda ops, x: ops.celu(x, 0), RuntimeError, "alpha other than 0"),
        (lambda ops, x: ops.hardtanh(x, 2, 1), ValueError, "min_val not above max_val"),
        (lambda ops, x: ops.hardtanh(x.to(torch.uint8)), RuntimeError, "no negative bounds"),
        (lambda ops, x: ops.elu_backward(x, x, -1, 1, 1, True), RuntimeError, "no negative alpha"),
    ],
)
def test_parameters_are_checked(
    call: Callable[..., Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        call(torch.ops.iterlab, torch.ones(3))
