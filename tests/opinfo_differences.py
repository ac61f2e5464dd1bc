"""Where iterlab answers OpInfo's samples otherwise than torch, on purpose: the whole list."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Failures of some tests of test_opinfo.py that are meant.

    `operators` are ids of OpInfos. `what` is a pattern that each failure matches: operands and
    message. An entry that no failure
    of one of its operators in one of its tests matches is an error there.
    """

    operators: tuple[str, ...]
    tests: tuple[str, ...]
    what: str
    reason: str


# Operators that torch gives a number in no place, or not in every one.
TAKES_NUMBERS = (
    "atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor clamp_max "
    "clamp_min copysign eq fmax fmin fmod gcd ge gt heaviside hypot igamma igammac isclose lcm "
    "ldexp le logaddexp logical_and logical_or logical_xor lt max.binary maximum min.binary "
    "minimum ne nextafter pow remainder rsub special.xlog1py special.zeta xlogy"
)

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        tuple(TAKES_NUMBERS.split()),
        ("errors",),
        r"got (tensor\(|NotImplemented).*torch's (Type|Index)Error",
        "a number is taken wherever a tensor operand is; of max and min, as `other`",
    ),
    Difference(
        ("amax", "amin", "aminmax"),
        ("errors",),
        r"float32\[(1, ){64}1\].*torch's RuntimeError",
        "reductions take more than 64 dims",
    ),
    Difference(
        ("angle",),
        ("variants", "rare variants"),
        r"complex.*its result is real",
        "a complex tensor does not take its own angle, as it does not its absolute value",
    ),
    Difference(
        ("logit", "special.ndtr"),
        ("samples", "rare samples", "reference"),
        r"float16.*not close",
        "torch rounds to the half type between the steps of the formula, which cancel",
    ),
    Difference(
        ("special.i0e", "nn.functional.tanhshrink"),
        ("reference",),
        r"float16.*not close",
        "torch rounds to the half type between the steps of the formula, which cancel",
    ),
    Difference(
        ("nn.functional.softsign",),
        ("reference",),
        r"int8.*not close",
        "integers become floats first; torch's 1 + |input| wraps around in int8",
    ),
    Difference(
        ("ldexp",),
        ("reference",),
        r"not close.*difference: nan",
        "scaled exactly; torch multiplies by 2^other, which overflows",
    ),
    Difference(
        ("mul", "square"),
        ("reference",),
        r"complex.*not close.*difference: nan",
        "a product of infinite parts: torch's loops for vectors and for scalars differ in its nans",
    ),
    Difference(
        ("angle", "conj_physical", "nn.functional.logsigmoid", "positive", "rsub"),
        ("reference",),
        r"strides",
        "a new tensor in the order of the first operand's dims",
    ),
)
