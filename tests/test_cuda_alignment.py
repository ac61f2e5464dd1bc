"""CUDA kernels where nothing is a multiple of a vector: odd sizes, pitches and first addresses."""

from __future__ import annotations

import itertools

import pytest
import torch

import iterlab

pytestmark = pytest.mark.cuda
ops = torch.ops.iterlab

FLOATS = [torch.float32, torch.bfloat16, torch.float16, torch.float64]
DTYPES = [*FLOATS, torch.int8, torch.int16, torch.int64, torch.complex64]
SIDES = [(67, 131), (300, 257), (64, 57), (49, 2048), (1000, 17), (128, 129), (1, 300)]


def draw(*shape: int, dtype: torch.dtype, first: int = 0, pitch: int = 0) -> torch.Tensor:
    """Elements from number `first` of their memory on, in rows `pitch` longer than they need."""
    wide = (*shape[:-1], shape[-1] + pitch)
    count = torch.Size(wide).numel() + first
    if dtype.is_floating_point or dtype.is_complex:
        flat = torch.randn(count, device="cuda").to(dtype)
    else:
        flat = torch.randint(-100, 100, (count,), device="cuda").to(dtype)
    return flat[first:].view(wide)[..., : shape[-1]]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("side", SIDES, ids=str)
def test_transposed_operands(side: tuple[int, int], dtype: torch.dtype) -> None:
    rows, columns = side
    for first, pitch in itertools.product((0, 1, 5), (0, 3)):
        x = draw(rows, columns, dtype=dtype, pitch=pitch)
        y = draw(columns, rows, dtype=dtype, first=first)
        assert torch.equal(ops.add(x, y.t()), x + y.t())
        assert torch.equal(ops.mul(y.t(), y.t().contiguous()), y.t() * y.t())
        into = torch.zeros(columns, rows + 2, dtype=dtype, device="cuda").t()[:rows]
        assert torch.equal(ops.sub.out(x, y.t(), out=into), x - y.t())


@pytest.mark.parametrize("dtypes", list(itertools.permutations(FLOATS, 2)), ids=str)
@pytest.mark.parametrize("side", SIDES, ids=str)
def test_transposed_operands_of_two_dtypes(
    side: tuple[int, int], dtypes: tuple[torch.dtype, torch.dtype]
) -> None:
    rows, columns = side
    x = draw(rows, columns, dtype=dtypes[0], first=1)
    y = draw(columns, rows, dtype=dtypes[1], pitch=1)
    assert torch.equal(ops.add(x, y.t()), x + y.t())
    assert torch.equal(ops.add(y.t(), x), y.t() + x)
    assert torch.equal(ops.copy_(x.clone(), y.t()), x.clone().copy_(y.t()))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
@pytest.mark.parametrize("side", SIDES, ids=str)
def test_transposed_masks(side: tuple[int, int], dtype: torch.dtype) -> None:
    rows, columns = side
    x = draw(rows, columns, dtype=dtype)
    mask = draw(columns, rows, dtype=torch.int8).t() > 0
    assert torch.equal(ops.masked_fill(x, mask, 2), x.masked_fill(mask, 2))
    assert torch.equal(ops.where(mask, x, x.t().contiguous().t()), x)
    assert torch.equal(ops.where(mask, 1.0, x), torch.where(mask, 1.0, x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8], ids=str)
@pytest.mark.parametrize("channels", [3, 57, 64])
@pytest.mark.parametrize("edge", [7, 14, 31])
def test_channels_last(edge: int, channels: int, dtype: torch.dtype) -> None:
    x = draw(2, channels, edge, edge, dtype=dtype)
    y = draw(2, channels, edge, edge, dtype=dtype).to(memory_format=torch.channels_last)
    assert torch.equal(ops.add(x, y), x + y)
    assert torch.equal(ops.add(y, x), y + x)
    assert torch.equal(ops.add(y, x[:1].to(torch.float32)), y + x[:1].to(torch.float32))


@pytest.mark.parametrize("dtypes", [(torch.float32,) * 2, (torch.float32, torch.bfloat16)], ids=str)
@pytest.mark.parametrize("columns", [513, 1001, 8191])
def test_long_rows(columns: int, dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    for pitch in (0, 1):
        x = draw(150, columns, dtype=dtypes[0], pitch=pitch)
        for y in (draw(150, columns, dtype=dtypes[1]), draw(columns, dtype=dtypes[1], first=1)):
            assert torch.equal(ops.add(x, y), x + y)
        column = draw(150, 1, dtype=dtypes[1])
        assert torch.equal(ops.mul(x, column), x * column)


# Of sizes and strides: rows that are short, far apart, have a step, or lie along another dim.
BOXES = {
    "three planes and pixels": ((2, 3, 31, 33), (3069, 1023, 33, 1), (3069, 1, 99, 3)),
    "pixels and three planes": ((2, 33, 31, 3), (3069, 93, 3, 1), (3069, 1, 33, 1023)),
    "sixteen planes and pixels": ((2, 16, 40, 40), (25600, 1600, 40, 1), (25600, 1, 640, 16)),
    "heads of 65": ((3, 5, 70, 65), (22750, 4550, 65, 1), (22750, 65, 325, 1)),
    "heads of 33, few": ((300, 2, 3, 33), (198, 99, 33, 1), (198, 33, 66, 1)),
    "short rows": ((500, 31), (32, 1), (33, 1)),
    "three of four": ((5000, 3), (4, 1), (3, 1)),
    "a step": ((300, 100), (301, 3), (100, 1)),
    "a step alone": ((30001,), (3,), (2,)),
    "few columns": ((20001, 7), (7, 1), (1, 0)),
    "a column": ((300, 100), (101, 1), (1, 0)),
    "a row": ((300, 1000), (1001, 1), (0, 1)),
    "transposed, few rows": ((5, 20001), (20001, 1), (1, 5)),
    "transposed, few columns": ((20001, 5), (5, 1), (1, 20001)),
    "batches of them": ((200, 5, 100), (500, 100, 1), (500, 1, 5)),
}


def strided(
    sizes: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype, first: int = 0
) -> torch.Tensor:
    """Elements number `first` and on of a memory, at these strides."""
    reach = sum((n - 1) * s for n, s in zip(sizes, strides, strict=True))
    return draw(reach + 1 + first, dtype=dtype).as_strided(sizes, strides, first)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bool, torch.complex128], ids=str)
@pytest.mark.parametrize("case", BOXES)
def test_boxes(case: str, dtype: torch.dtype) -> None:
    sizes, of_x, of_y = BOXES[case]
    for first in (0, 1, 3):
        x, y = strided(sizes, of_x, dtype, first), strided(sizes, of_y, dtype)
        assert torch.equal(ops.add(x, y), x + y)
        assert torch.equal(ops.mul(y, x), y * x)
        assert torch.equal(ops.clone(y, memory_format=torch.contiguous_format), y.contiguous())
        wide = torch.zeros(*sizes[:-1], sizes[-1] + 1, dtype=dtype, device="cuda")
        into = wide[..., : sizes[-1]]
        assert torch.equal(ops.add.out(x, y, out=into), x + y)
        assert not wide[..., sizes[-1]].any()
        expected = x * y
        assert torch.equal(ops.mul_(x, y), expected)


@pytest.mark.parametrize(
    "dtypes", [(torch.float32, torch.bfloat16), (torch.float64, torch.float32)], ids=str
)
@pytest.mark.parametrize("case", BOXES)
def test_boxes_of_two_dtypes(case: str, dtypes: tuple[torch.dtype, torch.dtype]) -> None:
    sizes, of_x, of_y = BOXES[case]
    for one, other in (dtypes, dtypes[::-1]):
        x, y = strided(sizes, of_x, one, 1), strided(sizes, of_y, other)
        assert torch.equal(ops.add(x, y), x + y)
        assert torch.equal(ops.where(y > 0, y, x), torch.where(y > 0, y, x))
        assert torch.equal(ops.add(x, 2.5), x + 2.5)


REDUCED = [torch.float32, torch.bfloat16, torch.float64, torch.int8, torch.int32, torch.complex64]
COLUMNS = [1, 2, 3, 5, 7, 9, 31, 57, 130, 1001]


@pytest.mark.parametrize("dtype", REDUCED, ids=str)
@pytest.mark.parametrize("rows", [1, 2, 57, 200, 1000, 5000, 40_000])
def test_columns(rows: int, dtype: torch.dtype) -> None:
    for columns, first, pitch in itertools.product(COLUMNS, (0, 1), (0, 3)):
        if rows * columns > 5_000_000:
            continue
        x = draw(rows, columns, dtype=dtype, first=first, pitch=pitch)
        assert_sum(x, 0)
        y = draw(3, rows // 3 + 1, columns, dtype=dtype, first=first, pitch=pitch)
        assert_sum(y, 1)


@pytest.mark.parametrize("dtype", REDUCED, ids=str)
@pytest.mark.parametrize("columns", [33, 95, 97, 129, 1001, 8191, 70_001])
def test_rows(columns: int, dtype: torch.dtype) -> None:
    for first, pitch in itertools.product((0, 1, 2), (0, 1, 3)):
        assert_sum(draw(37, columns, dtype=dtype, first=first, pitch=pitch), 1)


SHORT = [2, 3, 15, 16, 31, 32, 48, 64, 96, 127, 128, 129, 200, 256, 333, 500, 1000, 1024, 2048]


@pytest.mark.parametrize("dtype", [*REDUCED, torch.bool, torch.complex128], ids=str)
@pytest.mark.parametrize("columns", SHORT)
def test_short_rows(columns: int, dtype: torch.dtype) -> None:
    for rows, first, pitch in itertools.product((1, 5, 700), (0, 1, 5), (0, 3, 16)):
        x = draw(rows, columns, dtype=dtype, first=first, pitch=pitch)
        assert_sum(x, 1)
        if not x.is_complex():
            assert torch.equal(ops.amax(x, [1]), x.amax(1))
            assert_first_largest(x)
            assert torch.equal(ops.any(x, 1), x.any(1))
    few = draw(300, 3, columns, dtype=dtype, pitch=2)[:, :2]
    assert_sum(few, 2)
    assert_sum(draw(40, 2 * columns, dtype=dtype)[:, ::2], 1)


def assert_first_largest(x: torch.Tensor) -> None:
    values, at = ops.max(x, 1)
    assert torch.equal(values, x.amax(1))
    places = torch.arange(x.shape[1], device="cuda")
    assert torch.equal(at, torch.where(x == values[:, None], places, x.shape[1]).amin(1))


@pytest.mark.parametrize("name", ["var", "logsumexp", "mean", "norm"])
@pytest.mark.parametrize("columns", SHORT)
def test_moments_of_short_rows(columns: int, name: str) -> None:
    for dtype, pitch in itertools.product((torch.float32, torch.bfloat16, torch.float64), (0, 1)):
        x = draw(77, columns, dtype=dtype, pitch=pitch)
        result = getattr(ops, name)(x, dim=[1])
        wide = x.to(torch.float64)
        close = {torch.bfloat16: 1e-2, torch.float32: 1e-5, torch.float64: 1e-12}[dtype]
        expected = getattr(torch, name)(wide, dim=1)
        assert torch.allclose(result.to(torch.float64), expected, rtol=close, atol=close)


def assert_sum(x: torch.Tensor, dim: int) -> None:
    wide = torch.complex128 if x.is_complex() else torch.float64
    exact = x.to(wide) if x.is_complex() or x.is_floating_point() else x.to(torch.int64)
    expected, result = exact.sum(dim), ops.sum(x, [dim])
    size = x.abs().to(torch.float64).sum(dim)
    off = (result.to(expected.dtype) - expected).abs()
    unit = 2.0**-8 if x.dtype == torch.bfloat16 else 2.0**-52 if x.dtype == torch.float64 else 1e-6
    assert bool((off <= (0 if expected.dtype == torch.int64 else unit) * size).all())


@pytest.mark.parametrize("name", ["sum", "var", "amax", "argmax", "logsumexp"])
@pytest.mark.parametrize("rows", [100, 300, 1000, 3000, 50_000])
def test_bits_of_a_column_depend_on_its_length_alone(rows: int, name: str) -> None:
    """Not on how many there are beside it, and not on where they start."""
    x = draw(rows, 140, dtype=torch.float32)
    reduce = getattr(ops, name)
    expected = reduce(x, [0])
    for first, columns in ((0, 8), (1, 9), (3, 57), (2, 130), (7, 33)):
        part = x[:, first : first + columns]
        for view in (part, part.contiguous()):
            assert torch.equal(reduce(view, [0]), expected[first : first + columns])


@pytest.mark.parametrize("name", ["sum", "var", "amax", "argmax", "logsumexp"])
@pytest.mark.parametrize("columns", [100, 160, 777, 1024, 5001, 40_000])
def test_bits_of_a_row_depend_on_its_length_alone(columns: int, name: str) -> None:
    x = draw(9, columns, dtype=torch.float32, pitch=1)
    reduce = getattr(ops, name)
    expected = reduce(x, [1])
    for row in range(9):
        assert torch.equal(reduce(x[row], [0]), expected[row])
        assert torch.equal(reduce(x[row : row + 1].clone(), [1])[0], expected[row])
    assert torch.equal(reduce(x.contiguous(), [1]), expected)
    assert torch.equal(reduce(x.repeat(100, 1), [1]), expected.repeat(100))


def test_narrow_and_long_columns() -> None:
    for rows, columns in ((4096, 3), (50_176, 3), (1_100_000, 3), (1_100_000, 31), (2_000_001, 2)):
        for dtype in (torch.float32, torch.bfloat16, torch.uint8):
            x = draw(rows, columns, dtype=dtype, first=columns)
            assert_sum(x, 0)
            assert torch.equal(iterlab.amax(x, 0), x.amax(0))


# Matrices of short columns, few rows of many columns, and so few columns that rows are merged.
MATRICES = [
    *((300, rows, columns) for rows in (2, 3, 7, 31, 57, 64, 128) for columns in (2, 3, 8, 33)),
    *((40, rows, columns) for rows in (2, 3, 5, 8, 31, 32) for columns in (100, 257, 1001, 2048)),
    *((5, rows, columns) for rows in (4099, 12_545, 50_175) for columns in (2, 3, 5, 7)),
    *((2, 1_100_003, columns) for columns in (2, 3, 8)),
]


@pytest.mark.parametrize("shape", MATRICES, ids=str)
def test_matrices_of_columns(shape: tuple[int, ...]) -> None:
    for dtype, first in itertools.product((*REDUCED, torch.bool), (0, 1, 3)):
        x = draw(*shape, dtype=dtype, first=first)
        if x.numel() > 1_000_000 and dtype in (torch.complex64, torch.float64, torch.int32):
            continue
        assert_sum(x, 1)
        assert torch.equal(ops.sum(x[1:], [1]), ops.sum(x, [1])[1:])
        if x.is_complex():
            continue
        assert torch.equal(ops.amax(x, [1]), x.amax(1))
        assert torch.equal(ops.any(x, 1), x.any(1))
        values, at = ops.max(x, 1)
        assert torch.equal(values, x.amax(1))
        assert torch.equal(x.gather(1, at.unsqueeze(1)).squeeze(1), values)
        out = torch.empty(shape[0], shape[2], 2, device="cuda", dtype=torch.float64)[..., 0]
        ops.sum(x, [1], dtype=torch.float64, out=out)
        assert torch.equal(out, ops.sum(x, [1], dtype=torch.float64))


@pytest.mark.parametrize("name", ["var", "logsumexp", "mean", "norm"])
@pytest.mark.parametrize("shape", MATRICES, ids=str)
def test_moments_of_matrices(shape: tuple[int, ...], name: str) -> None:
    for dtype, first in itertools.product((torch.float32, torch.bfloat16, torch.float64), (0, 1)):
        x = draw(*shape, dtype=dtype, first=first)
        result = getattr(ops, name)(x, dim=[1])
        expected = getattr(torch, name)(x.to(torch.float64), dim=1)
        close = {torch.bfloat16: 1e-2, torch.float32: 1e-5, torch.float64: 1e-12}[dtype]
        assert torch.allclose(result.to(torch.float64), expected, rtol=close, atol=close)


@pytest.mark.parametrize("name", ["sum", "var", "amax", "logsumexp"])
@pytest.mark.parametrize("shape", [(4, 5003, 3), (4, 50_175, 3), (2, 1_100_003, 5)], ids=str)
def test_bits_of_few_columns_depend_on_no_other_matrix(shape: tuple[int, ...], name: str) -> None:
    """Nor on where they start."""
    reduce = getattr(ops, name)
    x = draw(*shape, dtype=torch.float32)
    expected = reduce(x, [1])
    for first in range(1, 6):
        moved = draw(*shape, dtype=torch.float32, first=first).copy_(x)
        assert torch.equal(reduce(moved, [1]), expected)
    assert torch.equal(reduce(x[1].clone(), [0]), expected[1])


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("count", [8193, 10_000, 16_384])
def test_chunks_of_few_groups(count: int, dtype: torch.dtype) -> None:
    """Elements wider than what they are summed in: more bytes than a block takes, in few groups."""
    x = draw(3, count, dtype=torch.int64)
    assert torch.equal(ops.sum(x, [1], dtype=dtype), x.sum(1, dtype=dtype))


def test_more_lanes_than_32_bits_count() -> None:
    x = torch.ones(2**27 + 1024, device="cuda")
    assert bool((ops.sum(x.unfold(0, 1024, 1), [1]) == 1024).all())


def test_long_columns_of_int16_do_not_wrap() -> None:
    x = torch.full((65,), 32767, dtype=torch.int16, device="cuda").expand(2**30, 65)
    assert torch.equal(ops.sum(x, [0]), x[0].to(torch.int64) * 2**30)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_numbers_beside_halves_keep_their_precision(dtype: torch.dtype) -> None:
    x = draw(64, 4, 5, dtype=dtype)[:, :3, :3]
    assert torch.equal(ops.add(x, 1 / 3), ops.add(x.contiguous(), 1 / 3))
    assert torch.equal(ops.eq(x, 0.1), ops.eq(x.contiguous(), 0.1))
