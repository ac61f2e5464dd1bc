"""How reductions read: in an order that decides the bits, and to an element that decides."""

import functools
import itertools
import threading
import timeit
from collections.abc import Callable

import calls
import pytest
import torch
from samples import FLOATS, seeded_values

pytestmark = calls.TORCH_WARNINGS
ops = torch.ops.iterlab

COMPLEX = (torch.complex64, torch.complex128)


def results_of(x: torch.Tensor, dims: tuple[int, ...]) -> list[torch.Tensor]:
    """Every reduction whose bits could depend on the order of its additions."""
    results = [ops.sum(x, dims), ops.mean(x, dims), ops.logsumexp(x, dims)]
    results += [ops.prod(1 + x / 1000, dims), *ops.var_mean(x, dims)]
    if not x.is_complex():
        results.append(ops.nanmean(x, dims))
    return results + [ops.norm(x, order, dims) for order in (1, 2, 3)]


@pytest.mark.parametrize("dtype", (*FLOATS, *COMPLEX))
@pytest.mark.parametrize("count", (3, 16, 31, 1000, 5000, 70_000))
def test_bits_do_not_depend_on_form_or_batch(dtype: torch.dtype, count: int) -> None:
    x = seeded_values((19, count), dtype)
    inner = results_of(x, (1,))
    outer = results_of(x.t().contiguous(), (0,))
    alone = [
        torch.stack(parts) for parts in zip(*(results_of(row, (0,)) for row in x), strict=True)
    ]
    strided = results_of(torch.stack([x, x], -1).flatten(-2)[..., ::2], (1,))
    for name, other in (("outer", outer), ("alone", alone), ("strided", strided)):
        for a, b in zip(inner, other, strict=True):
            assert torch.equal(a, b), name


def test_bits_do_not_depend_on_threads() -> None:
    cases = [
        (seeded_values((5, 200_000), torch.float32), (1,)),
        (seeded_values((200_000, 7), torch.float32), (0,)),
    ]
    cases += [
        (seeded_values((64, 300, 64), torch.bfloat16), (0, 2)),
        (seeded_values((1_000_000,), torch.float64), (0,)),
        (seeded_values((512, 136), torch.complex64), (0,)),
        (seeded_values((512, 136), torch.complex128), (0,)),
    ]
    before = torch.get_num_threads()
    try:
        by_threads = []
        for threads in (1, 2, 5):
            torch.set_num_threads(threads)
            by_threads.append([r for x, dims in cases for r in results_of(x, dims)])
    finally:
        torch.set_num_threads(before)
    for other in by_threads[1:]:
        assert all(torch.equal(a, b) for a, b in zip(by_threads[0], other, strict=True))


ENDING_EARLY: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], object]] = {
    "one run": (lambda x: x, None),
    "several runs": (lambda x: x[:, :, 500:1500], None),
    "columns": (lambda x: x.view(-1, 200), 0),
    "columns of several runs": (lambda x: x[:, ::2, :100], (0, 1)),
}


@pytest.mark.parametrize(("name", "deciding"), (("any", True), ("all", False)))
@pytest.mark.parametrize("layout", ENDING_EARLY)
def test_truth_ends_with_the_element_that_decides(layout: str, name: str, deciding: bool) -> None:
    """A few blocks of 16 M elements are read where the first ones decide; any one of them may."""
    view, dim = ENDING_EARLY[layout]
    x = torch.full((4, 2000, 2000), not deciding)
    decided = torch.full((4, 2000, 2000), deciding)
    reduce = getattr(ops, name)
    torch.set_num_threads(1)  # a second one would be waited for
    fastest = [
        min(timeit.repeat(functools.partial(reduce, view(y), dim), number=1, repeat=20))
        for y in (x, decided)
    ]
    assert fastest[0] > 3 * fastest[1], fastest
    for threads, element in itertools.product((1, 2, 8), (0, 5_300_000, -1)):
        torch.set_num_threads(threads)
        y = view(x)
        assert reduce(y, dim).eq(not deciding).all()
        one = y[torch.unravel_index(torch.tensor(element % y.numel()), y.shape)]
        one.fill_(deciding)
        assert reduce(y, dim).eq(deciding).sum() == 1, (threads, element)
        one.fill_(not deciding)


def test_threads_with_small_stacks() -> None:
    """A thread of 256 KiB, as torch's own loops need no more."""
    x, done = torch.randn(300, 3000), []
    size = threading.stack_size(256 * 1024)
    try:
        for dims in ((0,), (1,), (0, 1)):
            thread = threading.Thread(target=lambda d=dims: done.append(results_of(x, d)))
            thread.start()
            thread.join()
    finally:
        threading.stack_size(size)
    assert len(done) == 3
