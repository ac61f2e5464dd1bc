"""Derivatives of every differentiable operator: both modes, second order, in-place, and hazards."""

from __future__ import annotations

from typing import Any

import calls
import pytest
import samples
import torch
from calls import ELEMENTWISE, REDUCTIONS, function, invoke, name_of, outputs_of
from torch.autograd import forward_ad, gradcheck, gradgradcheck

from iterlab import OpEntry

pytestmark = calls.TORCH_WARNINGS


def operands_of(
    entry: OpEntry, dtype: torch.dtype, device: str, shapes: tuple[tuple[int, ...], ...] = ((3, 2),)
) -> list[torch.Tensor]:
    """Leaves that require grad, but for bool ones."""
    operands = []
    for i, draw in enumerate(calls.draws_of(entry, (dtype,), device)):
        shape = shapes[i % len(shapes)]
        tensor = draw(torch.Size(shape).numel()).view(shape).clone()
        if tensor.dtype != torch.bool:
            tensor = (tensor + 0.05 * i).requires_grad_()  # no ties
        operands.append(tensor)
    return operands


def parameters_of(entry: OpEntry, dtype: torch.dtype = torch.float64) -> list[dict[str, Any]]:
    if entry.promotion == "to_argument":
        return [{"dtype": dtype}]
    return calls.parameter_sets(entry)


# nextafter: torch differentiates it since 2.13.
COMPARABLE = [
    entry
    for entry in ELEMENTWISE
    if entry.torch_name is not None and "float64" in entry.dtypes and entry.name != "nextafter"
]


def twin_requires_grad(entry: OpEntry) -> bool:
    operands = operands_of(entry, torch.float64, "cpu")
    try:
        result = invoke(calls.twin(entry), entry, operands, parameters_of(entry)[0])
    except RuntimeError:
        return False
    return bool(outputs_of(result)[0].requires_grad)


def twin_is_differentiable(entry: OpEntry) -> bool:
    """Whether torch has derivatives in every operand, of first and second order."""
    if not twin_requires_grad(entry):
        return False
    operands = operands_of(entry, torch.float64, "cpu")
    leaves = [operand for operand in operands if operand.requires_grad]
    result = outputs_of(invoke(calls.twin(entry), entry, operands, parameters_of(entry)[0]))[0]
    try:
        first = torch.autograd.grad(result.square().sum(), leaves, create_graph=True)
        second = [gradient.sum() for gradient in first if gradient.requires_grad]
        if second:
            torch.autograd.grad(second, leaves, allow_unused=True)
    except RuntimeError:
        return False
    return True


DIFFERENTIABLE = [entry for entry in COMPARABLE if twin_is_differentiable(entry)]
DIFFERENTIABLE_INPLACE = [entry for entry in DIFFERENTIABLE if "inplace" in entry.variants]
# One of each way to save and to promote; the others are compared in the reference tests.
FOUNDATION = [
    entry for entry in DIFFERENTIABLE if entry.name in {"exp", "leaky_relu", "add", "mul", "where"}
]
# The others' derivatives are in test_reduce_families.py.
DIFFERENTIABLE_REDUCTIONS = [entry for entry in REDUCTIONS if entry.name == "sum"]
OTHERS = [entry for entry in COMPARABLE if not twin_requires_grad(entry)]
CHECKS = {"check_forward_ad": True, "check_undefined_grad": True}


def test_some_operators_are_differentiable() -> None:
    names = {entry.name for entry in DIFFERENTIABLE}
    assert {"add", "mul", "exp", "where", "to"} <= names
    assert "sum" in {entry.name for entry in DIFFERENTIABLE_REDUCTIONS}


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=name_of)
@pytest.mark.parametrize("entry", DIFFERENTIABLE, ids=name_of)
def test_first_and_second_order(entry: OpEntry, dtype: torch.dtype, device: str) -> None:
    if dtype not in calls.input_dtypes(entry):
        return
    for parameters in parameters_of(entry, dtype):
        if dtype.is_complex and parameters.get(entry.rounding) is not None:
            continue  # complex quotients are not rounded
        operands = operands_of(entry, dtype, device)

        def call(*tensors: torch.Tensor, parameters: dict[str, Any] = parameters) -> Any:
            return invoke(function(entry), entry, tensors, parameters)

        assert gradcheck(call, operands, **CHECKS, check_batched_grad=False)
        assert gradgradcheck(call, operands, check_fwd_over_rev=True, check_rev_over_rev=True)


@pytest.mark.parametrize(
    "shapes", [((3, 2), (2,)), ((1, 2), (3, 1)), ((), (2, 2)), ((2, 2), ()), ((3, 1), (1,))]
)
@pytest.mark.parametrize("entry", DIFFERENTIABLE, ids=name_of)
def test_broadcast_operands(
    entry: OpEntry, shapes: tuple[tuple[int, ...], ...], device: str
) -> None:
    if len(entry.inputs) < 2:
        return
    operands = operands_of(entry, torch.float64, device, shapes)
    parameters = parameters_of(entry)[0]
    assert gradcheck(lambda *t: invoke(function(entry), entry, t, parameters), operands, **CHECKS)


@pytest.mark.parametrize("entry", FOUNDATION, ids=name_of)
def test_gradients_of_mixed_dtypes_are_those_of_torch(entry: OpEntry, device: str) -> None:
    """Each gradient has its input's dtype and shape, whatever the common dtype is."""
    mixes = [(torch.float32, torch.float64), (torch.bfloat16, torch.float32)]
    mixes += [(torch.float32, torch.complex64), (torch.float64,), (torch.float32,)]
    for dtypes in mixes:
        if not set(dtypes) <= set(calls.input_dtypes(entry)):
            continue
        parameters = parameters_of(entry, torch.float64)[0]
        results = []
        for call in (function(entry), calls.twin(entry)):
            operands = [
                draw(6).view(2, 3).requires_grad_(draw(1).dtype != torch.bool)
                for draw in calls.draws_of(entry, dtypes, device)
            ]
            total = outputs_of(invoke(call, entry, operands, parameters))[0].abs().sum()
            try:
                total.backward()
            except RuntimeError:  # torch.where of a real and a complex tensor has no gradient
                assert call is not function(entry) and entry.name == "where", dtypes
                continue
            results.append([(t.grad, t) for t in operands if t.requires_grad])
        for grad, operand in results[0]:
            assert (grad.dtype, grad.shape) == (operand.dtype, operand.shape), dtypes
        for (got, _), (want, _) in zip(results[0], results[-1], strict=True):
            torch.testing.assert_close(got, want)


@pytest.mark.parametrize("entry", DIFFERENTIABLE, ids=name_of)
def test_transposed_and_expanded_gradients(entry: OpEntry, device: str) -> None:
    """The incoming gradient may have any strides, 0 among them."""
    parameters = parameters_of(entry)[0]
    for incoming in (
        torch.ones((), device=device).expand(3, 2),
        torch.rand(2, 3, device=device).t(),
    ):
        grads = []
        for call in (function(entry), calls.twin(entry)):
            operands = operands_of(entry, torch.float64, device)
            outputs_of(invoke(call, entry, operands, parameters))[0].backward(incoming.double())
            grads.append([t.grad for t in operands if t.requires_grad])
        for got, want in zip(*grads, strict=True):
            torch.testing.assert_close(got, want)


@pytest.mark.parametrize("entry", DIFFERENTIABLE_INPLACE, ids=name_of)
def test_in_place_is_differentiated(entry: OpEntry, device: str) -> None:
    parameters = parameters_of(entry)[0]

    def call(first: torch.Tensor, *others: torch.Tensor) -> Any:
        return invoke(function(entry, inplace=True), entry, [first.clone(), *others], parameters)

    operands = operands_of(entry, torch.float64, device)
    assert gradcheck(call, operands, check_forward_ad=True)
    assert gradgradcheck(call, operands)


@pytest.mark.parametrize("entry", DIFFERENTIABLE_INPLACE, ids=name_of)
def test_in_place_on_a_view_reaches_its_base(entry: OpEntry, device: str) -> None:
    parameters = parameters_of(entry)[0]
    grads = []
    for inplace in (True, False):
        operands = operands_of(entry, torch.float64, device, ((4, 2),))
        base = operands[0] * 1
        rest = [t[::2] for t in operands[1:]]
        if inplace:
            invoke(function(entry, inplace=True), entry, [base[::2], *rest], parameters)
            result = base
        else:
            new = invoke(calls.twin(entry), entry, [base[::2], *rest], parameters)
            result = torch.stack([new, base[1::2]], dim=1).view(4, 2)
        (result * torch.arange(8.0, device=device).view(4, 2)).sum().backward()
        grads.append([t.grad for t in operands if t.requires_grad])
    for got, want in zip(*grads, strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("entry", DIFFERENTIABLE_INPLACE, ids=name_of)
def test_in_place_on_a_leaf_is_refused(entry: OpEntry, device: str) -> None:
    operands = operands_of(entry, torch.float64, device)
    before = operands[0].detach().clone()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        invoke(function(entry, inplace=True), entry, operands, parameters_of(entry)[0])
    calls.assert_bitwise(operands[0].detach(), before)
    view = operands[0][0]
    with pytest.raises(RuntimeError, match="view of a leaf Variable"):
        rest = [t[0] for t in operands[1:]]
        invoke(function(entry, inplace=True), entry, [view, *rest], parameters_of(entry)[0])


@pytest.mark.parametrize("how", ["inplace", "out"])
def test_writing_to_a_saved_tensor_is_noticed(how: str, device: str) -> None:
    """Version counters: each write of ours is seen by a backward that saved the tensor."""
    for entry in calls.INPLACE:
        if "float64" not in entry.dtypes or entry.promotion == "always_bool":
            continue
        x = torch.ones(3, dtype=torch.float64, device=device, requires_grad=True)
        saved = torch.full((3,), 0.5, dtype=torch.float64, device=device)
        result = (x * saved).sum()
        others = [torch.full_like(saved, 0.25) for _ in entry.inputs[1:]]
        parameters = parameters_of(entry)[0]
        if how == "inplace":
            invoke(function(entry, inplace=True), entry, [saved, *others], parameters)
        else:
            first = torch.full_like(saved, 0.5)
            invoke(function(entry), entry, [first, *others], parameters, out=saved)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.backward()


@pytest.mark.parametrize("entry", FOUNDATION, ids=name_of)
def test_a_tensor_that_is_saved_may_not_change(entry: OpEntry, device: str) -> None:
    """Where torch's twin refuses backward after a write to an operand or the result, so do we."""
    parameters = parameters_of(entry)[0]
    for which in range(len(entry.inputs) + 1):
        outcomes = []
        for call in (function(entry), calls.twin(entry)):
            operands = operands_of(entry, torch.float64, device)
            inner = [t * 1 if t.requires_grad else t for t in operands]
            result = outputs_of(invoke(call, entry, inner, parameters))[0]
            victim = (*inner, result)[which]
            total = result.sum()
            with torch.no_grad():
                victim.zero_()
            try:
                total.backward()
                outcomes.append("fine")
            except RuntimeError as error:
                assert "modified by an inplace operation" in str(error)
                outcomes.append("refused")
        assert outcomes[0] == outcomes[1], which


@pytest.mark.parametrize("entry", [*DIFFERENTIABLE, *DIFFERENTIABLE_REDUCTIONS], ids=name_of)
def test_out_does_not_take_part_in_autograd(entry: OpEntry, device: str) -> None:
    operands = operands_of(entry, torch.float64, device)
    parameters = parameters_of(entry)[0]
    detached = [t.detach() for t in operands]
    want = outputs_of(invoke(function(entry), entry, detached, parameters))[0]
    out = torch.full_like(want, 7.0)
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        invoke(function(entry), entry, operands, parameters, out=out)
    assert (out == 7).all()
    with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
        invoke(function(entry), entry, detached, parameters, out=out.requires_grad_())
    with torch.no_grad():
        invoke(function(entry), entry, operands, parameters, out=out)
    calls.assert_bitwise(out.detach(), want)


@pytest.mark.parametrize("entry", [*DIFFERENTIABLE, *DIFFERENTIABLE_REDUCTIONS], ids=name_of)
def test_no_grad_and_inference_mode(entry: OpEntry, device: str) -> None:
    operands = operands_of(entry, torch.float64, device)
    parameters = parameters_of(entry)[0]
    tracked = outputs_of(invoke(function(entry), entry, operands, parameters))[0]
    assert tracked.requires_grad and tracked.grad_fn is not None
    assert entry.name in tracked.grad_fn.name().lower()
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            plain = outputs_of(invoke(function(entry), entry, operands, parameters))[0]
            assert not plain.requires_grad and plain.grad_fn is None
            assert plain.is_inference() == (mode is torch.inference_mode)
            calls.assert_bitwise(plain, tracked.detach())
            if "inplace" in entry.variants:
                target = plain.clone()
                invoke(function(entry, inplace=True), entry, [target, *operands[1:]], parameters)


@pytest.mark.parametrize("entry", [*DIFFERENTIABLE, *DIFFERENTIABLE_REDUCTIONS], ids=name_of)
def test_jvp_is_that_of_torch(entry: OpEntry, device: str) -> None:
    parameters = parameters_of(entry)[0]
    tangents = []
    for call in (function(entry), calls.twin(entry)):
        operands = [t.detach() for t in operands_of(entry, torch.float64, device)]
        with forward_ad.dual_level():
            duals = [
                forward_ad.make_dual(t, torch.full_like(t, i + 0.5)) if t.is_floating_point() else t
                for i, t in enumerate(operands)
            ]
            result = outputs_of(invoke(call, entry, duals, parameters))[0]
            tangents.append(forward_ad.unpack_dual(result).tangent)
    assert tangents[0] is not None, "forward mode must not lose the tangent"
    torch.testing.assert_close(*tangents)


def test_operators_without_derivative_say_so(device: str) -> None:
    for entry in OTHERS:
        operands = operands_of(entry, torch.float64, device)
        result = invoke(function(entry), entry, operands, parameters_of(entry)[0])
        assert not any(t.requires_grad for t in outputs_of(result)), entry.name


@pytest.mark.parametrize("dim", [None, [], [0], [-1], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("entry", DIFFERENTIABLE_REDUCTIONS, ids=name_of)
def test_reductions(entry: OpEntry, dim: list[int] | None, keepdim: bool, device: str) -> None:
    for dtype in (torch.float64, torch.complex128):
        if samples.short_name(dtype) not in entry.dtypes:
            continue
        x = samples.ordinary_values(dtype, 12).view(2, 3, 2).to(device).requires_grad_()
        assert gradcheck(lambda t: function(entry)(t, dim, keepdim), (x,), **CHECKS)
        assert gradgradcheck(lambda t: function(entry)(t, dim, keepdim), (x,))


@pytest.mark.parametrize("entry", DIFFERENTIABLE_REDUCTIONS, ids=name_of)
def test_gradient_of_a_reduction_with_dtype(entry: OpEntry, device: str) -> None:
    x = torch.rand(4, 3, device=device, requires_grad=True)
    result = function(entry)(x, [1], dtype=torch.float64)
    assert result.dtype == torch.float64
    result.sum().backward()
    want = torch.autograd.grad(calls.twin(entry)(x, 1, dtype=torch.float64).sum(), x)[0]
    assert x.grad.dtype == torch.float32
    torch.testing.assert_close(x.grad, want)
