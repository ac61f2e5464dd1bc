"""What ATen's own reduction kernels would do with a call: a prediction by their published rules.

The rules are those of aten/src/ATen/native/ReduceOps.cpp (which input is cast through a copy) and
of native/cpu/{SumKernel,ReduceOpsKernel}.cpp, native/cpu/Reduce.h and native/cuda/Reduce.cuh (which
loop runs). ATen's iterator puts reduced dims before kept ones, each fastest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from iterlab.aten_loop import SCALAR, AtenLoop, CastCopy, converted
from iterlab.planning import ReductionPlan, dtype_name, plan
from iterlab.table import OpEntry, aten_name

INNER, OUTER = "vectorized along the reduced dim", "vectorized along a kept dim"
ALONE = "one element at a time, each result on its own"
OWN = "a loop of its own for one result"
CUDA_STRIDED = "an offset for each element"

# ATen's kernels on the CPU by the operator's name. Sums of floats cascade; others keep vectors of
# partial results; the rest calls a function for each element. What stands nowhere unfolds into
# several operators or has a kernel that is no reduction of the iterator.
_CASCADE = ("sum", "nansum", "mean")
_VECTORS = ("prod", "amax", "amin", "any", "all")
_FUNCTION = ("argmax", "argmin", "var", "std", "var_mean", "std_mean")

_HALVES = (torch.float16, torch.bfloat16)
# These kernels are not built for AVX-512, where those for AVX2 run.
_VECTOR_BYTES = {"DEFAULT": 16, "NO AVX": 16, "AVX2": 32, "AVX512": 32}

Loops = tuple[tuple[int, int], ...]


def _loops(facts: ReductionPlan) -> tuple[Loops, Loops]:
    """Give the reduced and the kept dims as (size, byte stride), fastest first, without those of
    size 1.
    """

    def used(sizes: tuple[int, ...], strides: tuple[int, ...]) -> Loops:
        return tuple((n, step) for n, step in zip(sizes, strides, strict=True) if n != 1)

    return (
        used(facts.reduced_shape, facts.reduced_strides),
        used(facts.kept_shape, facts.kept_strides),
    )


def _cast_to(name: str, facts: ReductionPlan, dtype: torch.dtype | None) -> torch.dtype:
    """Give the dtype that the input is in when the CPU's kernel reads it."""
    source: torch.dtype = getattr(torch, facts.input_dtype)
    result: torch.dtype = getattr(torch, facts.result_dtype)
    if name == "mean" and result in _HALVES:
        return torch.float32
    if name in ("sum", "nansum", "prod", "mean", "any", "all"):
        # Two reduced dims that do not coalesce are added in float32, which the kernel cannot do.
        halves = name == "sum" and result in _HALVES and len(_loops(facts)[0]) >= 2
        return torch.float32 if halves else result
    return source if dtype is None else dtype


def _vector(dtype: torch.dtype) -> int:
    """Give the elements of ATen's vector."""
    return _VECTOR_BYTES.get(torch.backends.cpu.get_cpu_capability(), 16) // dtype.itemsize


def _cpu_loop(name: str, facts: ReductionPlan, dtype: torch.dtype) -> tuple[str, str]:
    if name in _FUNCTION:
        if name in ("var", "std") and facts.outputs == 1 and dtype not in _HALVES:
            return OWN, f"{name} of all elements has a kernel that reads them twice"
        return ALONE, f"the kernel of {name} calls a function for each element"
    if name == "amin" and dtype == torch.int64:
        return ALONE, "amin of int64 has no vectors"
    reduced, kept = _loops(facts)
    size, vector = dtype.itemsize, _vector(dtype)
    # The two loops that a kernel is given, the first over a reduced dim.
    first = reduced[0] if reduced else (1, size)
    second = (*reduced[1:], *kept, (1, 0))[0]
    cascades = name in _CASCADE and (dtype.is_floating_point or dtype.is_complex)
    least = vector if cascades else 4 * vector
    if first[1] == size and (first[0] >= least or not cascades):
        if first[0] >= least:
            return INNER, f"it is contiguous, in rows of {first[0]}"
        return SCALAR, f"the reduced dim is contiguous, but {first[0]} are less than {least}"
    if second[1] == size and (cascades or len(reduced) < 2):
        if second[0] >= least:
            return OUTER, f"it is contiguous, in rows of {second[0]}, which are combined"
        return SCALAR, f"a kept dim is contiguous, but {second[0]} are less than {least}"
    if len(reduced) > 1:
        return SCALAR, "reduced dims that do not coalesce come first, and none is contiguous"
    return SCALAR, "neither the reduced dim nor the next is contiguous"


def _cuda_loop(facts: ReductionPlan) -> tuple[str, str]:
    reduced, kept = _loops(facts)
    size = getattr(torch, facts.input_dtype).itemsize
    fastest = min((*reduced, *kept), key=lambda one: abs(one[1]), default=(1, size))
    if fastest in reduced:
        if len(reduced) + len(kept) == 1 and fastest[0] >= 128 and fastest[1] == size:
            return INNER, "all elements are one contiguous run"
        return CUDA_STRIDED, "a reduced dim is fastest, and the elements are not one run"
    if fastest[1] == size:
        return OUTER, "a kept dim is fastest and contiguous"
    return CUDA_STRIDED, "no dim is contiguous"


def predict_reduction(
    entry: OpEntry,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    facts: ReductionPlan,
    device: str,
) -> AtenLoop | None:
    """Predict ATen's loop for a reduction that iterlab plans as `facts`, on `device` ("cpu",
    "cuda").

    None where the operator has no twin in ATen, or one that unfolds into other operators.
    """
    name = aten_name(entry.torch_name)
    if name not in (*_CASCADE, *_VECTORS, *_FUNCTION) or facts.outputs * facts.reduced == 0:
        return None
    if device == "cuda":
        loop, why = _cuda_loop(facts)
        return AtenLoop(loop, why, ())
    given = args[0]
    common = _cast_to(name, facts, kwargs.get("dtype"))
    copies: tuple[CastCopy, ...] = ()
    if common != given.dtype:
        size = given.numel() * common.itemsize
        copies = (CastCopy(entry.inputs[0], facts.input_dtype, dtype_name(common), size),)
        again = plan(facts.op, converted(given, common), *args[1:], **kwargs)
        assert isinstance(again, ReductionPlan)
        facts = again
    loop, why = _cpu_loop(name, facts, common)
    return AtenLoop(loop, why, copies)
