"""The sections of an explanation: operator, dispatch, operands, types, loop, ATen, measurement."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from iterlab import _C, reasons
from iterlab.aten_loop import AtenLoop
from iterlab.dispatch import Dispatch, Keys, Signature
from iterlab.launches import Launch
from iterlab.measured import Measured
from iterlab.planning import Plan, ReductionPlan, dtype_name
from iterlab.rate import LEAST_TRAFFIC, add_seconds
from iterlab.sections import Section
from iterlab.table import OpEntry
from iterlab.timing import UNSTEADY
from iterlab.units import bytes_text, loop_text, shape_text, time_text

# Bytes of a vector register, by capability.
_VECTOR_BYTES = {"default": 16, "avx2": 32, "avx512": 64}


def operator_section(signature: Signature) -> Section:
    """Say which overload was chosen and what it promises."""
    lines = [
        ("overload", f"{signature.name}.{signature.overload}"),
        ("writes", "; ".join(signature.aliases) or "nothing; the result is a new tensor"),
        ("tags", ", ".join(signature.tags) or "none"),
    ]
    return Section("Operator", tuple(lines))


def _keys_text(keys: Keys) -> str:
    """List keys; those of autocast, one a backend, count as one."""
    autocast = [key for key in keys if key.startswith("Autocast")]
    if len(autocast) > 2:
        keys = (*(key for key in keys if key not in autocast), "Autocast of every backend")
    return ", ".join(keys) or "none"


def dispatch_section(facts: Dispatch) -> Section:
    """Show the layers in call order."""
    rows = [("layer", "", "what it does", "kernel")]
    for layer in facts.layers:
        rows.append((layer.key, layer.state, layer.what, layer.kernel.partition(" [")[0]))
    lines = [(f"keys of {name}", _keys_text(keys)) for name, keys in facts.operands]
    lines += [
        ("this thread adds", _keys_text(facts.included)),
        ("and excludes", _keys_text(facts.excluded)),
    ]
    return Section("Dispatch, in call order", tuple(lines), tuple(rows))


def _operand_text(operand: object) -> tuple[str, str, str]:
    if isinstance(operand, torch.Tensor):
        return dtype_name(operand.dtype), shape_text(operand.shape), shape_text(operand.stride())
    return type(operand).__name__, f"number {operand}", ""


def call_section(
    entry: OpEntry,
    args: Sequence[Any],
    outs: Mapping[str, torch.Tensor],
    inplace: bool,
    facts: Plan | ReductionPlan,
) -> Section:
    """Show the operands and the results as tensors; `outs` are those that the call was given."""
    if isinstance(facts, ReductionPlan):
        shape, results = facts.output_shape, facts.results
    else:
        shape, results = facts.shape, (("out", facts.result_dtype),)
    rows = [("operand", "dtype", "shape", "strides (elements)", "")]
    for name, operand in zip(entry.inputs, args, strict=False):
        rows.append((name, *_operand_text(operand), ""))
    if inplace:
        rows.append(("result", *_operand_text(args[0]), "written in place"))
        return Section("Operands", (), tuple(rows))
    for name, dtype in results:
        given = outs.get(name)
        if given is not None and not facts.resizes_output:
            rows.append((name, *_operand_text(given), "given"))
            continue
        dtype = dtype if given is None else dtype_name(given.dtype)
        what = "new" if given is None else "resized"
        rows.append((name, dtype, shape_text(shape), shape_text(facts.output_strides), what))
    return Section("Operands", (), tuple(rows))


def calls_section(calls: Iterable[tuple[str, Plan | ReductionPlan | None]]) -> Section:
    """List the operators that one calls which is written from others, each with its path."""
    lines = [(name, "" if facts is None else reasons.summary(facts)) for name, facts in calls]
    return Section("Calls of other operators", tuple(lines))


def _work_lines(
    entry: OpEntry, facts: Plan | ReductionPlan, device: str, launches: Sequence[Launch]
) -> list[tuple[str, str]]:
    """Say who does the work: vectors and threads of the CPU, or what a GPU launches."""
    if device == "cuda":
        shown = "; ".join(map(str, launches)) or "not known without operands in the GPU's memory"
        return [("launch", shown)]
    if isinstance(facts, ReductionPlan):
        return [("threads", f"{reasons.threads(entry, facts.bytes)}; {reasons.split(facts)}")]
    return [
        ("vector", _vector_text(facts.compute_dtype)),
        ("threads", reasons.threads(entry, facts.bytes)),
    ]


def plan_sections(
    entry: OpEntry, args: Sequence[Any], facts: Plan, device: str, launches: Sequence[Launch]
) -> list[Section]:
    """Show an elementwise plan; on a GPU, with what it launches."""
    rows = [("operand", "dtype", "layout", "byte strides", "tiles of it are")]
    for one in facts.operands:
        staged = reasons.staged(one, facts)
        rows.append((one.name, one.dtype, one.layout, shape_text(one.strides), staged))
    lines = [
        ("broadcast", reasons.broadcast(entry, args, facts)),
        ("promotion", reasons.promotion(entry, args, facts)),
        ("dims", reasons.dims(facts)),
    ]
    run = [
        ("path", f"{facts.path}, because {reasons.path(facts)} ({facts.reason})"),
        *([("tile", reasons.tile(facts))] if device == "cpu" else []),
        *([("small", reasons.small(facts))] if device == "cpu" and facts.small else []),
        *_work_lines(entry, facts, device, launches),
        ("memory", f"{bytes_text(facts.bytes)}, each element once"),
        ("expected", _expected_text(facts.bytes, device)),
        (
            "also legal",
            ", ".join(path for path in facts.legal_paths if path != facts.path) or "nothing else",
        ),
    ]
    return [Section("Shapes and types", tuple(lines)), Section("Loop", tuple(run), tuple(rows))]


def reduction_sections(
    entry: OpEntry, facts: ReductionPlan, device: str, launches: Sequence[Launch]
) -> list[Section]:
    """Show the plan of a reduction; on a GPU, with what it launches."""
    types = [
        ("dims", reasons.reduced(facts)),
        ("types", reasons.reduction_types(facts)),
    ]
    rows = [
        ("dims", "loops", "byte strides"),
        ("kept", loop_text(facts.kept_shape), shape_text(facts.kept_strides)),
        ("reduced", loop_text(facts.reduced_shape), shape_text(facts.reduced_strides)),
    ]
    run = [
        ("form", f"{facts.form}, because {reasons.form(facts)}"),
        (
            "elements",
            "staged through a buffer in the accumulate type" if facts.staged else "used in place",
        ),
        ("memory", f"{bytes_text(facts.bytes)}, each element once"),
        *_work_lines(entry, facts, device, launches),
        ("expected", _expected_text(facts.bytes, device)),
    ]
    return [Section("Shapes and types", tuple(types)), Section("Loop", tuple(run), tuple(rows))]


def _vector_text(compute_dtype: str) -> str:
    capability = _C.cpu_capability()
    width = _VECTOR_BYTES.get(capability)
    if width is None:
        return capability
    lanes = width // getattr(torch, compute_dtype).itemsize
    return f"{capability}: {width} bytes, {lanes} lanes of {compute_dtype}"


def _expected_text(traffic: int, device: str) -> str:
    seconds = add_seconds(traffic, device)
    if traffic <= LEAST_TRAFFIC:
        return f"{time_text(seconds)}, as long as any call takes: so few bytes do not count"
    rate = bytes_text(traffic / seconds)
    return (
        f"{time_text(seconds)} where memory is the limit: "
        f"a contiguous add moves {rate}/s here at this size"
    )


def aten_section(loop: AtenLoop) -> Section:
    """Show what ATen's iterator would do."""
    lines = [("loop", f"{loop.loop}, because {loop.why}")]
    lines += [
        (
            "copy",
            f"`{copy.operand}` is cast {copy.source} → {copy.target} in a copy "
            f"of {bytes_text(copy.bytes)} around the loop",
        )
        for copy in loop.copies
    ]
    return Section("ATen's iterator, predicted by its rules", tuple(lines))


def measured_section(measured: Measured, traffic: int | None) -> Section:
    """Show a measurement; `traffic` in bytes gives its share of the memory rate."""
    spread = f"± {100 * measured.spread:.0f} %"
    if measured.spread > UNSTEADY:
        spread = "but unsteady: other work on this machine disturbs it; measure again"
    lines = [("time", f"{time_text(measured.seconds)} {spread}")]
    if traffic and measured.memory_seconds:
        rate = traffic / measured.seconds
        share = measured.memory_seconds / measured.seconds
        text = f"{bytes_text(rate)}/s, {share:.2f} of a contiguous add's in the same rounds"
        lines.append(("rate", text))
    # Shares, not times: a profiled call may get new memory where the timed ones reuse theirs.
    total = sum(seconds for _, seconds in measured.kernels) or 1.0
    kernels = ", ".join(
        f"{name} ({100 * seconds / total:.0f} %)" for name, seconds in measured.kernels
    )
    lines += [
        ("kernels", kernels or "none"),
        ("page faults", f"{measured.page_faults}"),
        ("allocated", bytes_text(measured.allocated)),
    ]
    return Section("Measured", tuple(lines))
