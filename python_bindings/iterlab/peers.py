"""Who else can do a case: torch eager and compiled, NumPy, numexpr, iterlab's generic path."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import torch

from iterlab.cases import Call
from iterlab.planning import force_path
from iterlab.table import OpEntry, find
from iterlab.timing import Work

# What numexpr calls the operators that it has; a and b are the operands.
_NUMEXPR = {"add": "a + b", "mul": "a * b", "exp": "exp(a)", "sin": "sin(a)", "tanh": "tanh(a)"}


def torch_function(entry: OpEntry) -> Callable[..., Any] | None:
    """Give the operator's twin in torch, or None where it has none."""
    if entry.torch_name is None:
        return None
    try:
        found = operator.attrgetter(entry.torch_name)(torch)
    except AttributeError:
        return None
    return found if callable(found) else None


def _cast(x: torch.Tensor, dtype: torch.dtype, out: torch.Tensor | None = None) -> torch.Tensor:
    return x.to(dtype, copy=True) if out is None else out.copy_(x)


def _twin(entry: OpEntry) -> Callable[..., Any] | None:
    return _cast if entry.promotion == "to_argument" else torch_function(entry)


def _torch_work(call: Call, out: torch.Tensor | None) -> Work | None:
    function = _twin(find(call.op))
    if function is None:
        return None
    if out is None:
        return partial(function, *call.args, **call.arguments)
    return partial(function, *call.args, **call.arguments, out=out)


def _iterlab_work(call: Call, out: torch.Tensor | None) -> Work:
    packet = getattr(torch.ops.iterlab, call.op)
    if out is None:  # the arguments choose the overload: `max` has one for a dim
        return partial(packet, *call.args, **call.arguments)
    return partial(packet.out, *call.args, **call.arguments, out=out)


def _generic_work(call: Call, out: torch.Tensor | None) -> Work | None:
    if find(call.op).kind == "reduction":
        return None
    own = _iterlab_work(call, out)

    def work() -> object:
        with force_path("generic"):
            return own()

    return work


def _compiled_work(call: Call, out: torch.Tensor | None) -> Work | None:
    function = _twin(find(call.op))
    if function is None:
        return None

    def into(*args: Any) -> torch.Tensor:
        result: torch.Tensor = function(*args, **call.arguments)
        return result if out is None else out.copy_(result)

    torch._dynamo.reset()
    return partial(torch.compile(into, dynamic=False), *call.args)


def _arrays(call: Call, out: torch.Tensor | None) -> tuple[list[Any], Any] | None:
    """Give the operands as NumPy's, or None where it lacks a dtype of theirs."""
    tensors = [one for one in (*call.args, out) if isinstance(one, torch.Tensor)]
    if any(one.dtype in (torch.bfloat16, torch.complex32) for one in tensors):
        return None
    arrays = [one.numpy() if isinstance(one, torch.Tensor) else one for one in call.args]
    return arrays, None if out is None else out.numpy()


def _numpy_work(call: Call, out: torch.Tensor | None) -> Work | None:
    entry, found = find(call.op), _arrays(call, out)
    if found is None:
        return None
    arrays, result = found
    if entry.promotion == "to_argument":
        return (
            None if result is None else partial(numpy.copyto, result, arrays[0], casting="unsafe")
        )
    name = {"mul": "multiply"}.get(call.op, call.op)
    function = getattr(numpy, name, None)
    if function is None or set(call.arguments) - {"dim"}:
        return None
    axes = call.arguments.get("dim")
    kwargs = (
        {"axis": tuple(axes) if isinstance(axes, list) else axes}
        if entry.kind == "reduction"
        else {}
    )
    return partial(function, *arrays, **kwargs, **({} if result is None else {"out": result}))


def _numexpr_work(call: Call, out: torch.Tensor | None) -> Work | None:
    found = _arrays(call, out)
    if call.op not in _NUMEXPR or found is None or call.arguments:
        return None
    try:
        import numexpr
    except ImportError:
        return None
    numexpr.set_num_threads(torch.get_num_threads())
    arrays, result = found
    names = dict(zip("ab", arrays, strict=False))
    return partial(
        numexpr.evaluate, _NUMEXPR[call.op], local_dict=names, out=result, casting="same_kind"
    )


def agrees(ours: object, theirs: object) -> bool:
    """Say whether a peer's result is iterlab's, up to the order of additions and the last bits;
    each of them, where there are several.
    """
    if isinstance(ours, tuple):
        results = tuple(theirs) if isinstance(theirs, tuple | list) else ()
        return len(results) == len(ours) and all(map(agrees, ours, results))
    expected = ours if isinstance(ours, torch.Tensor) else torch.as_tensor(ours)
    actual = theirs if isinstance(theirs, torch.Tensor) else torch.as_tensor(numpy.asarray(theirs))
    tolerance = 1e-2 if expected.dtype in (torch.bfloat16, torch.float16) else 1e-4
    if actual.shape != expected.shape:
        return False
    wide = torch.complex128 if expected.is_complex() else torch.float64
    scale = (
        1.0 + float(expected.to(wide).abs().nan_to_num(0, 0, 0).max()) if expected.numel() else 1.0
    )
    return torch.allclose(
        actual.to(wide), expected.to(wide), tolerance, tolerance * scale, equal_nan=True
    )


def peers(call: Call, out: torch.Tensor | None, generic: bool, compiled: bool) -> dict[str, Work]:
    """Give the peers that can do a call, with `out` or making a new result, each checked against
    iterlab's result.
    """
    own = _iterlab_work(call, out)
    result = own()
    expected = result if out is None else out.clone()
    candidates: dict[str, Work | None] = {"torch": _torch_work(call, out)}
    if generic:
        candidates["generic path"] = _generic_work(call, out)
    if compiled:
        candidates["torch.compile"] = _compiled_work(call, out)
        candidates["NumPy"] = _numpy_work(call, out)
        candidates["numexpr"] = _numexpr_work(call, out)
    able = {"iterlab": own}
    for name, work in candidates.items():
        if work is None:
            continue
        try:
            theirs = work()
        except (TypeError, ValueError, RuntimeError, NotImplementedError):
            continue  # a dtype, a layout or an out= that the peer does not take
        if agrees(expected, out if out is not None else theirs):
            able[name] = work
        elif name in ("torch", "generic path"):
            raise RuntimeError(f"iterlab::{call.op}: its result differs from that of {name}")
    return able
