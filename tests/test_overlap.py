"""Memory overlap decided exactly: every small strided pair against an enumeration of addresses."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
import torch

from iterlab import _C

BASE = 1 << 20
SIZES = {"int8": 1, "int16": 2, "float32": 4, "float64": 8}


@dataclass(frozen=True)
class Strided:
    """Sizes and strides in elements, dtype, and the address of the first element."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str = "float32"
    address: int = BASE

    def operand(self) -> _C.Operand:
        return _C.Operand(list(self.sizes), list(self.strides), self.dtype, False, self.address)

    def elements(self) -> list[int]:
        """The address of each element, by index."""
        found = [self.address]
        for size, stride in zip(self.sizes, self.strides, strict=True):
            step = stride * SIZES[self.dtype]
            found = [address + i * step for address in found for i in range(size)]
        return found

    def bytes(self) -> set[int]:
        return {a + k for a in self.elements() for k in range(SIZES[self.dtype])}


def draw(rng: random.Random, sizes: tuple[int, ...] | None = None) -> Strided:
    if sizes is None:
        sizes = tuple(rng.choice((1, 2, 3, 4, 5)) for _ in range(rng.choice((0, 1, 2, 2, 3))))
    strides = tuple(rng.choice((0, 1, 1, 2, 3, 4, 5, 6, 7, 12)) for _ in sizes)
    return Strided(sizes, strides, rng.choice(list(SIZES)), BASE + rng.choice(range(0, 48)))


def decision(out: Strided, *inputs: Strided) -> str:
    """What the planner says of writing to `out` while reading `inputs`."""
    spec = [operand.operand() for operand in inputs]
    try:
        if len(inputs) == 1:
            _C.make_plan("exp", spec, out=out.operand())
        else:
            _C.make_plan("add", spec, out=out.operand())
    except RuntimeError as error:
        text = str(error)
        if "elements lie apart" in text:
            return "internal"
        if "shares some memory" in text:
            return "partial"
        raise
    return "fine"


def contiguous(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(torch.empty(sizes, device="meta").stride())


@pytest.mark.parametrize("seed", range(8))
def test_internal_overlap(seed: int) -> None:
    rng = random.Random(seed)
    seen = set()
    for _ in range(800):
        out = draw(rng)
        elements = out.elements()
        want = "internal" if len(set(elements)) < len(elements) else "fine"
        apart = Strided(out.sizes, contiguous(out.sizes), "float32", BASE * 4)
        out = Strided(out.sizes, out.strides, "float32", BASE)
        assert decision(out, apart) == want, out
        seen.add(want)
    assert seen == {"internal", "fine"}


@pytest.mark.parametrize("seed", range(8))
def test_overlap_of_output_and_input(seed: int) -> None:
    """Sharing a byte is partial overlap, unless the operands are the same elements in one order."""
    rng = random.Random(100 + seed)
    seen = set()
    for _ in range(1500):
        out = draw(rng)
        if out.dtype in ("int8", "int16"):  # must hold a float result
            out = Strided(out.sizes, out.strides, "float32", out.address)
        elements = out.elements()
        if len(set(elements)) < len(elements):
            continue
        sizes = tuple(rng.choice((size, size, 1)) for size in out.sizes)
        entry = draw(rng, sizes)
        if rng.random() < 0.2:
            entry = Strided(out.sizes, out.strides, out.dtype, out.address)
        other = Strided(out.sizes, contiguous(out.sizes), "float32", BASE * 4)
        same = entry.dtype == out.dtype and entry.sizes == out.sizes
        same = same and entry.elements() == elements
        want = "partial" if entry.bytes() & out.bytes() and not same else "fine"
        assert decision(out, entry, other) == want, (out, entry)
        assert decision(out, other, entry) == want, (out, entry)
        seen.add((want, same))
    assert seen == {("partial", False), ("fine", False), ("fine", True)}


def test_interleaved_columns_are_apart() -> None:
    even, odd = Strided((50, 40), (80, 2)), Strided((50, 40), (80, 2), "float32", BASE + 4)
    assert decision(even, odd) == "fine"
    assert decision(even, Strided((50, 40), (80, 2), "float32", BASE + 2)) == "partial"


def test_own_column_is_partial() -> None:
    """pytorch#135487: a.sub_(a[:, :1]) reads what it has already written."""
    assert decision(Strided((4, 4), (4, 1)), Strided((4, 1), (4, 1))) == "partial"


def test_size_one_dim_with_stride_zero_is_no_overlap() -> None:
    """pytorch#33812."""
    assert decision(Strided((1, 3, 4), (0, 4, 1)), Strided((1, 3, 4), (0, 4, 1))) == "fine"


def test_empty_operands_share_nothing() -> None:
    out = Strided((0, 3), (0, 0))
    assert decision(out, Strided((0, 3), (3, 1))) == "fine"


def test_large_operands_are_decided_fast() -> None:
    """Sizes of real tensors, with strides that are no multiples of each other."""
    out = Strided((1000, 999, 7), (7013, 7, 1))
    assert decision(out, Strided((1000, 999, 7), (7013, 7, 1), "float32", BASE + 4 * 7000)) in (
        "fine",
        "partial",
    )
    assert decision(Strided((4096, 4096), (8192, 2)), Strided((4096, 1), (8192, 1))) == "partial"
    apart = Strided((4096, 1), (8192, 1), "float32", BASE + 4)
    assert decision(Strided((4096, 4096), (8192, 2)), apart) == "fine"


@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_outputs_that_grow_into_an_operand_are_refused(device: str) -> None:
    a = torch.arange(16.0, device=device)
    calls = [
        lambda: torch.ops.iterlab.neg(a[1:9], out=a[:4]),
        lambda: torch.ops.iterlab.sum(a[4:].view(3, 4), 0, out=a[1:2]),
        lambda: torch.ops.iterlab.var_mean(a[8:].view(4, 2), 1, out0=a[:2], out1=a[1:2]),
    ]
    for call in calls:
        with pytest.raises(RuntimeError, match=r"^iterlab::\w+: expected an output .*, got "):
            call()
    torch.ops.iterlab.neg(a[8:], out=a[:4])
    assert torch.equal(a[:8], -torch.arange(8.0, 16.0, device=device))


def test_an_output_that_is_not_decided_is_refused() -> None:
    """Many dims of large strides that have nothing in common: the search gives up."""
    rng = random.Random(0)
    out = Strided((40,) * 9, tuple(rng.randrange(10**12, 2 * 10**12) for _ in range(9)))
    with pytest.raises(RuntimeError, match=r"elements lie apart, got one with perhaps several"):
        _C.make_plan("exp", [Strided((1,), (1,)).operand()], out=out.operand())


def test_real_calls_refuse_partial_overlap_and_leave_the_output_alone(device: str) -> None:
    a = torch.arange(16.0, device=device).view(4, 4)
    before = a.clone()
    calls = [
        lambda: torch.ops.iterlab.add_(a, a[:, :1]),
        lambda: torch.ops.iterlab.add(a[1:], 1, out=a[:-1]),
        lambda: torch.ops.iterlab.mul_(a, a.t()),
        lambda: torch.ops.iterlab.sum(a, 0, out=a[0]),
        lambda: torch.ops.iterlab.add(a, a, out=torch.ones(1, device=device).expand(4, 4)),
        lambda: torch.ops.iterlab.aminmax(a[0], min=a[1, 0], max=a[1, 0]),
    ]
    for call in calls:
        with pytest.raises(
            RuntimeError, match=r"^iterlab::\w+: expected (an output|outputs) .*, got "
        ):
            call()
        assert torch.equal(a, before)
