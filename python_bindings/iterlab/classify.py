"""Which kind of kernel ran: by its name on a device, by operator and layouts on the CPU."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from iterlab import aten_loop
from iterlab.aten_loop import AtenLoop, predict
from iterlab.callee import twin_of
from iterlab.physical import undisturbed
from iterlab.planning import Plan, ReductionPlan, plan
from iterlab.trace import Node, Trace

# The kinds, in the order in which a report lists them.
VIEW, ALLOCATION = "view, no kernel", "allocation, no kernel"
RAISED = "raised an error, no kernel"
VECTORIZED, UNROLLED, STRIDED = "vectorized", "unrolled with casts", "strided"
SCALAR = "scalar"  # elementwise, by a kernel that has no vectors for any layout
REDUCTION, COPY, VENDOR = "reduction", "copy", "vendor library"
COMPILED = "compiled (Triton, C++)"
ITERLAB, OTHER = "iterlab", "other"
KINDS = (VENDOR, ITERLAB, VECTORIZED, COMPILED, REDUCTION, COPY, UNROLLED, STRIDED, SCALAR, OTHER)

# Names of device kernels; the first that matches counts.
_DEVICE_KERNELS = (
    (r"\biterlab::", ITERLAB),
    (r"^triton_", COMPILED),
    (r"nchwToNhwc|nhwcToNchw|Memcpy|CatArrayBatchedCopy|copy_kernel|transpose_kernel", COPY),
    (r"gemm|gemv|dot_kernel|cutlass|cublas|cudnn|xmma|nvjet|convolve|winograd", VENDOR),
    (r"flash|fmha|wgrad|dgrad|implicit_", VENDOR),
    (r"gather|scatter|index|distribution", OTHER),
    (r"vectorized_\w*elementwise_kernel|multi_tensor_apply_kernel", VECTORIZED),
    (r"unrolled_elementwise_kernel", UNROLLED),
    (r"elementwise_kernel", STRIDED),
    (r"reduce_kernel|Reduce|[sS]oft[mM]ax|[nN]orm|Moments|[pP]ool", REDUCTION),
)

_VENDOR_OPERATORS = re.compile(
    r"^aten::(addmm|mm|bmm|baddbmm|addmv|mv|dot|_convolution|convolution\w*|mkldnn_\w+|thnn_conv\w*|"
    r"_slow_conv\w*|slow_conv\w*|_scaled_dot_product\w+|_scaled_mm|_mm\w*|linear)$"
)
_COPIES = ("aten::copy_", "aten::clone", "aten::cat", "aten::stack")
_ALLOCATIONS = re.compile(r"^aten::(empty\w*|new_empty\w*|resize_|set_)$")
# Composites by torch's own account, which give a view where they can.
_VIEWS_OF_COMPOSITES = ("aten::resolve_conj", "aten::resolve_neg", "aten::reshape", "aten::detach_")


def device_kernel(name: str) -> str:
    """Classify a device kernel by its name."""
    return next((kind for pattern, kind in _DEVICE_KERNELS if re.search(pattern, name)), OTHER)


@cache
def _facts(name: str) -> tuple[bool, bool]:
    """Say of an operator whether it gives a view, and whether it is elementwise."""
    library, _, base = name.partition("::")
    packet = getattr(getattr(torch.ops, library, None), base, None)
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return False, False
    overloads = [getattr(packet, overload) for overload in packet.overloads()]  # type: ignore[no-untyped-call]
    first = overloads[0]._schema.returns
    aliases = [one.alias_info for one in first]
    view = bool(aliases) and all(one is not None and not one.is_write for one in aliases)
    return view, any(torch.Tag.pointwise in one.tags for one in overloads)


@dataclass(frozen=True)
class Twin:
    """An operator of ATen in a profile, planned as its twin: the plan, and ATen's loop as
    predicted.
    """

    facts: Plan | ReductionPlan
    loop: AtenLoop | None


def twin(node: Node) -> Twin | None:
    """Plan an operator of ATen as its twin, from the operands in the profile, and predict its loop.

    None where it has no twin or the profile does not tell enough of the call: of a reduction, it
    does not tell the dims.
    """
    entry = twin_of(node.name)
    tensors = node.operands[: len(entry.inputs)] if entry is not None else ()
    if entry is None or not any(tensors):
        return None
    inplace = node.name.endswith("_")
    device = "cuda" if any(one and one.device == "cuda" for one in node.operands) else "cpu"
    args: list[Any] = [1.0 if one is None else one.meta() for one in tensors]
    args += [1.0] * (len(entry.inputs) - len(args))
    args += [1.0 for one in entry.parameters if one.default is None]
    # What follows the inputs and is a tensor is out=.
    given = [one for one in node.operands[len(entry.inputs) :] if one is not None]
    out = given[-1].meta() if given and "out" in entry.variants and not inplace else None
    try:
        with undisturbed():
            facts = plan(entry.name + "_" * inplace, *args, out=out)
            if isinstance(facts, Plan):
                return Twin(facts, predict(entry, args, out, {}, facts, device))
            return Twin(facts, None)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
        return None


def _raised(node: Node) -> bool:
    """Whether a call has raised an error: its operands do not broadcast, or not to what it writes.

    A profile does not tell.
    """
    entry = twin_of(node.name)
    if entry is None or entry.kind != "elementwise":
        return False
    operands = node.operands[: len(entry.inputs)]
    sizes = [() if one is None else one.sizes for one in operands]
    try:
        shape = torch.broadcast_shapes(*sizes)  # type: ignore[no-untyped-call]
    except RuntimeError:
        return True
    return node.name.endswith("_") and bool(sizes) and shape != sizes[0]


def _operator(node: Node) -> str:
    if any(child.kind == "kernel" for child in node.children):
        return ""
    if _raised(node):
        return RAISED
    view, pointwise = _facts(node.name)
    if view or node.name in _VIEWS_OF_COMPOSITES:
        return "" if any(child.kind == "operator" for child in node.children) else VIEW
    if _ALLOCATIONS.match(node.name):
        return ALLOCATION
    if any(one is not None and one.device == "cuda" for one in node.operands):
        return ""  # its kernels are rows of their own; the host's time is none
    if _VENDOR_OPERATORS.match(node.name):
        return VENDOR if node.own > 0.2 * node.seconds else ""
    if node.name in _COPIES:
        return COPY if node.own > 0.2 * node.seconds else ""
    if node.own < 0.2 * node.seconds and node.children:
        return ""
    found = twin(node)
    if (found is not None and isinstance(found.facts, ReductionPlan)) or re.search(
        r"norm(?!al)|softmax|sum|mean|var|pool", node.name
    ):
        return REDUCTION
    if found is not None and found.loop is not None:
        if found.loop.loop == aten_loop.SCALAR:
            return SCALAR
        return VECTORIZED if found.loop.loop.startswith("vectorized") else STRIDED
    return VECTORIZED if pointwise and _all_dense(node) else STRIDED if pointwise else OTHER


def _all_dense(node: Node) -> bool:
    given = [one for one in node.operands if one is not None]
    return len({(one.sizes, one.strides) for one in given if one.sizes}) <= 1


def classify(trace: Trace) -> None:
    """Set `loop` of every operator that did work of its own, and of every kernel."""
    for node in trace.walk():
        if node.kind == "kernel":
            node.loop = ITERLAB if node.name.startswith("iterlab::") else device_kernel(node.name)
        elif "CompiledFxGraph" in node.name:  # on the CPU its kernels make no rows of their own
            node.loop = COMPILED if node.own > 0.2 * node.seconds else ""
        elif node.kind == "operator" and node.name.startswith(("aten::", "iterlab::", "prims::")):
            node.loop = "" if node.name == "iterlab::plan" else _operator(node)
