"""User errors: ATen's exception type, one form of message, and outputs left as they were."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import calls
import pytest
import torch
from calls import ELEMENTWISE, INPLACE, REDUCTIONS, function, invoke, name_of, outputs_of

import iterlab
from iterlab import OpEntry
from iterlab._load import check_torch, minor

pytestmark = calls.TORCH_WARNINGS
ops = torch.ops.iterlab

FORM = r"iterlab::{name}: expected .+, got .+"


def check_message(raised: pytest.ExceptionInfo[BaseException], entry: OpEntry) -> None:
    first_line = str(raised.value).splitlines()[0]
    assert re.fullmatch(FORM.format(name=entry.name), first_line), first_line


def operands_of(entry: OpEntry, device: str, shape: tuple[int, ...] = (4, 3)) -> list[torch.Tensor]:
    dtype = calls.usual_dtype(entry)
    count = torch.Size(shape).numel()
    return [draw(count).view(shape) for draw in calls.draws_of(entry, (dtype,), device)]


def check_refused(
    entry: OpEntry,
    call: Callable[..., Any],
    operands: list[Any],
    error: type[Exception] = RuntimeError,
    written: torch.Tensor | None = None,
    **more: Any,
) -> None:
    """The call raises `error` in our words and `written` keeps bits, shape and version."""
    before = None if written is None else (written.clone(), written.stride(), written._version)
    with pytest.raises(error) as raised:
        invoke(call, entry, operands, calls.parameter_sets(entry)[0], **more)
    check_message(raised, entry)
    if written is not None and before is not None:
        calls.assert_bitwise(written, before[0])
        assert (written.stride(), written._version) == before[1:]


SEVERAL = [entry for entry in ELEMENTWISE if len(entry.inputs) > 1]


@pytest.mark.parametrize("entry", SEVERAL, ids=name_of)
def test_shapes_that_do_not_broadcast(entry: OpEntry, device: str) -> None:
    operands = operands_of(entry, device)
    operands[-1] = operands[-1][:, :2]
    check_refused(entry, function(entry), operands)
    want = outputs_of(
        invoke(function(entry), entry, operands_of(entry, device), calls.parameter_sets(entry)[0])
    )[0]
    check_refused(entry, function(entry), operands, written=want, out=want)
    if entry.torch_name is not None:
        with pytest.raises(RuntimeError):
            invoke(calls.twin(entry), entry, operands, calls.parameter_sets(entry)[0])
    meta = [operand.to("meta") for operand in operands]
    check_refused(entry, function(entry), meta)


@pytest.mark.parametrize("entry", INPLACE, ids=name_of)
def test_in_place_target_too_small(entry: OpEntry, device: str) -> None:
    if len(entry.inputs) < 2:
        return
    operands = operands_of(entry, device)
    operands[0] = operands[0][0].clone()
    check_refused(entry, function(entry, inplace=True), operands, written=operands[0])


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=name_of)
def test_outputs_that_cannot_be_written(entry: OpEntry, device: str) -> None:
    operands = operands_of(entry, device)
    parameters = calls.parameter_sets(entry)[0]
    want = outputs_of(invoke(function(entry), entry, operands, parameters))[0]
    expanded = torch.zeros(1, dtype=want.dtype, device=device).expand(want.shape)
    check_refused(entry, function(entry), operands, written=expanded, out=expanded)
    windows = torch.zeros(9, dtype=want.dtype, device=device).as_strided(want.shape, (2, 1))
    check_refused(entry, function(entry), operands, written=windows, out=windows)
    if operands[-1].dtype == want.dtype:
        whole = torch.zeros(5, 3, dtype=want.dtype, device=device)
        shifted = [*operands[:-1], whole[1:]]
        check_refused(entry, function(entry), shifted, written=whole[:-1], out=whole[:-1])
    if want.dtype != torch.bool:
        flags = torch.zeros(want.shape, dtype=torch.bool, device=device)
        check_refused(entry, function(entry), operands, written=flags, out=flags)


@pytest.mark.parametrize("entry", INPLACE, ids=name_of)
def test_in_place_on_overlapping_memory(entry: OpEntry, device: str) -> None:
    operands = operands_of(entry, device)
    if operands[0].dtype == torch.bool:
        return
    operands[0] = torch.ones(1, dtype=operands[0].dtype, device=device).expand(4, 3)
    check_refused(entry, function(entry, inplace=True), operands, written=operands[0])
    if len(entry.inputs) == 2:
        square = torch.ones(3, 3, dtype=operands[0].dtype, device=device)
        for other in (square[:, :1], square.t(), square[0]):
            check_refused(entry, function(entry, inplace=True), [square, other], written=square)


@pytest.mark.parametrize("entry", [*ELEMENTWISE, *REDUCTIONS], ids=name_of)
def test_mixed_devices(entry: OpEntry) -> None:
    operands: list[Any] = operands_of(entry, "cpu")
    outs = [a.name for a in function(entry).out._schema.arguments if a.alias_info is not None]
    given = {name: torch.zeros(4, 3, device="meta") for name in outs}
    check_refused(entry, function(entry), operands, **given)


@pytest.mark.parametrize("entry", [*ELEMENTWISE, *REDUCTIONS], ids=name_of)
def test_wrong_arguments_are_refused_by_the_schema(entry: OpEntry, device: str) -> None:
    operands: list[Any] = operands_of(entry, device)
    for arguments in ([], ["text"] * len(operands), [*operands, *operands, *operands, 1, 2]):
        with pytest.raises((RuntimeError, TypeError)) as raised:
            function(entry)(*arguments)
        assert entry.name in str(raised.value)


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=name_of)
def test_conditions_must_be_bool(entry: OpEntry, device: str) -> None:
    for i in range(len(entry.inputs)):
        if calls.is_bool_input(entry, i):
            operands = operands_of(entry, device)
            operands[i] = operands[i].float()
            check_refused(entry, function(entry), operands)
    assert entry.bool_inputs < 1 << len(entry.inputs)


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=name_of)
def test_factors_must_fit_the_dtype(entry: OpEntry, device: str) -> None:
    """alpha: no float for integers, no complex for reals, no bool but for bool, as in torch."""
    for parameter in entry.parameters:
        if parameter.kind != "alpha":
            continue
        for dtype, value in (
            (torch.int32, 2.5),
            (torch.float32, 1j),
            (torch.float32, True),
            (torch.bool, 2.5),
            (torch.int32, 1j),
        ):
            operands = [d(5) for d in calls.draws_of(entry, (dtype,), device)]
            for call, ours in ((function(entry), True), (calls.twin(entry), False)):
                with pytest.raises(RuntimeError) as raised:
                    call(*operands, **{parameter.name: value})
                if ours:
                    check_message(raised, entry)
            with pytest.raises(RuntimeError) as raised:
                function(entry)(*(t.to("meta") for t in operands), **{parameter.name: value})
            check_message(raised, entry)


@pytest.mark.parametrize("entry", REDUCTIONS, ids=name_of)
def test_reductions(entry: OpEntry, device: str) -> None:
    x = torch.rand(4, 3, device=device)
    x = x.to(calls.usual_dtype(entry))
    check_refused(entry, function(entry), [x], dim=[0, 0])
    check_refused(entry, function(entry), [x], dim=[0, -2])
    for operand in (x, x.to("meta")):
        with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range"):
            calls.reduce(entry, operand, 2)
    results = outputs_of(calls.reduce(entry, x, 0))
    if len(results) > 1:
        return
    expanded = torch.zeros(1, dtype=results[0].dtype, device=device).expand(3)
    check_refused(entry, function(entry), [x], written=expanded, dim=0, out=expanded)
    if results[0].dtype == x.dtype:
        check_refused(entry, function(entry), [x], written=x[0], dim=0, out=x[0])
    converts_to_out = entry.name in ("sum", "nansum", "prod")
    if results[0].dtype != torch.bool and not converts_to_out:
        flags = torch.zeros(3, dtype=torch.bool, device=device)
        check_refused(entry, function(entry), [x], written=flags, dim=0, out=flags)


def test_more_dims_than_torch_takes(device: str) -> None:
    many = torch.ones((1,) * 129, device=device)
    with pytest.raises(RuntimeError, match=r"^iterlab::exp: expected at most \d+ dims, got .*129"):
        torch.ops.iterlab.exp(many)
    with pytest.raises(RuntimeError, match=r"^iterlab::sum: expected at most \d+ dims, got .*129"):
        torch.ops.iterlab.sum(many)


OTHER_LAYOUTS: dict[str, Callable[[], torch.Tensor]] = {
    "sparse": lambda: torch.eye(2).to_sparse(),
    "sparse_csr": lambda: torch.eye(2).to_sparse_csr(),
    "mkldnn": lambda: torch.eye(2).to_mkldnn(),
    "quantized": lambda: torch.quantize_per_tensor(torch.eye(2), 0.1, 0, torch.quint8),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
}


@pytest.mark.parametrize("kind", OTHER_LAYOUTS)
def test_other_layouts_are_refused_by_argument(kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch: sparse_csr is beta, quantization deprecated
        other = OTHER_LAYOUTS[kind]()
    x = torch.eye(2)
    refused: list[tuple[str, Callable[[], object]]] = [
        ("input", lambda: ops.exp(other)),
        ("input", lambda: ops.add(other, x)),
        ("other", lambda: ops.add(x, other)),
        ("other", lambda: ops.add_(x, other)),
        ("out", lambda: ops.add(x, x, out=other)),
        ("input", lambda: ops.sum(other, 0)),
        ("input", lambda: iterlab.exp(other)),
    ]
    kind = kind.removesuffix("_csr")
    for argument, call in refused:
        text = rf"^iterlab::\w+: expected dense tensors, got `{argument}`, an? {kind} tensor"
        with pytest.raises(NotImplementedError, match=text):
            call()


def test_import_with_another_torch() -> None:
    """One clear sentence, not an undefined symbol."""
    check_torch("2.13.0+cpu", "2.13.1+cu130")
    with pytest.raises(ImportError) as raised:
        check_torch("2.13.0+cpu", "2.14.1+cu130")
    text = str(raised.value)
    assert "built for torch 2.13 and cannot run with torch 2.14.1+cu130" in text
    assert "pip install" in text and text.count("\n") == 0
    with pytest.raises(ImportError):
        check_torch("2.13.0", "2.1.3")
    assert minor("2.13.0a0+git123") == "2.13"


def test_the_check_runs_at_import(monkeypatch: pytest.MonkeyPatch) -> None:
    from iterlab import _build_info, _load

    monkeypatch.setattr(_build_info, "torch_version", "1.0.0")
    with pytest.raises(ImportError, match=r"built for torch 1\.0 and cannot run with"):
        _load.load()
    assert iterlab.__version__


# Calls with a number, and with a parameter that is one.
WITH_NUMBER: dict[str, Callable[[Any, torch.Tensor, Any], Any]] = {
    "fill": lambda ns, x, number: ns.fill(x, number),
    "masked_fill": lambda ns, x, number: ns.masked_fill(x, x > 0, number),
    "where": lambda ns, x, number: ns.where(x > 0, x, number),
    "clamp_min": lambda ns, x, number: ns.clamp_min(x, number),
    "clamp": lambda ns, x, number: ns.clamp(x, 0, number),
    "pow": lambda ns, x, number: ns.pow(x, number),
    "mul": lambda ns, x, number: ns.mul(x, number),
    "add": lambda ns, x, number: ns.add(x, x, alpha=number),
    "addcmul": lambda ns, x, number: ns.addcmul(x, x, x, value=number),
    "threshold": lambda ns, x, number: ns.threshold(x, number, 0),
    "hardtanh": lambda ns, x, number: ns.hardtanh(x, 0, number),
    "hardshrink": lambda ns, x, number: ns.hardshrink(x, number),
    "softshrink": lambda ns, x, number: ns.softshrink(x, number),
    "leaky_relu": lambda ns, x, number: ns.leaky_relu(x, number),
}


class TorchSpelled:
    """torch's functions under one roof, as iterlab's are."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        places = (torch, torch.nn.functional, torch.Tensor)
        return next(getattr(place, name) for place in places if hasattr(place, name))


@pytest.mark.parametrize("name", WITH_NUMBER)
@pytest.mark.parametrize(
    ("dtype", "number"),
    [
        (torch.float16, 1e6),
        (torch.float16, 2**40),
        (torch.float16, float("inf")),
        (torch.bfloat16, 1e39),
        (torch.int8, 300),
        (torch.uint8, 2**40),
    ],
)
def test_a_number_that_the_dtype_cannot_hold(
    name: str, dtype: torch.dtype, number: float, device: str
) -> None:
    """Refused where torch's kernel on the CPU keeps it as it keeps elements, else computed."""
    call = WITH_NUMBER[name]

    def kind(namespace: Any, where: str) -> type[Exception] | None:
        try:
            call(namespace, torch.ones(3, device=where).to(dtype), number)
        except Exception as error:
            return type(error)
        return None

    assert kind(iterlab, device) is kind(TorchSpelled(), "cpu")


LOST = "Casting complex values to real discards the imaginary part"
TOO_FEW = "degrees of freedom is <= 0"
UINT8 = "where received a uint8 condition tensor"


@pytest.fixture
def warns_always() -> Iterator[None]:
    """What torch says once a process, it says each time."""
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(always)


@pytest.mark.usefixtures("warns_always")
@pytest.mark.parametrize(
    ("call", "warning"),
    [
        (lambda ns, x: ns.copy_(torch.zeros(3, device=x.device), x), LOST),
        (lambda ns, x: ns.copy_(torch.zeros(3, device=x.device, dtype=torch.bool), x), None),
        (lambda ns, x: ns.copy_(torch.zeros_like(x), x), None),
        (lambda ns, x: ns.copy_(torch.zeros(0, device=x.device), x[:0]), None),
        (lambda ns, x: ns.eq(x, x), None),
        (lambda ns, x: ns.where(x.real.byte(), x, x), UINT8),
        (lambda ns, x: ns.abs(x, out=torch.zeros(3, device=x.device)), None),
        (lambda ns, x: ns.sum(x, dtype=torch.float32), LOST),
        (lambda ns, x: ns.sum(x[:0], dtype=torch.float32), None),
        (lambda ns, x: ns.sum(x, dim=0), None),
        (lambda ns, x: ns.var(x.real[:1], dim=0), TOO_FEW),
        (lambda ns, x: ns.std(x.real, correction=3), TOO_FEW),
        (lambda ns, x: ns.var_mean(x.real[:0]), TOO_FEW),
        (lambda ns, x: ns.std(x.real, correction=2.5), None),
    ],
)
def test_warnings_are_torchs(
    call: Callable[[Any, torch.Tensor], Any], warning: str | None, device: str
) -> None:
    x = torch.tensor([1 + 2j, 3j, 4], device=device)
    for namespace in (iterlab, TorchSpelled()):
        check_warning(call, namespace, x, warning)


def check_warning(
    call: Callable[[Any, torch.Tensor], Any], namespace: Any, x: torch.Tensor, warning: str | None
) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(namespace, x)
    assert len(caught) == (warning is not None), (namespace, [str(w) for w in caught])
    assert warning is None or warning in str(caught[0].message)


@pytest.mark.usefixtures("warns_always")
def test_a_comparison_of_complex_numbers_into_reals_warns(device: str) -> None:
    """As ATen's on the CPU; those on a GPU compare without a word."""
    x = torch.tensor([1 + 2j, 3j, 4], device=device)
    for namespace in (iterlab, TorchSpelled()) if device == "cpu" else (iterlab,):
        check_warning(
            lambda ns, x: ns.eq(x, x, out=torch.zeros(3, device=device)), namespace, x, LOST
        )


REFUSED_REDUCTIONS: list[tuple[type[Exception], Callable[[], object]]] = [
    (IndexError, lambda: ops.amax(torch.empty(0, 3), 0)),
    (RuntimeError, lambda: ops.max(torch.empty(0, 3))),
    (IndexError, lambda: ops.max(torch.empty(0, 3), 0)),
    (IndexError, lambda: ops.argmax(torch.empty(0, 3))),
    (RuntimeError, lambda: ops.norm(torch.empty(0, 3), math.inf, 0)),
    (RuntimeError, lambda: ops.norm(torch.empty(0, 3), -1, 0)),
    (RuntimeError, lambda: ops.mean(torch.ones(3, dtype=torch.int64))),
    (RuntimeError, lambda: ops.mean(torch.ones(3), dtype=torch.int64)),
    (RuntimeError, lambda: ops.nanmean(torch.ones(3, dtype=torch.int64))),
    (RuntimeError, lambda: ops.var(torch.ones(3, dtype=torch.int64))),
    (RuntimeError, lambda: ops.norm(torch.ones(3, dtype=torch.int64))),
    (RuntimeError, lambda: ops.norm(torch.ones(3), dtype=torch.float16)),
    (RuntimeError, lambda: ops.norm(torch.ones(3), dtype=torch.complex64)),
    (RuntimeError, lambda: ops.nansum(torch.ones(3, dtype=torch.complex64))),
    (RuntimeError, lambda: ops.argmax(torch.ones(3, dtype=torch.complex64))),
    (NotImplementedError, lambda: ops.amax(torch.ones(3, dtype=torch.complex64))),
    (IndexError, lambda: ops.var(torch.ones(3), 1)),
    (RuntimeError, lambda: ops.amax(torch.ones(3, 3), (0, 0))),
]


@pytest.mark.parametrize("error, call", REFUSED_REDUCTIONS)
def test_what_reductions_refuse(error: type[Exception], call: Callable[[], object]) -> None:
    with pytest.raises(error) as raised:
        call()
    assert raised.type is error
