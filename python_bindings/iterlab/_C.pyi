"""The planner of iterlab, without tensors: the pybind11 module of python_bindings/module.cpp."""

from collections.abc import Sequence
from typing import Any

class Operand:
    """A tensor as the planner sees it. Sizes and strides are in elements; address 0 is unknown."""

    def __init__(
        self,
        sizes: Sequence[int],
        strides: Sequence[int],
        dtype: str,
        wrapped_number: bool = False,
        address: int = 0,
    ) -> None: ...

def make_plan(
    op: str,
    inputs: Sequence[Operand],
    out: Operand | None = None,
    inplace: bool = False,
    dtype: str = "",
    default_dtype: str = "float32",
    rounds: bool = False,
) -> dict[str, Any]:
    """Plan an elementwise call; give its facts, the fields of `iterlab.Plan`."""

def plan_times(op: str, inputs: Sequence[Operand], calls: int) -> list[tuple[str, float]]:
    """Time the stages of planning a call, and all of it ("plan"): nanoseconds, means of `calls`."""

def make_reduce_plan(
    op: str,
    input: Operand,
    dims: Sequence[int] | None = None,
    keepdim: bool = False,
    out: Operand | None = None,
    dtype: str = "",
    overload: str = "",
    number: float = 1.0,
) -> dict[str, Any]:
    """Plan a reduction; give its facts, the fields of `iterlab.ReductionPlan`."""

def note_cuda_launches(on: bool) -> list[tuple[str, tuple[int, int], int, int]]:
    """Make this thread's CUDA calls note their launches instead of launching, or launch again.

    Gives what was noted since: (kernel, (grid x, grid y), threads of a block, shared bytes).
    """

def op_table() -> list[dict[str, Any]]:
    """Give every operator, as its definition states it."""

def composite_table() -> list[dict[str, Any]]:
    """Give every operator that is written from others."""

def force_path(path: str | None) -> str | None:
    """Make plans of this thread take a path (None: their own); give the path forced before."""

def cpu_capability() -> str:
    """Give the instruction set that CPU kernels run with: default, avx2 or avx512."""
