"""The CUDA backend in short: paths, dtype mixes, alignments, reduction forms, against torch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import iterlab

pytestmark = pytest.mark.cuda
ops = torch.ops.iterlab

DTYPES = [
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int8,
    torch.uint8,
    torch.int16,
]
DTYPES += [torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128]
REDUCED = [
    torch.float32,
    torch.bfloat16,
    torch.float64,
    torch.int8,
    torch.int64,
    torch.bool,
    torch.complex64,
]


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.rand(shape, device="cuda") < 0.5
    if dtype.is_complex or dtype.is_floating_point:
        return torch.randn(
            shape, dtype=torch.complex64 if dtype.is_complex else None, device="cuda"
        ).to(dtype)
    return torch.randint(0, 50, shape, device="cuda").to(dtype)


LAYOUTS = {
    "contiguous": lambda t: draw(67, 130, dtype=t),
    "transposed": lambda t: draw(130, 67, dtype=t).t(),
    "row": lambda t: draw(130, dtype=t),
    "column": lambda t: draw(67, 1, dtype=t),
    "one": lambda t: draw(1, 1, dtype=t),
    "zero-d": lambda t: draw(dtype=t),
    "stride 2": lambda t: draw(67, 260, dtype=t)[:, ::2],
    "sliced": lambda t: draw(67, 133, dtype=t)[:, 1:131],
    "misaligned": lambda t: draw(67 * 130 + 3, dtype=t)[3:].view(67, 130),
    "expanded": lambda t: draw(67, 1, dtype=t).expand(67, 130),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts(layout: str, dtype: torch.dtype) -> None:
    for first in ("contiguous", "transposed", "sliced"):
        x, y = LAYOUTS[first](dtype), LAYOUTS[layout](dtype)
        expected = x + y
        for path in iterlab.plan("add", x, y).legal_paths:
            with iterlab.force_path(path):
                result = ops.add(x, y)
            torch.testing.assert_close(result, expected, msg=lambda m, p=path: f"{p}: {m}")
            assert result.stride() == expected.stride()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("rows", "columns"), [(5, 1031), (192, 256), (130, 384)])
def test_long_rows_and_whole_tiles(rows: int, columns: int, dtype: torch.dtype) -> None:
    others = {
        "row": draw(columns, dtype=dtype),
        "column": draw(rows, 1, dtype=dtype),
        "transposed": draw(columns, rows, dtype=dtype).t(),
        "sliced": draw(rows, columns + 7, dtype=dtype)[:, 3 : columns + 3],
    }
    x = draw(rows, columns, dtype=dtype)
    out = torch.empty(rows, columns + 9, dtype=dtype, device="cuda")[:, 5 : columns + 5]
    for name, y in others.items():
        torch.testing.assert_close(ops.add(x, y), x + y, msg=lambda m, n=name: f"{n}: {m}")
        torch.testing.assert_close(ops.eq(y, x), y == x, msg=lambda m, n=name: f"{n}: {m}")
        torch.testing.assert_close(ops.add.out(x, y, out=out), x + y)
        torch.testing.assert_close(ops.where(y == x, y, x), torch.where(y == x, y, x))
    assert torch.equal(ops.to.out(others["transposed"], dtype, out=out), others["transposed"])


def test_transposed_condition() -> None:
    x, y = draw(192, 256), draw(256, 192).t()
    condition = draw(256, 192, dtype=torch.bool).t()
    assert torch.equal(ops.where(condition, x, y), torch.where(condition, x, y))


@pytest.mark.filterwarnings("ignore:Casting complex values to real discards")
@pytest.mark.parametrize("a", DTYPES, ids=str)
@pytest.mark.parametrize("b", DTYPES, ids=str)
def test_mixed_dtypes(a: torch.dtype, b: torch.dtype) -> None:
    x, y = draw(1003, dtype=a), draw(1003, dtype=b)
    torch.testing.assert_close(ops.mul(x, y), x * y)
    wide = draw(40, 100, dtype=a)
    other = draw(100, 40, dtype=b).t()
    torch.testing.assert_close(ops.add(wide, other), wide + other)
    condition = x == 1
    torch.testing.assert_close(ops.where(condition, x, y), torch.where(condition, x, y))
    torch.testing.assert_close(ops.to(x, b), x.to(b))


@pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")
@pytest.mark.filterwarnings("ignore:Casting complex values to real discards")
@pytest.mark.parametrize(
    "dtype", [torch.float8_e4m3fn, torch.float8_e5m2, torch.complex32], ids=str
)
def test_stored_only_dtypes(dtype: torch.dtype) -> None:
    x = draw(1000)
    torch.testing.assert_close(
        ops.to(x, dtype).to(torch.complex64), x.to(dtype).to(torch.complex64)
    )
    assert torch.equal(ops.to(x.to(dtype), torch.float32), x.to(dtype).to(torch.float32))


def test_numbers_from_the_cpu() -> None:
    x = draw(33, 65)
    torch.testing.assert_close(ops.add(x, torch.tensor(2.5)), x + 2.5)
    torch.testing.assert_close(ops.add(x, 2, alpha=3), x + 6)
    torch.testing.assert_close(ops.where(x > 0, x, torch.tensor(0.0)), x.clamp(min=0))
    with pytest.raises(RuntimeError, match="expected all operands on cuda:0"):
        ops.add(x, torch.ones(65))


def test_out_and_inplace() -> None:
    x, y = draw(40, 50), draw(40, 50)
    out = torch.empty(0, dtype=torch.float64, device="cuda")
    torch.testing.assert_close(ops.add.out(x, y, out=out), (x + y).double())
    given = torch.empty(50, 80, device="cuda").t()[::2]
    torch.testing.assert_close(ops.add.out(x, y, out=given), x + y)
    expected = x * y
    torch.testing.assert_close(ops.mul_(x, y), expected)


@pytest.mark.parametrize("rank", [5, 17, 40])
def test_ranks(rank: int) -> None:
    shape = [2 if d < 14 else 1 for d in range(rank)]
    x = draw(*shape)
    y = draw(*shape).permute(*reversed(range(rank)))
    torch.testing.assert_close(ops.add(x, y), x + y)


def test_many_dims_that_do_not_merge() -> None:
    shape = (2,) * 18
    x, y = draw(*shape), draw(*shape).permute(*range(1, 18, 2), *range(0, 18, 2))
    torch.testing.assert_close(ops.add(x, y), x + y)


def test_nothing_is_launched_for_no_elements() -> None:
    x = torch.empty(0, 5, device="cuda")
    assert ops.add(x, x).shape == (0, 5)
    torch.testing.assert_close(ops.sum(x, [0]), torch.zeros(5, device="cuda"))


REDUCED_SHAPES = [
    ((1000,), None),
    ((1_000_003,), None),
    ((7, 100_001), [1]),
    ((300, 1024), [1]),
    ((300, 33), [1]),
    ((5000, 3), [1]),
    ((5000, 8), [1]),
    ((5000, 2), [1]),
    ((64, 32), [1]),
    ((1024, 300), [0]),
    ((50_000, 8), [0]),
    ((50_000, 3), [0]),
    ((5, 700), [0]),
    ((8, 100, 65), [1]),
    ((8, 100, 65), [0, 2]),
    ((6, 5, 4, 3), [1, 3]),
    ((3, 1, 5), [1]),
    ((), None),
]


@pytest.mark.parametrize("dtype", REDUCED, ids=str)
@pytest.mark.parametrize(("shape", "dims"), REDUCED_SHAPES, ids=str)
def test_sum(shape: tuple[int, ...], dims: list[int] | None, dtype: torch.dtype) -> None:
    x = draw(*shape, dtype=dtype)
    exact = x.to(torch.complex128 if dtype.is_complex else torch.float64)
    views = [x]
    if x.dim() == 2:
        views += [x.t().contiguous().t(), torch.stack([x, x], -1)[..., 0]]
    for view in views:
        result = ops.sum(view, dims)
        expected = (exact.sum() if dims is None else exact.sum(dims)).to(result.dtype)
        assert result.dtype == (x.sum() if dims is None else x.sum(dims)).dtype
        size = float(exact.abs().sum()) / max(result.numel(), 1)
        torch.testing.assert_close(
            result, expected, rtol=1e-2 if dtype == torch.bfloat16 else 1e-5, atol=2e-6 * size
        )
        assert torch.equal(result, ops.sum(view, dims))


@pytest.mark.parametrize(
    "name", ["amax", "amin", "argmax", "argmin", "var", "logsumexp", "any", "all", "prod"]
)
@pytest.mark.parametrize("shape", [(300, 1024), (300, 33), (5000, 3), (40_000, 17)], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_other_reductions(name: str, shape: tuple[int, ...], dim: int) -> None:
    if not hasattr(ops, name):
        pytest.skip("not in this build")
    x = draw(*shape) * 0.5
    if name == "prod":
        x = x.abs() * 0.01 + 1
    ours = getattr(ops, name)(x, [dim])
    theirs = getattr(torch, name)(x.double() if name in ("var", "logsumexp", "prod") else x, dim)
    torch.testing.assert_close(ours, theirs.to(ours.dtype), rtol=1e-4, atol=1e-5)


def test_same_bits_for_any_batch() -> None:
    x = draw(1000, 777)
    assert torch.equal(ops.sum(x, [1])[:3], ops.sum(x[:3].contiguous(), [1]))
    assert torch.equal(ops.sum(x, [0])[:64], ops.sum(x[:, :64], [0]))
    assert torch.equal(ops.sum(x, [0])[5:69], ops.sum(x[:, 5:69].contiguous(), [0]))


@pytest.mark.parametrize("length", [20, 100, 1000, 8192])
def test_same_bits_of_one_row(length: int) -> None:
    x = draw(400, length)
    assert torch.equal(ops.sum(x, [1])[:1], ops.sum(x[:1].contiguous(), [1]))
    assert torch.equal(ops.var(x, [1])[:1], ops.var(x[:1].contiguous(), [1]))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.bool], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_bytes(dim: int, dtype: torch.dtype) -> None:
    for shape in ((300, 1024), (3, 100_000), (70_000, 48), (64, 1023)):
        x = torch.randint(-128, 128, shape, device="cuda").to(dtype)
        assert torch.equal(ops.sum(x, [dim]), x.sum(dim))
        assert torch.equal(ops.count_nonzero(x, [dim]), x.count_nonzero(dim))
        sparse = x * (torch.rand(shape, device="cuda") < 1 / shape[dim])
        assert torch.equal(ops.any(sparse, [dim]), sparse.any(dim))
        assert torch.equal(ops.all(sparse == 0, [dim]), (sparse == 0).all(dim))


def test_truth_of_wide_integers() -> None:
    x = torch.zeros(40, 3000, dtype=torch.int32, device="cuda")
    x[3, 70] = 256
    for dim in (0, 1):
        assert torch.equal(ops.any(x, [dim]), x.any(dim))
        assert torch.equal(ops.all(x + 256, [dim]), (x + 256).all(dim))


def test_moments_of_an_outlier() -> None:
    x = draw(300, 1024) * 1e-3 + 100
    x[0] = x[:, 0] = 1e6
    for dim in (0, 1):
        expected = x.double().var(dim).float()
        torch.testing.assert_close(ops.var(x, [dim]), expected, rtol=3e-7, atol=0)


def test_position_of_equals() -> None:
    x = torch.full((5, 3000), -torch.inf, device="cuda")
    x[1, 2000:] = 1
    x[2, 7] = x[2, 9] = torch.nan
    assert ops.argmax(x, [1]).tolist() == [0, 2000, 7, 0, 0]
    assert ops.argmax(x, [0])[[0, 7, 2500]].tolist() == [0, 2, 1]


def test_streams_and_graphs() -> None:
    x = draw(3_000_000)
    expected = ops.sum(x)
    streams = [torch.cuda.Stream() for _ in range(4)]
    torch.cuda.synchronize()
    results = []
    for _ in range(20):
        for stream in streams:
            with torch.cuda.stream(stream):
                results.append(ops.sum(x))
    torch.cuda.synchronize()
    assert all(torch.equal(result, expected) for result in results)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        total = ops.sum(ops.add(x, x))
    for _ in range(3):
        x.normal_()
        graph.replay()
        assert torch.equal(total, ops.sum(x + x))


def chain(x: torch.Tensor, between: Callable[[], None]) -> torch.Tensor:
    """Each kernel reads what those before it wrote; `between` is called after each."""
    steps: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda y: ops.add(y, x),
        lambda y: ops.add(y, y.t()),
        lambda y: ops.sub(y, ops.sum(y, [0], dtype=torch.int32)),
        lambda y: ops.add(y, ops.sum(y, [1], True, dtype=torch.int32)),
        lambda y: ops.add(y, ops.amax(y)),
        lambda y: torch.cat([y[:, 1:], y[:, :1]], 1),  # a kernel of torch's
        lambda y: ops.bitwise_xor(y[:, ::2].repeat_interleave(2, 1), y),
        lambda y: ops.add(y, ops.sum(y.view(-1, 4), [1], dtype=torch.int32).repeat(4).view_as(y)),
        lambda y: ops.add_(y, ops.add(y, x[:, :1].to(torch.int64)).to(torch.int32)),
    ]
    y = x
    for step in steps * 5:
        y = step(y)
        between()
    return y


@pytest.mark.parametrize("side", [8, 64, 512, 2048])
def test_launches_that_follow_each_other(side: int) -> None:
    """A kernel may start while the one before still runs, and sees all that it wrote."""
    x = torch.randint(0, 1000, (side, side), dtype=torch.int32, device="cuda")
    want = chain(x, torch.cuda.synchronize)
    for _ in range(10):
        assert torch.equal(chain(x, lambda: None), want)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = chain(x, lambda: None)
    for _ in range(10):
        captured.zero_()
        graph.replay()
        assert torch.equal(captured, want)


@pytest.mark.slow
def test_more_than_two_to_the_31() -> None:
    n = 2**31 + 70
    x = torch.ones(n, dtype=torch.int8, device="cuda")
    x[-1] = 7
    y = ops.add(x, x)
    assert y[-1].item() == 14 and int(ops.sum(y)) == 2 * (n - 1) + 14
    halves = x.view(2, -1)[:, ::2]
    assert int(ops.sum(ops.add(halves, 1))) == int(halves.sum()) + halves.numel()
    del y
    z = ops.add(x.view(2, -1).t(), 0)
    assert z[-1, -1].item() == 7
