"""iterlab's operators on jagged nested tensors, where torch's own rule does not reach.

That takes elementwise operators whose tensors are one, or the first two arguments. This imports
torch.nested._internal.ops.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.nested._internal import ops
from torch.nested._internal.nested_tensor import NestedTensor

from iterlab._subclasses import overloads

# What rows are padded with to be reduced along the ragged dim: nothing that changes the result.
_PADDING: dict[str, float] = {
    "sum": 0,
    "nansum": 0,
    "count_nonzero": 0,
    "any": 0,
    "all": 1,
    "prod": 1,
    "amax": -torch.inf,
    "max": -torch.inf,
    "argmax": -torch.inf,
    "amin": torch.inf,
    "min": torch.inf,
    "argmin": torch.inf,
}


def _padding(name: str, dtype: torch.dtype) -> float:
    value = _PADDING[name]
    if dtype.is_floating_point or abs(value) != torch.inf:
        return value
    kind = "max" if value > 0 else "min"
    return ops._get_padding_value(dtype, kind)  # type: ignore[no-any-return, no-untyped-call]


def _refused(op: torch._ops.OpOverload, reason: str) -> NotImplementedError:
    return NotImplementedError(f"{op._schema.name}: jagged nested tensors {reason}")


def _elementwise(op: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    """One call on the values of all tensors, which are nested or broadcast along the rows."""
    wide = {i: one for i, one in enumerate(args) if isinstance(one, torch.Tensor) and one.dim() > 0}
    broadcast = torch.broadcast_tensors(*wide.values())  # type: ignore[no-untyped-call]
    values = list(args)
    for i, one in zip(wide, broadcast, strict=True):
        values[i] = one._values
    result = op(*values, **kwargs)
    if op._schema.is_mutable:
        return args[0]
    like = next(one for one in args if isinstance(one, NestedTensor))
    return NestedTensor(result, **ops.extract_kwargs(like))  # type: ignore[no-untyped-call]


def _reduction(op: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    """As torch reduces nested tensors: their values, or padded ones along the ragged dim alone."""
    names = [argument.name for argument in op._schema.arguments]
    given = dict(zip(names, args, strict=False)) | kwargs
    name = op._schema.name.removeprefix("iterlab::")
    nested, dims = given["input"], given.get("dim")
    reduced = {dim % nested.dim() for dim in dims or range(nested.dim())}
    both = {0, nested._ragged_idx}
    alone = reduced == {nested._ragged_idx}
    if reduced & both and not (reduced >= both or (alone and name in {*_PADDING, "mean"})):
        raise _refused(op, f"cannot be reduced along {sorted(reduced)}; reduce each of unbind()")
    if reduced & both and nested.lengths() is not None:
        raise _refused(op, "with holes cannot be reduced across them; call contiguous() before")
    if "dim" not in names:
        return op(nested._values)
    if alone and name == "mean":
        return ops.mean_dim(op, *args, **kwargs)
    padding = _padding(name, nested.dtype) if alone else None
    return ops._apply_reduction(op, name, padding, *args, **kwargs)  # type: ignore[no-untyped-call]


def _given_output(op: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    raise _refused(op, "cannot be written to as out=; leave it away, or give the values() of each")


def _handler(op: torch._ops.OpOverload) -> Callable[..., Any] | None:
    """What computes an overload on nested tensors. None where torch's rule does."""
    arguments = op._schema.arguments
    if any(one.is_out for one in arguments):
        return _given_output
    if torch.Tag.reduction in op.tags:
        return _reduction
    tensors = [i for i, one in enumerate(arguments) if isinstance(one.type, torch.TensorType)]
    return None if len(tensors) == 1 or tensors == [0, 1] else _elementwise


def register() -> None:
    """Enter the operators in the table that nested tensors look theirs up in."""
    for op in overloads():
        handler = _handler(op)
        if handler is not None:
            ops.JAGGED_OPS_TABLE[op] = partial(handler, op)
