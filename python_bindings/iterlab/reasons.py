"""The reasons of a plan in words: one function for each decision that a plan records."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from iterlab.planning import OperandPlan, Plan, ReductionPlan, dtype_name
from iterlab.table import OpEntry
from iterlab.units import bytes_text, loop_text, shape_text

# Of Note [Grain] in engine/cpu/share.h: a thread is woken for this much traffic.
GRAIN_BYTES = 256 * 1024

_CATEGORIES = ("dimensioned", "0-d", "a number")


def _blamed(facts: Plan) -> str:
    return (
        f"`{facts.operands[facts.reason_operand].name}`"
        if facts.reason_operand >= 0
        else "an operand"
    )


def path(facts: Plan) -> str:
    """Say why the plan has its path."""
    who = _blamed(facts)
    how = "broadcast" if 0 in _strides(facts) else "spaced"
    words = {
        "empty": "there are no elements",
        "flat": "coalescing leaves one dim, and every operand is contiguous or constant along it",
        "inner_strided": f"{who} has a stride other than one element along the innermost dim",
        "nested_dims": f"{who} is {how} so that dims remain after coalescing",
        "short_rows": f"{who} keeps dims from coalescing, and rows are short: a tile packs several",
        "fastest_dim_differs": f"{who} is fastest along another dim than the output",
        "tiny_tiles": "the two innermost dims together are too small for a tile",
        "forced": "force_path asked for it",
    }
    return words.get(facts.reason, facts.reason)


def _strides(facts: Plan) -> tuple[int, ...]:
    return facts.operands[facts.reason_operand].strides if facts.reason_operand >= 0 else ()


def summary(facts: Plan | ReductionPlan) -> str:
    """Say the path, or a reduction's form, and its reason in one line."""
    if isinstance(facts, ReductionPlan):
        return f"{facts.form}: {form(facts)}"
    return f"{facts.path}: {path(facts)}"


def category(operand: object) -> int:
    """Give the promotion category: 0 dimensioned, 1 0-d, 2 a number."""
    if not isinstance(operand, torch.Tensor):
        return 2
    return 0 if operand.dim() > 0 else 1


def _number_dtype(operand: object) -> str:
    if isinstance(operand, torch.Tensor):
        return dtype_name(operand.dtype)
    return dtype_name(torch.tensor(operand).dtype)


def promotion(entry: OpEntry, args: Sequence[Any], facts: Plan) -> str:
    """Say the common dtype, which operand decided it, and by which of torch's rules."""
    computed = (
        f"; computed in {facts.compute_dtype}" if facts.compute_dtype != facts.common_dtype else ""
    )
    result = f"; result {facts.result_dtype}" if facts.result_dtype != facts.common_dtype else ""
    return f"{facts.common_dtype}: {_decided(entry, args, facts)}{computed}{result}"


def _decided(entry: OpEntry, args: Sequence[Any], facts: Plan) -> str:
    if entry.promotion == "to_argument":
        return "the dtype argument says so"
    promoted = [
        (name, operand)
        for i, (name, operand) in enumerate(zip(entry.inputs, args, strict=False))
        if entry.promoted_inputs >> i & 1
    ]
    dtypes = {name: _number_dtype(operand) for name, operand in promoted}
    integral = all(not _is_inexact(dtype) for dtype in dtypes.values())
    if (
        entry.promotion in ("int_to_float", "float_to_bool", "int_to_float_complex_to_real")
        and integral
    ):
        return f"{entry.name} of integers computes in the default dtype"
    if entry.promotion == "bool_to_int" and set(dtypes.values()) == {"bool"}:
        return f"{entry.name} of bool computes in int64"
    if len(set(dtypes.values())) == 1:
        return f"{promoted[0][0]} has it" if len(promoted) == 1 else "all promoted operands have it"
    owners = [(name, operand) for name, operand in promoted if dtypes[name] == facts.common_dtype]
    if not owners:
        listed = " and ".join(f"{dtype} (`{name}`)" for name, dtype in dtypes.items())
        return f"{listed} meet in it"
    name, operand = min(owners, key=lambda one: category(one[1]))
    others = [one for one in promoted if dtypes[one[0]] != facts.common_dtype]
    return f"`{name}` ({_CATEGORIES[category(operand)]}) decides, " + "; ".join(
        _yields(other, dtypes[other_name], other_name, operand) for other_name, other in others
    )


def _is_inexact(dtype: str) -> bool:
    return "float" in dtype or "complex" in dtype


def _yields(other: object, dtype: str, name: str, winner: object) -> str:
    if category(other) > category(winner):
        return f"`{name}` ({dtype}, {_CATEGORIES[category(other)]}) is of no higher kind"
    if category(other) < category(winner):
        return f"`{name}` ({dtype}) is of a lower kind and promotes to it"
    return f"{dtype} of `{name}` promotes to it"


def broadcast(entry: OpEntry, args: Sequence[Any], facts: Plan) -> str:
    """Say which operands are broadcast to the shape of the call."""
    spread = [
        f"`{name}` {shape_text(operand.shape)}"
        for name, operand in zip(entry.inputs, args, strict=False)
        if isinstance(operand, torch.Tensor) and tuple(operand.shape) != facts.shape
    ]
    numbers = [
        f"`{name}`"
        for name, one in zip(entry.inputs, args, strict=False)
        if not isinstance(one, torch.Tensor)
    ]
    shape = shape_text(facts.shape)
    if not spread and not numbers:
        return f"none: every operand has shape {shape}"
    return f"{', '.join(spread + numbers)} to {shape}"


def dims(facts: Plan) -> str:
    """Say the loop nest before and after ordering and coalescing, fastest dim first."""
    before, after = loop_text(facts.shape), loop_text(facts.loop_shape)
    if len(facts.shape) <= 1:
        return after
    if not facts.permutation:
        return f"{before}: one dense layout, walked as {after}"
    order = ", ".join(str(dim) for dim in facts.permutation)
    merged = len(facts.shape) - len(facts.loop_shape)
    outcome = f"{merged} coalesced into a neighbour" if merged else "none coalesces"
    return f"{before}, walked fastest first as dims ({order}): {after}, {outcome}"


def tile(facts: Plan) -> str:
    """Say how large a tile is."""
    inner, rows = facts.tile
    if facts.path == "vectorized" and not any(one.staged for one in facts.operands):
        return "none: one run for each thread, every operand in place"
    shape = f"{inner} × {rows}" if rows > 1 else f"{inner}"
    buffers = [f"`{one.name}` in {one.lane_dtype}" for one in facts.operands if one.staged]
    return f"{shape} elements; buffers of {', '.join(buffers)}" if buffers else f"{shape} elements"


def small(facts: Plan) -> str:
    """Say how a call of few elements is computed without a plan."""
    gathered = [f"`{one.name}`" for one in facts.operands if one.staged and not one.is_output]
    first = f"{' and '.join(gathered)} copied element by element, then " if gathered else ""
    return f"no plan is made for so few elements: {first}one run, unless the call is profiled"


def staged(operand: OperandPlan, facts: Plan) -> str:
    """Say whether tiles of an operand are used in place, and if not, what staging does."""
    if facts.path == "generic":
        return (
            "scattered element by element" if operand.is_output else "gathered element by element"
        )
    what = {
        "strided": "scattered" if operand.is_output else "gathered",
        "transposed": "transposed",
        "broadcast": "filled",
        "rows": "packed",
    }
    steps = []
    if operand.staged:
        steps.append("staged: " + what.get(operand.layout, "packed"))
    else:
        steps.append("used in place")
    if operand.dtype != facts.compute_dtype:
        pair = (operand.dtype, facts.compute_dtype)
        first, last = reversed(pair) if operand.is_output else pair
        step = f"converted {first} → {last}"
        if operand.lane_dtype == operand.dtype:
            step += " as it is written" if operand.is_output else " as it is read"
        steps.append(step)
    if operand.streamed:
        steps.append("past the caches")
    return ", ".join(steps)


def threads(entry: OpEntry, traffic: int) -> str:
    """Say how many threads the call may use."""
    # The operator's weight is not in every build's table.
    work = traffic * float(getattr(entry, "cost", 1.0))
    if work < 2 * GRAIN_BYTES:
        return f"1, because a second one is woken from {bytes_text(2 * GRAIN_BYTES)} of traffic on"
    available = torch.get_num_threads()
    return f"up to {max(1, min(available, int(work // GRAIN_BYTES)))} of {available}"


def reduced(facts: ReductionPlan) -> str:
    """Say which dims are reduced and what is left."""
    which = (
        "all dims"
        if len(facts.dims) == len(facts.shape)
        else f"dims ({', '.join(map(str, facts.dims))})"
    )
    return (
        f"{which} of {shape_text(facts.shape)} reduced to {shape_text(facts.output_shape)}: "
        f"{facts.outputs} × {facts.reduced} elements"
    )


def reduction_types(facts: ReductionPlan) -> str:
    """Say in which dtypes elements are read, converted, collected and returned."""
    first = f"{facts.input_dtype} elements"
    if facts.element_dtype != facts.input_dtype:
        first += f", converted to {facts.element_dtype},"
    return f"{first} are collected in {facts.accumulate_dtype}; result {facts.result_dtype}"


def form(facts: ReductionPlan) -> str:
    """Say why a reduction has its form."""
    words = {
        "inner": "a reduced dim is fastest in memory: it is read along vectors of accumulators",
        "outer": "a kept dim is fastest in memory: rows are added, an accumulator for each lane",
        "short inner": f"a reduced dim is fastest in memory, but {facts.reduced} elements "
        "a result are too few for vectors: tiles are transposed and reduced as rows",
    }
    return words.get(facts.form, facts.form)


def split(facts: ReductionPlan) -> str:
    """Say whether threads may share the elements of one result."""
    if facts.split:
        return "they may share one result's elements, in blocks that give the same bits always"
    return "each result is one thread's"
