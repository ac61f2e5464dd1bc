"""Fusion under torch.compile: opt-in decompositions of iterlab's operators into ATen's.

By default an operator is opaque to Inductor, which calls iterlab's kernel. With fusion, Inductor
generates one kernel for a chain of operators, and iterlab's kernels do not run there; the numerics
are Inductor's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND, elementwise_dtypes

from iterlab.table import OpEntry, op_table

_TAG = "iterlab-fusion"


def _to(input: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return input.to(dtype, copy=True)


def _isclose(
    input: Any, other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    close = input == other
    if equal_nan:
        close = close | ((input != input) & (other != other))
    if not other.is_floating_point() and not other.is_complex():
        other = other.to(torch.get_default_dtype())
    apart = (input - other).abs()
    return close | (apart.isfinite() & (apart <= atol + (rtol * other).abs()))


def _nanmean(input: torch.Tensor, dim: Any = None, keepdim: bool = False, **more: Any) -> Any:
    count = input.isnan().logical_not().sum(dim, keepdim)
    return torch.nansum(input, dim, keepdim, **more) / count


def _shrink_backward(grad_output: Any, input: Any, lambd: float) -> torch.Tensor:
    return torch.where((input >= -lambd) & (input <= lambd), 0, grad_output)


# In place of twins that a tracer cannot see through: torch's own write in place, or do not know
# symbolic shapes. They take tensors, not numbers.
_REWRITTEN: dict[str, Callable[..., Any]] = {
    "to": _to,
    "isclose": _isclose,
    "nanmean": _nanmean,
    "hardshrink_backward": _shrink_backward,
    "softshrink_backward": _shrink_backward,
}


def _twin(entry: OpEntry) -> Callable[..., Any] | None:
    if entry.name in _REWRITTEN or entry.torch_name is None:
        return _REWRITTEN.get(entry.name)
    try:
        return operator.attrgetter(entry.torch_name)(torch)  # type: ignore[no-any-return]
    except AttributeError:
        return None


def _as_given(entry: OpEntry, given: dict[str, Any]) -> dict[str, Any]:
    return given


def _with_tensors(entry: OpEntry, given: dict[str, Any]) -> dict[str, Any]:
    """Make the numbers among the operands tensors of the dtype that all are promoted to."""
    promoted = [given[one] for i, one in enumerate(entry.inputs) if entry.promoted_inputs >> i & 1]
    _, dtype = elementwise_dtypes(
        *promoted, type_promotion_kind=ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    )
    tensors = [one for one in given.values() if isinstance(one, torch.Tensor)]
    device = tensors[0].device if tensors else None
    numbers = [one for one in entry.inputs if not isinstance(given[one], torch.Tensor)]
    return given | {one: torch.full((), given[one], dtype=dtype, device=device) for one in numbers}


def _with_dims(entry: OpEntry, given: dict[str, Any]) -> dict[str, Any]:
    """Write out that all dims are reduced."""
    every = list(range(given["input"].dim()))
    return given | {"dim": every if given.get("dim") is None else given["dim"]}


def _decomposition(
    entry: OpEntry, overload: torch._ops.OpOverload, twin: Callable[..., Any]
) -> Callable[..., Any]:
    """Call `twin`, or leave the operator as it is where the twin does not take such a call."""
    arguments = overload._schema.arguments
    respelled = _with_dims if entry.kind == "reduction" else _with_tensors
    spellings = (respelled,) if entry.name in _REWRITTEN else (_as_given, respelled)
    # It has every argument, and may require what has a default here; a function may lack some.
    is_operator = isinstance(twin, torch._ops.OpOverloadPacket)

    def of_twin(given: dict[str, Any]) -> Any:
        positional, named = [], {}
        for argument in arguments:
            value = given.get(argument.name, argument.default_value)
            if not argument.has_default_value():
                positional.append(value)
            elif is_operator or value != argument.default_value:
                named[argument.name] = value
        return twin(*positional, **named)

    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip((a.name for a in arguments), args, strict=False)) | kwargs
        dims = given.get("dim")
        if dims is not None and len(dims) == 0:  # all of them or none: torch's do not agree
            return NotImplemented
        if dims is not None and len(dims) == 1:  # some of torch's take no list
            given["dim"] = dims[0]
        for spelling in spellings:
            # iterlab has taken the call: an error says that the twin does not.
            with suppress(TypeError, RuntimeError):
                result = of_twin(spelling(entry, given))
                return result.clone() if any(result is value for value in args) else result
        return NotImplemented

    return call


@cache
def _table() -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    table = {}
    for entry in op_table():
        twin = _twin(entry)
        if twin is None:
            continue
        packet = getattr(torch.ops.iterlab, entry.name)
        for name in packet.overloads():
            overload = getattr(packet, name)
            if not overload._schema.is_mutable:
                table[overload] = _decomposition(entry, overload, twin)
    return table


def decomposition_table() -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    """Give, for each functional overload with a twin in torch, a function that calls the twin.

    >>> exported.run_decompositions(iterlab.compile.decomposition_table())
    """
    return dict(_table())


def _inductor() -> Any:
    import torch._inductor.decomposition as decomposition

    return decomposition


def _changed(decomposition: Any, tags: set[str]) -> None:
    """Forget what Inductor derived from its table, and what was compiled.

    The tag keeps code of the other kind out of its caches on disk.
    """
    derived = getattr(decomposition, "fast_random_decomps", None)
    if derived is not None and hasattr(derived, "cache_clear"):
        derived.cache_clear()
    if hasattr(torch.compiler.config, "cache_key_tag"):
        torch.compiler.config.cache_key_tag = " ".join(sorted(tags))
    torch._dynamo.reset()


def _tags() -> set[str]:
    return set(getattr(torch.compiler.config, "cache_key_tag", "").split())


def enable_fusion() -> None:
    """Let Inductor fuse iterlab's operators, in this process, from the next compilation on.

    What has been compiled is forgotten.
    """
    decomposition = _inductor()
    decomposition.decompositions.update(_table())
    _changed(decomposition, _tags() | {_TAG})


def disable_fusion() -> None:
    """Make the operators opaque again."""
    decomposition = _inductor()
    for overload in _table():
        decomposition.decompositions.pop(overload, None)
    _changed(decomposition, _tags() - {_TAG})
