"""What kind of loop ATen's own kernel of an elementwise operator has on the CPU: a table.

Read from aten/src/ATen/native/cpu/*Kernel.cpp of torch 2.13: `cpu_kernel_vec` makes a loop with
vectors, `cpu_kernel` one without, and functions of a vector mathematics library run on rows.
Samples of what runs, taken by perf of every operator and dtype, agree with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

VECTORS, NO_VECTORS, ROWS = "vectors", "no vectors", "rows"

_BOOL, _INTEGER, _HALF, _FLOAT, _COMPLEX = "bool", "integer", "half", "float", "complex"
_ALL = (_BOOL, _INTEGER, _HALF, _FLOAT, _COMPLEX)

# Kernels without vectors, by the common dtypes that they have none for.
_WITHOUT: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("where", "masked_fill", "isnan", "heaviside", "gcd", "lcm", "xlogy"), _ALL),
    **dict.fromkeys(("logical_not", "logical_and", "logical_or", "logical_xor"), _ALL),
    **dict.fromkeys(("asinh", "acosh", "sinc", "special_entr", "special_erfcx"), _ALL),
    **dict.fromkeys(("special_i1", "special_i1e", "special_ndtri", "special_log_ndtr"), _ALL),
    **dict.fromkeys(("special_xlog1py", "special_zeta"), _ALL),
    **dict.fromkeys(("isposinf", "isneginf"), (_HALF, _FLOAT)),
    **dict.fromkeys(("fmax", "fmin"), (_BOOL, _HALF, _FLOAT)),
    **dict.fromkeys(("square", "pow", "floor_divide", "remainder", "fmod"), (_INTEGER,)),
    **dict.fromkeys(("add", "mul", "sign", "sgn", "maximum", "minimum", "bitwise_not"), (_BOOL,)),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), (_BOOL,)),
    **dict.fromkeys(("clamp_min", "clamp_max"), (_BOOL,)),
    "signbit": (_INTEGER, _HALF, _FLOAT),
    "nextafter": (_HALF,),
    "logaddexp": (_COMPLEX,),
}
# Those that compare have vectors where the result has the operands' dtype, as in place.
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")

# Functions of floats that go row by row through a library (MKL's, or SLEEF in vectors); a row that
# is not contiguous goes through a buffer of 8 kB.
_LIBRARY = (
    *("exp", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos"),
    *("atan", "tanh", "erf", "erfc", "erfinv", "lgamma", "i0", "ceil", "floor", "trunc", "round"),
)

# Those that unfold into several operators, give the input itself, or have a loop outside the
# iterator's: oneDNN's, MKL's or their own.
_OTHERWISE = (
    *("isinf", "isfinite", "isclose", "ldexp", "special_ndtr", "positive"),
    *("gelu", "gelu_backward", "logit", "log_sigmoid"),
)


def _category(dtype: torch.dtype) -> str:
    if dtype == torch.bool:
        return _BOOL
    if dtype.is_complex:
        return _COMPLEX
    if dtype.is_floating_point:
        return _HALF if dtype.itemsize == 2 else _FLOAT
    return _INTEGER


def kernel_of(
    name: str, common: torch.dtype, result: torch.dtype, arguments: Mapping[str, Any]
) -> str | None:
    """Say which kind of loop ATen's kernel of "aten::{name}" has: VECTORS, NO_VECTORS, ROWS, or
    None where there is no one loop of ATen's iterator.

    `common` is the dtype that the operands are cast to, `result` that of the output; `arguments`
    are those that are no operands.
    """
    category = _category(common)
    if name in _OTHERWISE or (name == "conj_physical" and category != _COMPLEX):
        return None
    if name in _COMPARISONS:
        return NO_VECTORS if result == torch.bool else VECTORS
    if name == "div" and arguments.get("rounding_mode") is not None:
        return NO_VECTORS if category == _INTEGER else VECTORS
    if name == "round" and arguments.get("decimals", 0) != 0:
        return NO_VECTORS
    if name == "signbit" and not common.is_signed:
        return VECTORS  # all false
    if category in _WITHOUT.get(name, ()):
        return NO_VECTORS
    return ROWS if name in _LIBRARY and category not in (_BOOL, _INTEGER) else VECTORS
