"""The plan of a call as a Python object: every decision that the kernel would get, made without
touching data.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves, tree_map

from iterlab import _C
from iterlab.callee import Overload, functional_overload, resolve
from iterlab.physical import outside_graphs, undisturbed
from iterlab.table import OpEntry

Tensors = Sequence["torch.Tensor | complex"]
Call = tuple[Overload, tuple[Any, ...], dict[str, Any]]


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
    distinct element once. `small` says that on a CPU so small a call is one run of the kernel, for
    which no plan is made, unless it is profiled.
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
    small: bool

    def to_dict(self) -> dict[str, Any]:
        """Give the plan as plain data, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class ReductionPlan:
    """The plan of a reduction.

    `outputs` results of `reduced` elements each; `results` has the names and dtypes of the tensors
    that hold them. `form` says which dims are fastest in memory: inner (reduced ones), outer (kept
    ones) or short inner (reduced, too few for a vector). Strides are in bytes, fastest first,
    coalesced. `split` says whether the elements of one result may be shared between threads; the
    result has the same bits either way.
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
    results: tuple[tuple[str, str], ...]
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


def has_strides(tensor: torch.Tensor) -> bool:
    """Say whether sizes and strides tell where a tensor's elements are: a sparse one's do not."""
    return tensor.layout is torch.strided and not tensor.is_nested


def describe(operand: torch.Tensor | complex, name: str = "a tensor") -> _C.Operand:
    """Describe a tensor or a Python number to the planner; errors call it `name`."""
    if isinstance(operand, torch.Tensor):
        if not has_strides(operand):
            layout = "nested" if operand.is_nested else str(operand.layout).removeprefix("torch.")
            raise NotImplementedError(
                f"iterlab: expected strided tensors, got {name}, a {layout} one"
            )
        if operand.is_conj() or operand.is_neg():  # a kernel gets a copy of it
            return describe(_without_data(operand, "meta").clone(), name)
        address = operand.data_ptr() if _has_data(operand) else 0
        return _C.Operand(
            list(operand.shape), list(operand.stride()), dtype_name(operand.dtype), False, address
        )
    if isinstance(operand, bool | int | float | complex):
        return _C.Operand([], [], dtype_name(torch.tensor(operand).dtype), wrapped_number=True)
    raise TypeError(
        f"iterlab: expected a tensor or a number as {name}, got {type(operand).__name__}"
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
        [describe(one, name) for one, name in zip(tensors, entry.inputs, strict=True)],
        None if out is None else describe(out, "out"),
        inplace,
        "" if dtype is None else dtype_name(dtype),
        dtype_name(torch.get_default_dtype()),
        entry.rounding is not None and arguments.get(entry.rounding) is not None,
    )
    operands = tuple(OperandPlan(**operand) for operand in facts.pop("operands"))
    legal_paths = tuple(facts.pop("legal_paths"))
    return Plan(operands=operands, legal_paths=legal_paths, **facts)


def _outs(overload: Overload) -> set[str]:
    return {one.name for one in overload._schema.arguments if one.is_out}


def _without_data(value: Any, device: torch.device | str | None = None) -> Any:
    """Give a tensor's like that holds nothing, on its device or another; what else, as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(
        value.shape, value.stride(), dtype=value.dtype, device=device or value.device
    )


def _as_autograd_sees(value: Any) -> Any:
    """Give a tensor's like on device "meta": a leaf, or a view of one, where the tensor is."""
    if not isinstance(value, torch.Tensor):
        return value
    base = value._base
    if value.requires_grad and not value.is_leaf and base is not None and base.is_leaf:
        leaf = _as_autograd_sees(base)
        return leaf.as_strided(value.shape, value.stride(), value.storage_offset())
    like = _without_data(value, "meta").requires_grad_(value.requires_grad)
    return like if value.is_leaf else like.clone()


def rehearse(overload: Overload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run a call on operands without data, and give its results as autograd makes them. Raises what
    the call itself would raise; NotImplementedError where the operator does not run without data.
    """
    given = tree_leaves((tuple(args), dict(kwargs)))
    tensors = [one for one in given if isinstance(one, torch.Tensor)]
    placed = any(isinstance(one, torch.device) for one in given)
    if placed or not tensors or not all(map(has_strides, tensors)):
        raise NotImplementedError
    grad = torch.is_grad_enabled()
    with undisturbed(), torch.inference_mode(False):
        with torch.enable_grad():
            operands, named = tree_map(_as_autograd_sees, (tuple(args), dict(kwargs)))
        try:
            with torch.set_grad_enabled(grad), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return overload(*operands, **named)
        except AssertionError as error:  # of a Meta kernel in Python: the call itself has none
            raise NotImplementedError from error
        except RuntimeError as error:
            if "meta" in str(error).lower():
                raise NotImplementedError from error
            raise


def _results_on_meta(
    overload: Overload, args: Sequence[Any], kwargs: dict[str, Any]
) -> list[torch.Tensor]:
    """Give the results of a call, without data. Raises what the call raises for the values of its
    arguments, which the planner does not see: the Meta kernel makes the same checks.
    """
    with _disable_current_modes():
        operands = [_without_data(value, "meta") for value in args]
    outs = _outs(overload)
    arguments = {name: value for name, value in kwargs.items() if name not in outs}
    packet = getattr(torch.ops.iterlab, overload._schema.name.partition("::")[2])
    kernel: Overload = getattr(packet, functional_overload(overload) or "default")
    # Straight to that kernel: no mode, transform or profiler sees a call.
    meta = torch._C.DispatchKeySet(torch._C.DispatchKey.Meta)
    found = kernel.redispatch(meta, *operands, **arguments)
    return [found] if isinstance(found, torch.Tensor) else list(found)


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the calls that reach a backend."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func.namespace != "prim":  # questions about a tensor, such as its device
            self.calls.append((func, args, kwargs or {}))
        return func(*args, **(kwargs or {}))


def unfold(overload: Overload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Call]:
    """Give the calls that an operator makes which is written from others, with operands without
    data.
    """
    from torch._subclasses.fake_tensor import FakeTensorMode

    # Inference mode would leave out the layer that unfolds.
    with undisturbed(), torch.inference_mode(False), FakeTensorMode():
        operands, named = tree_map(_without_data, (tuple(args), kwargs))
        with _Recorder() as recorder:
            overload(*operands, **named)
    calls: list[Call] = recorder.calls
    return calls


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
    entry: OpEntry, overload: Overload, args: Sequence[Any], kwargs: dict[str, Any]
) -> ReductionPlan:
    schema = overload._schema
    given = dict(zip((one.name for one in schema.arguments), args, strict=False)) | kwargs
    outputs = [given[one.name] for one in schema.arguments if one.is_out]
    dim, dtype = given.get("dim"), given.get("dtype")
    facts = _C.make_reduce_plan(
        entry.name,
        describe(args[0], entry.inputs[0]),
        [dim] if isinstance(dim, int) else None if dim is None else list(dim),
        given.get("keepdim", False),
        describe(outputs[0], "out") if outputs else None,
        "" if dtype is None else dtype_name(dtype),
        entry.overload,
        _reduction_number(given),
    )
    results = tuple(
        (one.name or "out", dtype_name(result.dtype))
        for one, result in zip(
            schema.returns, _results_on_meta(overload, args, kwargs), strict=True
        )
    )
    return ReductionPlan(dims=tuple(facts.pop("dims")), results=results, **facts)


@outside_graphs
def plan(
    op: str, *args: Any, out: torch.Tensor | None = None, **kwargs: Any
) -> Plan | ReductionPlan:
    """Plan a call of operator `op` ("add", "add_", "sum") with these arguments, without running it.

    The arguments are those of `torch.ops.iterlab.<op>`. The object shows what the kernel would get:
    the same planner makes both. Raises what the call itself would raise: RuntimeError for shapes
    that do not broadcast or an output that cannot be written, IndexError for a dim out of range,
    NotImplementedError for a dtype that the operator does not compute; ValueError for an unknown
    operator and for one that is written from others, TypeError for arguments that it does not take.
    """
    callee, given, kwargs = resolve(f"iterlab::{op}", args, kwargs | {"out": out})
    entry, overload = callee.entry, callee.overload
    if entry is None:
        calls = [call._schema.name for call, _, _ in unfold(overload, given, kwargs)]
        raise ValueError(
            f"iterlab: expected an operator with a plan of its own, got '{op}', which calls "
            f"{', '.join(calls) or 'none here'}: iterlab.explain plans them"
        )
    if entry.kind == "reduction":
        return _plan_reduction(entry, overload, given, kwargs)
    names = (one.name for one in overload._schema.arguments)
    arguments = dict(zip(names, given, strict=False)) | kwargs
    tensors = [arguments.pop(name) for name in entry.inputs]
    out = arguments.pop("out", None)
    plan = _plan_elementwise(entry, tensors, out, op.endswith("_"), arguments)
    _results_on_meta(overload, given, kwargs)
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
