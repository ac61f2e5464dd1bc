"""Inputs from public bug reports of tensor libraries, each with the result that is right.

A case names the operators that it needs, and is collected once all of them are in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import calls
import pytest
import torch

import iterlab

pytestmark = calls.TORCH_WARNINGS

ops: Any = torch.ops.iterlab
KNOWN = {entry.name for entry in iterlab.op_table()}
Case = Callable[[str], None]
CASES: list[Any] = []


def case(report: str, *needs: str, cuda: bool = False) -> Callable[[Case], Case]:
    """Collects a case of `report` where the table has the operators that it `needs`."""

    def collect(check: Case) -> Case:
        if set(needs) <= KNOWN:
            marks = [pytest.mark.cuda] if cuda else []
            CASES.append(pytest.param(check, id=f"{check.__name__} ({report})", marks=marks))
        return check

    return collect


@case("pytorch#178716, #101653", "le")
def comparison_with_a_zero_dim_operand_of_narrower_dtype(device: str) -> None:
    """torch wraps the zero-dim -19 into uint8 and finds 1 <= 237; so do we, by its promotion."""
    u = torch.tensor([1, 250], dtype=torch.uint8, device=device)
    s = torch.tensor(-19, dtype=torch.int8, device=device)
    assert ops.le(u, s).tolist() == torch.le(u, s).tolist()


@case("pytorch#76801", "add")
def two_numbers_give_the_default_dtype(device: str) -> None:
    assert ops.add(1.0, 2).dtype == ops.add(1.0, 2.0).dtype == torch.get_default_dtype()
    assert ops.add(1, 2).dtype == torch.int64
    assert ops.add(1.0, 2).item() == 3.0


@case("pytorch#11795", "mul")
def zero_dim_operands_of_two_dtypes(device: str) -> None:
    product = ops.mul(torch.tensor(1.5, device=device), torch.tensor(3, device=device))
    assert (product.item(), product.dtype) == (4.5, torch.float32)


@case("pytorch#73298, #49090", "where")
def a_number_in_a_ternary_operator_keeps_the_dtype(device: str) -> None:
    condition = torch.tensor([True, False], device=device)
    result = ops.where(condition, torch.tensor([1.0, 2.0], device=device), 3.0)
    assert (result.dtype, result.tolist()) == (torch.float32, [1.0, 3.0])


@case("pytorch#181805", "fmax")
def a_wide_result_wraps_into_a_narrow_output(device: str) -> None:
    out = torch.empty(1, dtype=torch.uint8, device=device)
    ops.fmax(torch.tensor([100000], device=device), torch.tensor([-1], device=device), out=out)
    assert out.item() == 100000 % 256


@case("pytorch#181805", "add")
def a_wide_sum_wraps_into_a_narrow_output(device: str) -> None:
    for count in (1, 7, 64, 100):
        out = torch.empty(count, dtype=torch.uint8, device=device)
        ops.add(torch.full((count,), 100000, device=device), -1, out=out)
        assert out.tolist() == [99999 % 256] * count


@case("pytorch#58734, #139124, #135436", "add", "sum")
def unsigned_arithmetic_exists(device: str) -> None:
    for dtype in (torch.uint16, torch.uint32, torch.uint64):
        u = torch.arange(5, dtype=torch.int64, device=device).to(dtype)
        assert ops.add(u, u).tolist() == [0, 2, 4, 6, 8]
        assert ops.add(u, u).dtype == dtype
        assert ops.sum(u).item() == 10


@case("pytorch#58734", "bitwise_xor", "bitwise_right_shift")
def unsigned_bit_operators_exist(device: str) -> None:
    for dtype in (torch.uint16, torch.uint32, torch.uint64):
        u = torch.arange(5, dtype=torch.int64, device=device).to(dtype)
        assert ops.bitwise_xor(u, u).tolist() == [0] * 5
        assert ops.bitwise_right_shift(u, 1).tolist() == [0, 0, 1, 1, 2]


@case("pytorch#91597, #44350", "mean")
def the_mean_of_halves_does_not_overflow(device: str) -> None:
    assert ops.mean(torch.ones(100_000, dtype=torch.float16, device=device)).item() == 1.0


@case("pytorch#2391", "sum")
def partial_sums_are_not_rounded_to_half(device: str) -> None:
    g = torch.tensor([32000.0] * 3 + [-32000.0] * 3, device=device).half()
    assert ops.sum(g, dim=0).item() == 0
    assert ops.sum(g.repeat(40, 1), dim=1).abs().max().item() == 0
    assert ops.sum(g.repeat(40, 1).t().contiguous(), dim=0).abs().max().item() == 0


@case("pytorch#185605", "add")
def compiled_equals_eager_for_a_zero_dim_operand(device: str) -> None:
    x = torch.tensor([0.1, -0.2], device=device).bfloat16()
    s = torch.tensor(-0.1, dtype=torch.float64, device=device)
    torch._dynamo.reset()
    add = torch.compile(lambda a, b: ops.add(a, b), backend="aot_eager", fullgraph=True)
    calls.assert_bitwise(add(x, s), ops.add(x, s))


@case("pytorch#40986, #66053", "lt", "add", cuda=True)
def zero_dim_cpu_beside_zero_dim_cuda(device: str) -> None:
    assert ops.lt(torch.tensor(2), torch.tensor(3).cuda()).item() is True
    with pytest.raises(RuntimeError):
        ops.add_(torch.tensor(2.0), torch.tensor(2.0).cuda())


@case("pytorch#23159, #13478", "sum")
def reduced_dims_may_have_any_index(device: str) -> None:
    result = ops.sum(torch.ones((2,) + (1,) * 63 + (2,), device=device), dim=64)
    assert result.shape == (2,) + (1,) * 63
    assert result.flatten().tolist() == [2, 2]


@case("pytorch#34907, #28380, #42429", "max")
def maximum_over_nothing(device: str) -> None:
    assert ops.max(torch.empty(0, 4, device=device), dim=1)[0].shape == (0,)
    with pytest.raises((RuntimeError, IndexError)):
        ops.max(torch.empty(0, 4, device=device), dim=0)


@case("pytorch#131457, #117222", "sum")
def the_identity_fills_a_sum_over_nothing(device: str) -> None:
    result = ops.sum(torch.empty(3, 0, 4, device=device), dim=1, keepdim=True)
    assert result.shape == (3, 1, 4)
    assert result.eq(0).all()
    out = torch.full((3, 4), 7.0, device=device)
    assert ops.sum(torch.empty(3, 0, 4, device=device), dim=1, out=out).eq(0).all()


@case("sglang#23609, StepMesh#43, FlagGems#5298", "exp")
def zero_rows(device: str) -> None:
    assert ops.exp(torch.empty(0, 7168, device=device)).shape == (0, 7168)
    assert ops.exp(torch.zeros(1, device=device)).item() == 1


@case("pytorch#135487, #115521", "add")
def in_place_with_its_own_column_is_never_silently_wrong(device: str) -> None:
    a = torch.randn(4, 4, device=device)
    before, want = a.clone(), a + a[:, :1].clone()
    try:
        ops.add_(a, a[:, :1])
    except RuntimeError as error:
        assert "iterlab::add: expected" in str(error)
        assert torch.equal(a, before)
    else:
        torch.testing.assert_close(a, want)


@case("pytorch#33812", "add")
def a_size_one_dim_of_stride_zero_is_no_overlap(device: str) -> None:
    x = torch.zeros(12, device=device).as_strided((1, 3, 4), (0, 4, 1))
    assert ops.add_(x, 1).eq(1).all()


@case("numpy#8036", "sum")
def a_strided_output_of_a_reduction_keeps_its_neighbours(device: str) -> None:
    pad = torch.full((4, 4), 7, dtype=torch.int16, device=device)
    x = torch.ones(7, 13, 8, dtype=torch.int16, device=device)[4:6, 1:11:6, 1:5].permute(1, 2, 0)
    ops.sum(x, dim=2, dtype=torch.int16, out=pad[::2])
    assert pad[1::2].eq(7).all() and pad[::2].eq(2).all()


@case("pytorch#184632, #182200, #184101", "mul")
def strides_of_mixed_dtypes_are_the_same_on_meta(device: str) -> None:
    c = torch.randn(3, 4, dtype=torch.cfloat, device=device).t()
    r = torch.randn(4, 3, device=device)
    for a, b in ((c, r), (r, c)):
        assert ops.mul(a, b).stride() == ops.mul(a.to("meta"), b.to("meta")).stride()


@case("pytorch#68430, #78611", "mul")
def one_image_stays_channels_last(device: str) -> None:
    images = torch.rand(1, 3, 8, 8, device=device).contiguous(memory_format=torch.channels_last)
    result = ops.mul(images[0].unsqueeze(0), 2)
    assert result.is_contiguous(memory_format=torch.channels_last)


@case("tensorflow#124949", "add", cuda=True)
def a_broadcast_result_above_two_to_the_31(device: str) -> None:
    column = torch.zeros(65536, 1, dtype=torch.int8, device=device)
    result = ops.add(column, torch.ones(1, 32769, dtype=torch.int8, device=device))
    assert result[-1, -1] == 1


@case("pytorch#169930, #141613", "sum", cuda=True)
def sums_of_two_to_the_31_elements(device: str) -> None:
    for count in (2**31 - 2, 2**31, 2**31 + 1):
        assert ops.sum(torch.ones(count, dtype=torch.int8, device=device)).item() == count


@case("vllm#41257, #45466, flashinfer#5013", "mul")
def halves_of_a_row_that_are_misaligned(device: str) -> None:
    for d in (46, 3420):
        x, y = (torch.randn(5, 2 * d, device=device).half() for _ in range(2))
        pad = torch.full((5, d + 3), 7.0, device=device).half()
        ops.mul(x[:, :d], y[:, d:], out=pad[:, 1 : d + 1])
        assert torch.equal(pad[:, 1 : d + 1], x[:, :d] * y[:, d:])
        assert pad[:, 0].eq(7).all() and pad[:, d + 1 :].eq(7).all()


@case("pytorch#37234", "sum")
def an_expanded_tensor_sums_as_a_real_one(device: str) -> None:
    e = torch.tensor([[1.01]], device=device).expand(4096, 4096)
    torch.testing.assert_close(ops.sum(e), ops.sum(e.contiguous()), rtol=1e-5, atol=0)
    calls.assert_bitwise(ops.sum(e, 1), ops.sum(e.contiguous(), 1))


@case("pytorch#22853, #10370, #41998, #93630", "argmax")
def ties_give_the_first_index(device: str) -> None:
    assert ops.argmax(torch.zeros(3, 100_000, device=device), dim=1).eq(0).all()


@case("pytorch#6996, #15338, #76795, #93784, tvm#19518", "maximum", "max")
def nan_wins_in_vector_and_tail(device: str) -> None:
    n = torch.ones(67, device=device)
    n[3] = n[66] = float("nan")
    for a, b in ((torch.ones(67, device=device), n), (n, torch.ones(67, device=device))):
        assert ops.maximum(a, b).isnan().nonzero().flatten().tolist() == [3, 66]
    assert ops.max(n, dim=0)[1].item() == 3


@case("pytorch#43519, jax#38885", "amax")
def gradients_of_many_ties_add_up(device: str) -> None:
    x = torch.ones(600, device=device).bfloat16().requires_grad_()
    ops.amax(x).backward()
    assert abs(x.grad.float().sum().item() - 1) < 0.02


@case("pytorch#32699, #42506, #165650, #89418", "remainder")
def an_integer_remainder_by_zero_is_an_error(device: str) -> None:
    x = torch.tensor([5, -5, 0], device=device)
    if x.is_cuda:  # no kernel raises there; torch's numbers
        assert ops.remainder(x, 0).tolist() == torch.remainder(x, 0).tolist()
        return
    with pytest.raises((RuntimeError, ZeroDivisionError)):
        ops.remainder(x, 0)


@case(
    "pytorch#70904, #88547, #40032, #143555, #109777", "bitwise_right_shift", "bitwise_left_shift"
)
def shifts_out_of_range(device: str) -> None:
    assert ops.bitwise_right_shift(torch.tensor(1, device=device), 64).item() == 0
    assert ops.bitwise_right_shift(torch.tensor(-2, device=device), 1).item() == -1
    assert ops.bitwise_left_shift(torch.tensor(1, device=device), -1).item() == 0


@case("pytorch#106051, #130646", "mul")
def conjugate_and_negative_views(device: str) -> None:
    z = torch.tensor([1 + 2j], device=device)
    assert ops.mul(z.conj(), 1).item() == 1 - 2j
    assert ops.mul(z.conj().imag, 1).item() == -2
    out = torch.empty(1, dtype=torch.cfloat, device=device).conj()
    ops.mul(z, 1, out=out)
    assert out.item() == 1 + 2j


@case("pytorch#1787, #913, quack#88, unsloth#10617", "mul", "sum")
def gradients_of_broadcast_operands(device: str) -> None:
    p = torch.randn(3, 1, device=device, requires_grad=True)
    q = torch.randn(4, device=device, requires_grad=True)
    ops.sum(ops.mul(p, q)).backward()
    torch.testing.assert_close(p.grad, q.detach().sum().expand(3, 1))
    torch.testing.assert_close(q.grad, p.detach().sum().expand(4))


@pytest.mark.parametrize("check", CASES)
def test_public_fault(check: Case, device: str) -> None:
    check(device)
    assert check.__name__


def test_every_case_is_collected_once_its_operators_exist() -> None:
    assert len(CASES) >= 20
    assert len({parameter.id for parameter in CASES}) == len(CASES)
