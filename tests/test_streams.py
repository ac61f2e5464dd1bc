"""Results that are written past the caches: the values of small calls, and nothing beside them."""

from collections.abc import Callable

import pytest
import torch

import iterlab
from iterlab import timing

COUNT = 9_000_011  # of float32: past 32 MiB, and not a whole number of vectors
PIECE = 100_003  # small enough to stay in the caches

Call = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], object]

CALLS: dict[str, Call] = {
    "exp": lambda x, _, out: iterlab.exp(x, out=out),
    "log": lambda x, _, out: iterlab.log(x, out=out),
    "gelu": lambda x, _, out: torch.ops.iterlab.gelu.out(x, out=out),
    "add": lambda x, y, out: iterlab.add(x, y, out=out),
    "add bfloat16": lambda x, y, out: iterlab.add(x, y.bfloat16(), out=out),
    "where": lambda x, y, out: iterlab.where(x > 0, x, y, out=out),
    "to": lambda x, _, out: torch.ops.iterlab.to.out(x, torch.float32, out=out),
}


@pytest.fixture(scope="module")
def operands() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.randn(COUNT, generator=generator) for _ in range(2))
    x[::1_000_003], x[5_000_000:5_000_100] = torch.inf, 0  # what MKL is not used for
    return x, y


@pytest.mark.parametrize("offset", (0, 1, 7))
@pytest.mark.parametrize("name", CALLS)
def test_large_results(name: str, offset: int, operands: tuple[torch.Tensor, torch.Tensor]) -> None:
    x, y = operands
    memory = torch.full((COUNT + 64,), 12345.0)
    out = memory[offset : offset + COUNT]
    CALLS[name](x, y, out)
    small = torch.empty(COUNT)
    for pieces in zip(x.split(PIECE), y.split(PIECE), small.split(PIECE), strict=True):
        CALLS[name](*pieces)
    assert torch.equal(out.view(torch.int32), small.view(torch.int32))
    assert memory[:offset].eq(12345).all() and memory[offset + COUNT :].eq(12345).all()


@pytest.mark.parametrize("offset", (0, 1))
@pytest.mark.parametrize("count", (2, 3, 5, 8, 16, 33))
def test_large_results_of_reductions(
    count: int, offset: int, operands: tuple[torch.Tensor, torch.Tensor]
) -> None:
    y = operands[1]
    rows = y[: COUNT // count * count].view(-1, count)
    memory = torch.full((len(rows) + 64,), 12345.0)
    out = memory[offset : offset + len(rows)]
    torch.ops.iterlab.sum.out(rows, [1], out=out)
    small = torch.cat([iterlab.sum(part, 1) for part in rows.split(10_001)])
    assert torch.equal(out, small)
    torch.testing.assert_close(out, rows.sum(1), rtol=1e-5, atol=1e-5)
    assert memory[:offset].eq(12345).all() and memory[offset + len(rows) :].eq(12345).all()


BROADCASTS: dict[str, Call] = {
    "column": lambda x, y, out: iterlab.add(x, y[:, :1], out=out),
    "column of bfloat16": lambda x, y, out: iterlab.mul(x, y[:, :1].bfloat16(), out=out),
    "column of int32": lambda x, y, out: iterlab.sub(x, y[:, :1].to(torch.int32), out=out),
    "column and row": lambda x, y, out: iterlab.atan2(x[:1], y[:, :1], out=out),
    "one element": lambda x, y, out: iterlab.add(x, y[:1, :1], out=out),
    "a number": lambda x, _, out: iterlab.lerp(x, 0.25, 0.75, out=out),
    "three": lambda x, y, out: iterlab.addcmul(x[:, :1], y, y[:1], value=0.5, out=out),
    "where": lambda x, y, out: iterlab.where(y[:, :1] > 0, x, y[:, :1], out=out),
}


@pytest.mark.parametrize(
    "shape", ((3, 64), (5, 100), (300, 65), (129, 4099), (2100, 4096)), ids=str
)
@pytest.mark.parametrize("name", BROADCASTS)
def test_broadcast_operands_of_long_rows(name: str, shape: tuple[int, int]) -> None:
    """A block of lanes that is read again and again, in tiles of many rows."""
    generator = torch.Generator().manual_seed(4)
    x, y = (torch.randn(shape, generator=generator) for _ in range(2))
    got, want = torch.full(shape, torch.nan), torch.full(shape, torch.nan)
    BROADCASTS[name](x, y, got)
    with iterlab.force_path("generic"):
        BROADCASTS[name](x, y, want)
    assert torch.equal(got.view(torch.int32), want.view(torch.int32))


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.complex64), ids=str)
@pytest.mark.parametrize("name", ("sum", "prod", "var", "mean"))
def test_leaves_in_turn(name: str, dtype: torch.dtype) -> None:
    """One thread takes whole leaves of an output as rows; two take them one by one."""
    x = torch.randn(19 * 65536 + 77, generator=torch.Generator().manual_seed(5)).to(dtype)
    with timing.threads(1):
        in_turn = getattr(iterlab, name)(x)
    with timing.threads(2):
        one_by_one = getattr(iterlab, name)(x)
    assert in_turn.reshape(1).view(torch.uint8).equal(one_by_one.reshape(1).view(torch.uint8))
    torch.testing.assert_close(in_turn, getattr(torch, name)(x), rtol=1e-2, atol=1e-2)
