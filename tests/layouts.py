"""Tensor layouts in one table: how operands lie in memory, for any operator and dtype.

Tests and benchmarks sweep the same table. A `Case` is a shape and one recipe for each operand; a
recipe makes a tensor of (or broadcastable to) that shape out of values drawn in memory order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

Shape = tuple[int, ...]
Draw = Callable[[int], torch.Tensor]  # n values of the wanted dtype, in a new 1-D tensor
Recipe = Callable[[Draw, Shape], torch.Tensor]


def dense(draw: Draw, shape: Shape) -> torch.Tensor:
    return draw(math.prod(shape)).view(shape)


def permuted(order: Sequence[int]) -> Recipe:
    """Dense with its dims stored in `order`, slowest first."""

    def make(draw: Draw, shape: Shape) -> torch.Tensor:
        stored = dense(draw, tuple(shape[d] for d in order))
        return stored.permute([order.index(d) for d in range(len(shape))])

    return make


def transposed(draw: Draw, shape: Shape) -> torch.Tensor:
    return dense(draw, (*shape[:-2], shape[-1], shape[-2])).transpose(-1, -2)


def reversed_dims(draw: Draw, shape: Shape) -> torch.Tensor:
    return permuted(range(len(shape))[::-1])(draw, shape)


def every(step: int) -> Recipe:
    """Inner stride `step`."""
    return lambda draw, shape: dense(draw, (*shape[:-1], shape[-1] * step))[..., ::step]


def sliced(extra: int) -> Recipe:
    """The first elements of rows that are `extra` longer."""
    return lambda draw, shape: dense(draw, (*shape[:-1], shape[-1] + extra))[..., : shape[-1]]


def outer_every_other(draw: Draw, shape: Shape) -> torch.Tensor:
    return dense(draw, (shape[0] * 2, *shape[1:]))[::2]


def middle_sliced(draw: Draw, shape: Shape) -> torch.Tensor:
    return dense(draw, (shape[0], shape[1] + 2, *shape[2:]))[:, 1:-1]


def misaligned(draw: Draw, shape: Shape) -> torch.Tensor:
    return draw(math.prod(shape) + 1)[1:].view(shape)


def row(draw: Draw, shape: Shape) -> torch.Tensor:
    return dense(draw, shape[-1:])


def column(draw: Draw, shape: Shape) -> torch.Tensor:
    return dense(draw, (*shape[:-1], 1))


def middle_row(draw: Draw, shape: Shape) -> torch.Tensor:
    return dense(draw, (shape[0], *[1] * (len(shape) - 2), shape[-1]))


def one(draw: Draw, shape: Shape) -> torch.Tensor:
    return dense(draw, (1,) * len(shape))


def zero_dim(draw: Draw, shape: Shape) -> torch.Tensor:
    return draw(1)[0]


def expanded_column(draw: Draw, shape: Shape) -> torch.Tensor:
    return column(draw, shape).expand(shape)


def expanded_one(draw: Draw, shape: Shape) -> torch.Tensor:
    return one(draw, shape).expand(shape)


def channels_last(draw: Draw, shape: Shape) -> torch.Tensor:
    return permuted([0, *range(2, len(shape)), 1])(draw, shape)


def power_of_two_pitch(draw: Draw, shape: Shape) -> torch.Tensor:
    pitch = 1 << (shape[-1] - 1).bit_length()
    return dense(draw, (*shape[:-1], max(pitch, 512)))[..., : shape[-1]]


def odd_size_one_strides(draw: Draw, shape: Shape) -> torch.Tensor:
    """Dense, with arbitrary strides where they do not matter."""
    tensor = dense(draw, shape)
    strides = [77 + d if shape[d] == 1 else tensor.stride(d) for d in range(len(shape))]
    return tensor.as_strided(shape, strides)


def transposed_every_other(draw: Draw, shape: Shape) -> torch.Tensor:
    return every(2)(draw, (*shape[:-2], shape[-1], shape[-2])).transpose(-1, -2)


def overlapping_windows(draw: Draw, shape: Shape) -> torch.Tensor:
    """Sliding windows: an input may show one element many times."""
    return draw(shape[-2] + shape[-1]).as_strided(shape, (*[0] * (len(shape) - 2), 1, 1))


@dataclass(frozen=True)
class Case:
    """Operands of one call. With fewer operands the last recipes count; with more, they repeat."""

    name: str
    shape: Shape
    recipes: tuple[Recipe, ...]

    def make(self, draws: Sequence[Draw]) -> list[torch.Tensor]:
        n = len(draws)
        return [self.recipes[(i - n) % len(self.recipes)](draws[i], self.shape) for i in range(n)]

    def __str__(self) -> str:
        return self.name


def _cases() -> list[Case]:
    cases = [
        Case("contiguous", (37, 53), (dense, dense)),
        Case("contiguous large", (300, 200), (dense, dense)),
        Case("one dim", (1000,), (dense, dense)),
        Case("transposed", (61, 83), (dense, transposed)),
        Case("transposed large", (300, 200), (dense, transposed)),
        Case("transposed both", (61, 83), (transposed, transposed)),
        Case("transposed first", (61, 83), (transposed, dense)),
        Case("transposed batch", (5, 40, 33), (dense, transposed)),
        Case("transposed strided", (40, 70), (dense, transposed_every_other)),
        Case("misaligned", (29, 37), (dense, misaligned)),
        Case("misaligned both", (29, 37), (misaligned, misaligned)),
        Case("row", (40, 67), (dense, row)),
        Case("column", (40, 67), (dense, column)),
        Case("one element", (40, 67), (dense, one)),
        Case("zero-dim", (40, 67), (dense, zero_dim)),
        Case("outer product", (40, 67), (column, row)),
        Case("middle row", (6, 7, 40), (dense, middle_row)),
        Case("expanded", (40, 67), (dense, expanded_column)),
        Case("expanded both", (40, 67), (expanded_column, expanded_one)),
        Case("sliding windows", (20, 70), (dense, overlapping_windows)),
        Case("channels_last", (3, 5, 8, 9), (channels_last, channels_last)),
        Case("channels_last mixed", (3, 5, 8, 9), (dense, channels_last)),
        Case("channels_last large", (2, 64, 20, 21), (dense, channels_last)),
        Case("outer every other", (23, 91), (dense, outer_every_other)),
        Case("middle sliced", (6, 9, 40), (dense, middle_sliced)),
        Case("power of two pitch", (40, 200), (power_of_two_pitch, power_of_two_pitch)),
        Case("size-1 dims", (1, 33, 1, 65, 1), (dense, odd_size_one_strides)),
        Case("only size-1 dims", (1, 1, 1), (dense, odd_size_one_strides)),
        Case("permuted 3-D", (12, 17, 19), (dense, permuted((1, 2, 0)))),
        Case("permuted 3-D both", (12, 17, 19), (permuted((2, 0, 1)), permuted((1, 2, 0)))),
        Case("permuted 5-D", (3, 4, 5, 6, 7), (dense, permuted((4, 1, 3, 0, 2)))),
        Case("reversed 5-D", (3, 4, 5, 6, 7), (dense, reversed_dims)),
        Case("eight dims", (2, 3, 2, 3, 2, 3, 2, 3), (dense, permuted((7, 2, 5, 0, 3, 6, 1, 4)))),
        Case("image to planes", (2, 3, 24, 31), (dense, permuted((0, 2, 3, 1)))),
        Case("rows of three", (300, 3), (dense, sliced(1))),
        Case("short transposed", (2, 3, 500), (dense, permuted((2, 1, 0)))),
        Case("zero size", (5, 0, 7), (dense, dense)),
        Case("zero size strided", (5, 0), (dense, transposed)),
        Case("zero size broadcast", (0, 6), (dense, row)),
        Case("zero dims", (), (dense, dense)),
        Case("one element only", (1,), (dense, dense)),
    ]
    for step in (2, 3, 4):
        cases.append(Case(f"inner stride {step}", (20, 67), (dense, every(step))))
        cases.append(Case(f"inner stride {step} both", (20, 67), (every(step), every(step))))
    for inner, outer in ((3, 4), (7, 8)):
        cases.append(Case(f"inner {inner} of {outer}", (150, inner), (dense, sliced(1))))
        cases.append(Case(f"inner {inner} of {outer} both", (150, inner), (sliced(1), sliced(1))))
    return cases


CASES = _cases()
BY_NAME = {case.name: case for case in CASES}
assert len(BY_NAME) == len(CASES)

# One case of each kind of loop: what `make test` runs for operators whose signature others share.
CORE = [
    BY_NAME[name]
    for name in (
        "contiguous",
        "transposed",
        "row",
        "column",
        "zero-dim",
        "misaligned",
        "channels_last mixed",
        "permuted 3-D both",
        "inner stride 2",
        "inner 3 of 4",
    )
]
