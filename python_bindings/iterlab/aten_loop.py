"""What ATen's own iterator would do with a call: a prediction by its published rules.

The rules are those of aten/src/ATen/TensorIterator.cpp (which operands are cast through a copy), of
native/cpu/Loops.h and native/cuda/Loops.cuh (which loop runs), and of the operator's own kernel on
the CPU (`iterlab.aten_kernels`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from iterlab.aten_kernels import NO_VECTORS, ROWS, kernel_of
from iterlab.planning import Plan, dtype_name, plan
from iterlab.table import OpEntry, aten_name

SCALAR = "one element at a time"
# Of Copy.cpp: a smaller matrix is not transposed in blocks.
_LEAST_TRANSPOSED = 60 * 60


@dataclass(frozen=True)
class CastCopy:
    """An operand that ATen's CPU iterator copies to the common dtype before the loop: `bytes` of
    the copy.
    """

    operand: str
    source: str
    target: str
    bytes: int


@dataclass(frozen=True)
class AtenLoop:
    """A prediction of the loop that ATen's iterator takes.

    `loop` is "vectorized", "vectorized, one operand constant", "vectorized, rows through a buffer",
    "transposed in blocks", "strided, one element at a time", or SCALAR, where no layout has
    vectors, on the CPU; "vectorized", "unrolled with casts" or "strided, an offset for each
    element" on CUDA. Those of reductions are in `iterlab.aten_reduce`.
    """

    loop: str
    why: str
    copies: tuple[CastCopy, ...]

    def to_dict(self) -> dict[str, Any]:
        """Give the prediction as plain data, for JSON; it is marked as one."""
        return asdict(self) | {"prediction": True}


def converted(operand: Any, common: torch.dtype) -> Any:
    """Give a meta tensor that is laid out as an operand is after its cast: dense layouts keep their
    strides, others become contiguous.
    """
    if not isinstance(operand, torch.Tensor) or operand.dim() == 0:
        return operand
    like = torch.empty_strided(operand.shape, operand.stride(), dtype=operand.dtype, device="meta")
    return like if operand.dtype == common else like.to(common)


def _copies(
    entry: OpEntry, args: Sequence[Any], out: torch.Tensor | None, common: torch.dtype
) -> list[CastCopy]:
    copies = [
        CastCopy(name, dtype_name(one.dtype), dtype_name(common), one.numel() * common.itemsize)
        for i, (name, one) in enumerate(zip(entry.inputs, args, strict=False))
        if entry.promoted_inputs >> i & 1
        and isinstance(one, torch.Tensor)
        and one.dim() > 0
        and one.dtype != common
    ]
    if out is not None and out.dtype not in (common, torch.bool):
        size = out.numel() * common.itemsize
        copies.append(CastCopy("out", dtype_name(common), dtype_name(out.dtype), size))
    return copies


def _cpu_loop(facts: Plan) -> tuple[str, str]:
    sizes = [getattr(torch, one.dtype).itemsize for one in facts.operands]
    inner = [one.strides[0] if one.strides else 0 for one in facts.operands]
    rows = len(facts.loop_shape) > 1
    run = f"in rows of {facts.loop_shape[0]}" if rows else "in one run"
    if facts.numel <= 1 or inner == sizes:
        return "vectorized", f"every operand is contiguous {run}"
    odd = [i for i, (stride, size) in enumerate(zip(inner, sizes, strict=True)) if stride != size]
    constant = [i for i in odd if inner[i] == 0]
    if odd[0] > 0 and len(odd) == 1 and constant:
        name = facts.operands[odd[0]].name
        return "vectorized, one operand constant", f"`{name}` is one value {run}"
    # One constant operand alone would do no harm.
    blamed = [i for i in odd if i not in constant] or constant
    names = " and ".join(f"`{facts.operands[i].name}`" for i in blamed)
    verb = "is" if len(blamed) == 1 else "are"
    why = "not contiguous" if blamed != constant else "each one value"
    return "strided, one element at a time", f"{names} {verb} {why} along the innermost dim"


def _travels(operand: Any) -> bool:
    return not isinstance(operand, torch.Tensor) or (operand.dim() == 0 and not operand.is_cuda)


def _cuda_loop(facts: Plan, numbers: set[str], casts: bool) -> tuple[str, str]:
    if len(facts.loop_shape) <= 1:
        odd = [
            one.name
            for one in facts.operands
            if one.name not in numbers
            and one.strides
            and one.strides[0] != getattr(torch, one.dtype).itemsize
        ]
    else:
        odd = [facts.operands[facts.reason_operand].name] if facts.reason_operand >= 0 else []
        odd = odd or [one.name for one in facts.operands if one.layout != "contiguous"]
    if odd or len(facts.loop_shape) > 1:
        with_casts = ", with a cast for each" if casts else ""
        names = " and ".join(f"`{name}`" for name in odd) or "an operand"
        why = f"{names} {'are' if len(odd) > 1 else 'is'} not contiguous"
        return f"strided, an offset for each element{with_casts}", why
    if casts:
        return "unrolled with casts", "dtypes differ: a cast for each element"
    return "vectorized", "every operand is contiguous and has the common dtype"


def _transposes(target: Any, source: Any) -> bool:
    """Whether ATen's copy has a kernel of its own for it, outside its iterator."""
    return (
        isinstance(source, torch.Tensor)
        and source.dim() == 2
        and source.stride() == (1, source.size(0))
        and source.dtype == target.dtype
        and source.shape == target.shape
        and target.is_contiguous()
        and source.numel() >= _LEAST_TRANSPOSED
    )


def predict(
    entry: OpEntry,
    args: Sequence[Any],
    out: torch.Tensor | None,
    kwargs: dict[str, Any],
    facts: Plan,
    device: str,
) -> AtenLoop | None:
    """Predict ATen's loop for a call that iterlab plans as `facts`, on `device` ("cpu", "cuda").

    None where the operator has no twin in ATen, or one that is no single loop of its iterator.
    """
    name = aten_name(entry.torch_name)
    if not name or entry.kind != "elementwise":
        return None
    common: torch.dtype = getattr(torch, facts.common_dtype)
    copies = _copies(entry, args, out, common)
    if device == "cuda":
        # One number, or 0-d tensor of the CPU, travels with the kernel.
        travel = {name for name, one in zip(entry.inputs, args, strict=False) if _travels(one)}
        loop, why = _cuda_loop(facts, travel if len(travel) == 1 else set(), bool(copies))
        return AtenLoop(loop, why, ())
    rest = args[len(entry.inputs) :]
    named = dict(zip((one.name for one in entry.parameters), rest, strict=False)) | kwargs
    kernel = kernel_of(name, common, getattr(torch, facts.operands[0].dtype), named)
    if kernel is None:
        return None
    if name == "copy" and _transposes(args[0], args[1]):
        return AtenLoop("transposed in blocks", "`src` is a transposed matrix of one dtype", ())
    if kernel == NO_VECTORS:
        return AtenLoop(SCALAR, f"ATen's kernel of {name} has no vectors", tuple(copies))
    operands = [
        converted(one, common) if entry.promoted_inputs >> i & 1 else one
        for i, one in enumerate(args[: len(entry.inputs)])
    ]
    into = None if out is None or facts.resizes_output else converted(out, common)
    if into is not None and out is not None and out.dtype == torch.bool:
        into = out
    loop, why = _cpu_loop(plan_as_written(facts.op, operands, rest, into, kwargs))
    if kernel == ROWS and loop != "vectorized":
        loop = "vectorized, rows through a buffer"
    return AtenLoop(loop, why, tuple(copies))


def plan_as_written(
    op: str, operands: Sequence[Any], rest: Sequence[Any], out: Any, kwargs: dict[str, Any]
) -> Plan:
    """Plan the loop over operands that have been converted."""
    facts = plan(op, *operands, *rest, out=out, **kwargs)
    assert isinstance(facts, Plan)
    return facts
