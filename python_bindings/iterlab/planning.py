"""The plan of a call as a Python object: every decision that the kernel would get, made without
touching data.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from iterlab import _C
from iterlab.table import OpEntry, find

Tensors = Sequence["torch.Tensor | complex"]


@dataclass(frozen=True)
class OperandPlan:
    """How one operand is walked.

    `layout` is its class along the innermost dim: contiguous, broadcast, strided, transposed or
    rows. `lane_dtype` is the one in which the kernel finds its elements: the compute type, or the
    operand's own where the kernel converts as it reads or writes. `staged` says whether tiles of it
    go through a buffer of that dtype, or are used in place; `streamed`, of an output, that it is
    written past the caches. `strides` are in bytes, in iteration order, fastest dim first.
    """

    name: str
    is_output: bool
    dtype: str
    layout: str
    lane_dtype: str
    staged: bool
    streamed: bool
    strides: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """The plan of an elementwise call.

    `shape` is the broadcast shape, `output_strides` (in elements) the layout of an output that the
    call allocates. `loop_shape` has the dims in iteration order, fastest first, coalesced;
    `permutation` says which dim of `shape` each was before coalescing (empty if all operands share
    one dense layout). `tile` is (elements along the innermost dim, rows). `bytes` counts each
    distinct element once.
    """

    op: str
    shape: tuple[int, ...]
    numel: int
    common_dtype: str
    compute_dtype: str
    result_dtype: str
    promoted_by: str
    output_strides: tuple[int, ...]
    resizes_output: bool
    permutation: tuple[int, ...]
    loop_shape: tuple[int, ...]
    operands: tuple[OperandPlan, ...]
    path: str
    reason: str
    reason_operand: int
    legal_paths: tuple[str, ...]
    tile: tuple[int, int]
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Give the plan as plain data, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class ReductionPlan:
    """The plan of a reduction.

    `outputs` results of `reduced` elements each. `form` says which dims are fastest in memory:
    inner (reduced ones), outer (kept ones) or short inner (reduced, too few for a vector). Strides
    are in bytes, fastest first, coalesced. `split` says whether the elements of one result may be
    shared between threads; the result has the same bits either way.
    """

    op: str
    shape: tuple[int, ...]
    dims: tuple[int, ...]
    output_shape: tuple[int, ...]
    output_strides: tuple[int, ...]
    input_dtype: str
    element_dtype: str
    accumulate_dtype: str
    result_dtype: str
    resizes_output: bool
    outputs: int
    reduced: int
    kept_shape: tuple[int, ...]
    kept_strides: tuple[int, ...]
    reduced_shape: tuple[int, ...]
    reduced_strides: tuple[int, ...]
    form: str
    split: bool
    staged: bool
    bytes: int

    def to_dict(self) -> dict[str, Any]:
        """Give the plan as plain data, for JSON."""
        return asdict(self)


def dtype_name(dtype: torch.dtype) -> str:
    """Give the name of a dtype without "torch."."""
    return str(dtype).removeprefix("torch.")


def _has_data(tensor: torch.Tensor) -> bool:
    """Say whether a tensor has memory: those on "meta" and fake ones have none."""
    from torch._subclasses.fake_tensor import FakeTensor

    return not (tensor.is_meta or isinstance(tensor, FakeTensor))


def describe(operand: torch.Tensor | complex) -> _C.Operand:
    """Describe a tensor or a Python number to the planner."""
    if isinstance(operand, torch.Tensor):
        address = operand.data_ptr() if _has_data(operand) else 0
        return _C.Operand(
            list(operand.shape), list(operand.stride()), dtype_name(operand.dtype), False, address
        )
    if isinstance(operand, bool | int | float | complex):
        return _C.Operand([], [], dtype_name(torch.tensor(operand).dtype), wrapped_number=True)
    raise TypeError(
        f"iterlab: expected tensors and numbers as operands, got {type(operand).__name__}"
    )


def _plan_elementwise(
    entry: OpEntry,
    tensors: Tensors,
    out: torch.Tensor | None,
    inplace: bool,
    arguments: dict[str, Any],
) -> Plan:
    dtype = arguments.get("dtype")
    facts = _C.make_plan(
        entry.name,
        [describe(tensor) for tensor in tensors],
        None if out is None else describe(out),
        inplace,
        "" if dtype is None else dtype_name(dtype),
        dtype_name(torch.get_default_dtype()),
        entry.rounding is not None and arguments.get(entry.rounding) is not None,
    )
    operands = tuple(OperandPlan(**operand) for operand in facts.pop("operands"))
    legal_paths = tuple(facts.pop("legal_paths"))
    return Plan(operands=operands, legal_paths=legal_paths, **facts)


def _overload(
    op: str, args: Sequence[Any], kwargs: dict[str, Any]
) -> torch._ops.OpOverload[..., Any]:
    """Find the overload of `torch.ops.iterlab.<op>` that takes a call, or raise RuntimeError."""
    name = torch._C._jit_resolve_packet(f"iterlab::{op}", *args, **kwargs)
    found: torch._ops.OpOverload[..., Any] = getattr(getattr(torch.ops.iterlab, op), name)
    return found


def _check_arguments(op: str, tensors: Tensors, arguments: dict[str, Any]) -> None:
    """Raise what the call raises for the values of its arguments, which the planner does not see:
    its Meta kernel makes the same checks.
    """

    def without_data(operand: torch.Tensor | complex) -> torch.Tensor | complex:
        if not isinstance(operand, torch.Tensor):
            return operand
        return torch.empty_strided(
            operand.shape, operand.stride(), dtype=operand.dtype, device="meta"
        )

    with _disable_current_modes():
        operands = [without_data(operand) for operand in tensors]
    kernel = _overload(op, operands, arguments)
    # Straight to that kernel: no mode, transform or profiler sees a call.
    kernel.redispatch(torch._C.DispatchKeySet(torch._C.DispatchKey.Meta), *operands, **arguments)


def functional_overload(overload: torch._ops.OpOverload[..., Any]) -> str:
    """Name the functional overload that an overload or its out variant belongs to, "" for
    "default".
    """
    name = overload._overloadname
    return "" if name in ("default", "out") else name.removesuffix("_out")


def _reduction_number(given: dict[str, Any]) -> float:
    """Give the number of a reduction: a norm's order, a variance's correction."""
    if "unbiased" in given:
        return float(given["unbiased"])
    order = given.get("p", given.get("ord"))
    if order is not None:
        return 2.0 if order == "fro" else float(order)
    correction = given.get("correction")
    return 1.0 if correction is None else float(correction)


def _plan_reduction(
    op: str, args: Sequence[Any], out: torch.Tensor | None, kwargs: dict[str, Any]
) -> ReductionPlan:
    kwargs = kwargs if out is None else kwargs | {"out": out}
    try:
        overload = _overload(op, args, kwargs)
    except RuntimeError as error:
        raise TypeError(str(error).strip().splitlines()[0]) from None
    arguments = overload._schema.arguments
    given = dict(zip((one.name for one in arguments), args, strict=False)) | kwargs
    outputs = [given[one.name] for one in arguments if one.is_out]
    entry = find(op, functional_overload(overload))
    dim, dtype = given.get("dim"), given.get("dtype")
    facts = _C.make_reduce_plan(
        op,
        describe(args[0]),
        [dim] if isinstance(dim, int) else None if dim is None else list(dim),
        given.get("keepdim", False),
        describe(outputs[0]) if outputs else None,
        "" if dtype is None else dtype_name(dtype),
        entry.overload,
        _reduction_number(given),
    )
    return ReductionPlan(dims=tuple(facts.pop("dims")), **facts)


def plan(
    op: str, *args: Any, out: torch.Tensor | None = None, **kwargs: Any
) -> Plan | ReductionPlan:
    """Plan a call of operator `op` ("add", "add_", "sum") with these arguments, without running it.

    The arguments are those of `torch.ops.iterlab.<op>`. The object shows what the kernel would get:
    the same planner makes both. Raises what the call itself would raise: RuntimeError for shapes
    that do not broadcast or an output that cannot be written, IndexError for a dim out of range,
    NotImplementedError for a dtype that the operator does not compute; ValueError for an unknown
    operator.
    """
    inplace = op.endswith("_")
    entry = find(op.removesuffix("_"))
    if inplace and "inplace" not in entry.variants:
        raise ValueError(f"iterlab: expected an operator with an in-place variant, got '{op}'")
    given = len(entry.inputs)
    if len(args) < given:
        raise TypeError(
            f"iterlab::{entry.name}: expected operands {', '.join(entry.inputs)}, got {len(args)}"
        )
    tensors, rest = args[:given], args[given:]
    if entry.kind == "reduction":
        return _plan_reduction(entry.name, args, out, kwargs)
    names = [parameter.name for parameter in entry.parameters]
    positional = [parameter.name for parameter in entry.parameters if not parameter.keyword_only]
    if len(rest) > len(positional):
        most = given + len(positional)
        raise TypeError(
            f"iterlab::{entry.name}: expected at most {most} positional arguments, got {len(args)}"
        )
    arguments = dict(zip(positional, rest, strict=False)) | kwargs
    unknown = set(arguments) - set(names)
    if unknown:
        raise TypeError(f"iterlab::{entry.name}: expected arguments {names}, got {sorted(unknown)}")
    plan = _plan_elementwise(entry, tensors, out, inplace, arguments)
    _check_arguments(op, tensors, arguments)
    return plan


@contextmanager
def force_path(path: str) -> Iterator[None]:
    """Make calls of this thread take `path` ("vectorized", "strided", "tiled" or "generic") inside
    the block.

    For tests and benchmarks: `generic` can run every call, the others those whose
    `plan.legal_paths` has them. A call that the path cannot run raises RuntimeError; an unknown
    path, ValueError. Reductions are not affected.
    """
    before = _C.force_path(path)
    try:
        yield
    finally:
        _C.force_path(before)
