"""Where iterlab answers OpInfo's samples otherwise than torch, on purpose: the whole list."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Difference:
    """Failures of some tests of test_opinfo.py that are meant.

    `what` is a pattern that each of them matches: operands and message. An entry that no failure
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
    "ldexp le logaddexp logical_and logical_or logical_xor lt maximum minimum ne nextafter pow "
    "remainder rsub special_xlog1py special_zeta xlogy"
)

DIFFERENCES: tuple[Difference, ...] = (
    Difference(
        tuple(TAKES_NUMBERS.split()),
        ("errors",),
        r"got tensor\(.*torch's (Type|Index)Error",
        "a number is taken wherever a tensor operand is; of max and min, as `other`",
    ),
    Difference(
        ("amax", "amin", "aminmax"),
        ("errors",),
        r"float32\[(1, ){64}1\].*torch's RuntimeError",
        "reductions take more than 64 dims",
    ),
    Difference(
        ("div",),
        ("samples", "reference"),
        r"float16.*rounding_mode='(trunc|floor)'.*not close",
        "torch rounds the quotient to the half type before it cuts it",
    ),
    Difference(
        ("floor_divide",),
        ("reference",),
        r"float16.*not close",
        "torch rounds the quotient to the half type before it cuts it",
    ),
    Difference(
        ("logit", "special_ndtr"),
        ("samples",),
        r"bfloat16.*not close",
        "torch rounds to the half type between the steps of the formula, which cancel",
    ),
    Difference(
        ("hardtanh",),
        ("errors",),
        r"min_val not above max_val.*torch's ValueError",
        "RuntimeError, as of other arguments that do not fit together; torch's check is in Python",
    ),
)
