"""The planner against ATen's own iterator: random shapes, strides and dtypes by hypothesis."""

from __future__ import annotations

from dataclasses import dataclass

import calls
import samples
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch._tensor_iterator import TensorIterator

import iterlab

pytestmark = calls.TORCH_WARNINGS

DTYPES = [torch.float32, torch.bfloat16, torch.int8, torch.int64, torch.bool, torch.complex64]


@dataclass(frozen=True)
class Drawn:
    """A tensor as data, so that a failing example prints well."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: torch.dtype

    def of(self, dtype: torch.dtype) -> Drawn:
        return Drawn(self.sizes, self.strides, dtype)

    def tensor(self) -> torch.Tensor:
        span = 1 + sum((size - 1) * s for size, s in zip(self.sizes, self.strides, strict=True))
        storage = torch.zeros(max(span, 0), dtype=self.dtype)
        return storage.as_strided(self.sizes, self.strides)


@st.composite
def strides_of(draw: st.DrawFn, sizes: tuple[int, ...]) -> tuple[int, ...]:
    """Dense in a random order, with gaps, broadcast dims, and odd strides of size-1 dims."""
    order = draw(st.permutations(range(len(sizes))))
    strides = [0] * len(sizes)
    step = draw(st.sampled_from((1, 1, 1, 2, 3)))
    for d in order:
        strides[d] = step
        step *= max(sizes[d], 1)
        step += draw(st.sampled_from((0, 0, 0, 1, 5)))
    for d, size in enumerate(sizes):
        kind = draw(st.sampled_from(("keep", "keep", "keep", "zero", "odd")))
        if kind == "zero":
            strides[d] = 0
        elif kind == "odd" and size == 1:
            strides[d] = draw(st.sampled_from((0, 1, 7, 100)))
    return tuple(strides)


@st.composite
def operands_of(draw: st.DrawFn, count: int) -> list[Drawn]:
    shape = draw(st.lists(st.sampled_from((0, 1, 1, 2, 3, 4, 5)), max_size=5).map(tuple))
    drawn = []
    for _ in range(count):
        kept = draw(st.sampled_from((0, 0, 0, 1, 2)))
        sizes = tuple(draw(st.sampled_from((size, size, size, 1))) for size in shape[kept:])
        drawn.append(Drawn(sizes, draw(strides_of(sizes)), draw(st.sampled_from(DTYPES))))
    return drawn


def of_one_dtype(drawn: list[Drawn]) -> list[torch.Tensor]:
    """What ATen is asked for strides. Ours follow from the operands as given; ATen on the CPU first
    casts those that need it, and a cast operand may have other strides."""
    return [one.of(torch.float32).tensor() for one in drawn]


def aten(tensors: list[torch.Tensor], out: torch.Tensor | None) -> TensorIterator:
    return TensorIterator(
        outputs=[out],
        const_inputs=tensors,
        promote_inputs_to_common_dtype=True,
        cast_common_dtype_to_outputs=True,
        check_mem_overlap=False,
        resize_outputs=True,
    )


@given(operands_of(2))
def test_output_shape_strides_and_dtype(drawn: list[Drawn]) -> None:
    tensors = [one.tensor() for one in drawn]
    plan = iterlab.plan("mul", *tensors)
    assert isinstance(plan, iterlab.Plan)
    assert plan.result_dtype == samples.short_name(torch.result_type(*tensors))
    want = torch.mul(*of_one_dtype(drawn))
    assert (plan.shape, plan.output_strides) == (tuple(want.shape), want.stride())


@given(operands_of(3))
def test_three_operands(drawn: list[Drawn]) -> None:
    condition = drawn[0].of(torch.bool).tensor()
    tensors = [one.tensor() for one in drawn[1:]]
    plan = iterlab.plan("where", condition, *tensors)
    assert isinstance(plan, iterlab.Plan)
    assert plan.result_dtype == samples.short_name(torch.result_type(*tensors))
    want = torch.where(condition, *of_one_dtype(drawn[1:]))
    assert (plan.shape, plan.output_strides) == (tuple(want.shape), want.stride())


Rows = list[tuple[int, ...]]


def without_tiny_tiles(dims: Rows) -> Rows:
    """ATen's dims, sizes first, with the longest next to the innermost where tiles were tiny."""
    dims = [dim for dim in dims if dim[0] != 1]
    if len(dims) > 2 and dims[0][0] * dims[1][0] < 32:
        longest = max(range(1, len(dims)), key=lambda d: dims[d][0])
        dims.insert(1, dims.pop(longest))
    return dims


@given(operands_of(2))
def test_loop_shape_and_byte_strides(drawn: list[Drawn]) -> None:
    """Coalesced dims and byte strides are ATen's, where both iterate in the output order."""
    tensors = of_one_dtype(drawn)
    iterator = aten(tensors, None)
    plan = iterlab.plan("mul", *tensors)
    assert isinstance(plan, iterlab.Plan)
    if plan.numel == 0:
        return
    got = list(zip(plan.loop_shape, *(o.strides for o in plan.operands), strict=True))
    want = list(zip(iterator.shape, *(iterator.strides(i) for i in range(3)), strict=True))
    got, want = [dim for dim in got if dim[0] != 1], without_tiny_tiles(want)
    if plan.path == "tiled" or any(o.layout == "transposed" for o in plan.operands):
        got, want = sorted(got), sorted(want)  # the second dim is the transposed operand's
    assert got == want


@given(operands_of(2), st.data())
def test_a_given_output_decides_the_order(drawn: list[Drawn], data: st.DataObject) -> None:
    tensors = of_one_dtype(drawn)
    shape = tuple(torch.broadcast_shapes(*(tensor.shape for tensor in tensors)))
    order = data.draw(st.permutations(range(len(shape))))
    out = torch.empty([shape[d] for d in order])
    out = out.permute([order.index(d) for d in range(len(shape))])
    iterator = aten(tensors, out)
    plan = iterlab.plan("mul", *tensors, out=out)
    assert isinstance(plan, iterlab.Plan)
    assert not plan.resizes_output
    if plan.numel == 0 or any(o.layout == "transposed" for o in plan.operands):
        return
    got = list(zip(plan.loop_shape, *(o.strides for o in plan.operands), strict=True))
    want = list(zip(iterator.shape, *(iterator.strides(i) for i in range(3)), strict=True))
    assert [dim for dim in got if dim[0] != 1] == without_tiny_tiles(want)


@given(operands_of(2))
def test_values_on_random_layouts(drawn: list[Drawn]) -> None:
    tensors = [one.tensor() for one in drawn]
    for seed, tensor in enumerate(tensors):
        storage = tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.itemsize,), (1,))
        storage.copy_(samples.ordinary_values(tensor.dtype, storage.numel(), seed))
    for operator, reference in (
        (torch.ops.iterlab.add, torch.add),
        (torch.ops.iterlab.mul, torch.mul),
    ):
        got, want = operator(*tensors), reference(*tensors)
        exact = not want.is_complex() and want.dtype != torch.bfloat16
        calls.assert_close(got, want, 0 if exact else 1, drawn)
        with iterlab.force_path("generic"):
            calls.assert_bitwise(operator(*tensors), got, drawn)
