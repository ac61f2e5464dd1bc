"""The tensors that a kernel gets: what the wrappers of torch.func hold, batch dims inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes

_F = torch._C._functorch

Given = ParamSpec("Given")
Result = TypeVar("Result")


def _unbatched(args: Sequence[Any], level: int) -> list[Any]:
    """Do as iterlab's batch rule does: the batch dim goes to the front, others are padded to it."""
    batched = [isinstance(one, torch.Tensor) and _F.maybe_get_level(one) == level for one in args]
    rank = max((one.dim() for one in args if isinstance(one, torch.Tensor)), default=0)
    result = []
    for one, wrapped in zip(args, batched, strict=True):
        if wrapped:
            value = _F.get_unwrapped(one).movedim(_F.maybe_get_bdim(one), 0)
            one = value[(slice(None), *[None] * (rank - one.dim()))]
        result.append(one)
    return result


def physical(args: Sequence[Any]) -> list[Any]:
    """Take tensors out of the transforms that are active, innermost first.

    Outside torch.func, they are the arguments as they are.
    """
    result = list(args)
    stack = list(reversed(_F.get_interpreter_stack() or []))
    with undisturbed():
        for interpreter in stack:
            level = interpreter.level()
            if interpreter.key().name == "Vmap":
                result = _unbatched(result, level)
            else:
                result = [
                    _F.get_unwrapped(one)
                    if isinstance(one, torch.Tensor) and _F.maybe_get_level(one) == level
                    else one
                    for one in result
                ]
    return result


def physical_reduction(
    overload: torch._ops.OpOverload[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]] | None:
    """Give a reduction's arguments for the tensor that its kernel gets, whose first dims may be
    batch dims of vmap.

    None where the dims that are left cannot be said: the overload has none, or the tensor inside
    the batch has none.
    """
    operands, rank = physical(args), args[0].dim()
    batch = operands[0].dim() - rank
    if batch == 0:
        return operands, kwargs
    names = [argument.name for argument in overload._schema.arguments]
    named = dict(zip(names, operands, strict=False)) | kwargs
    if "dim" not in names or rank == 0:
        return None
    dim = named.get("dim")
    dims = [dim] if isinstance(dim, int) else list(dim or range(rank))
    named["dim"] = [one % rank + batch for one in dims]
    return [named.pop(names[0])], named


@contextmanager
def undisturbed() -> Iterator[None]:
    """Leave transforms, dispatch modes and function modes for the time of the block, so that they
    do not see what an explanation computes.
    """
    with (
        temporarily_clear_interpreter_stack(),
        _disable_current_modes(),
        torch._C.DisableTorchFunction(),
        torch.no_grad(),
    ):
        yield


def outside_graphs(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """Make torch.compile call a function as it is: what it asks the process is nothing to trace."""

    @wraps(function)
    def call(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        if torch.compiler.is_compiling():  # Dynamo reads this branch, and leaves its graph
            untraced = torch.compiler.disable(function)  # type: ignore[no-untyped-call]
            result: Result = untraced(*args, **kwargs)
            return result
        return function(*args, **kwargs)

    return call
