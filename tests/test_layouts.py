"""Elementwise operators on every layout: values and strides of torch, one result on every path."""

from __future__ import annotations

import functools
from typing import Any

import calls
import pytest
import samples
import torch
from calls import ELEMENTWISE, WITH_TWIN, draws_of, function, invoke, name_of, outputs_of
from layouts import BY_NAME, CASES, CORE, Case

import iterlab
from iterlab import OpEntry

pytestmark = calls.TORCH_WARNINGS

PATHS = ("vectorized", "strided", "tiled", "generic")


# torch gives the input back (positive, conj_physical of reals), takes the second operand's strides
# (rsub, which is sub with its operands exchanged), makes a contiguous result (angle, logsigmoid),
# or keeps its own (copy).
OTHER_STRIDES = {"positive", "conj_physical", "rsub", "angle", "logsigmoid", "copy"}
OTHER_STRIDES |= {"threshold_backward", "leaky_relu_backward"}  # operands exchanged too
# torch keeps the strides of dims of size 1, and of empty tensors, as they were.
OTHER_STRIDES_OF_ONE = {"abs", "nan_to_num", "hardtanh", "relu6"}
OTHER_STRIDES_OF_ONE |= {"deg2rad", "rad2deg", "isinf", "isfinite"}  # made of others
# torch rounds the power of two to the half type before it multiplies.
ROUNDED_BETWEEN = {"ldexp"}


class Differences:
    """Comparisons of bits that are looked at together: a GPU is waited for once, at the end."""

    def __init__(self) -> None:
        self._found: list[torch.Tensor] = []
        self._what: list[object] = []

    def compare(self, got: torch.Tensor, want: torch.Tensor, what: object) -> None:
        assert (got.dtype, got.shape) == (want.dtype, want.shape), what
        self.refuse(calls.bits(got).ne(calls.bits(want)), what)

    def refuse(self, wrong: torch.Tensor, what: object) -> None:
        self._found.append(wrong.any())
        self._what.append(what)

    def check(self) -> None:
        if self._found:
            found = torch.stack(self._found).nonzero().flatten().tolist()
            assert not found, [self._what[i] for i in found[:5]]


def moving_strides(tensor: torch.Tensor) -> list[int]:
    """The strides that lead from an element to another."""
    if tensor.numel() == 0:
        return []
    return [step for step, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1]


def sweep(entries: list[OpEntry]) -> list[Any]:
    """Every operator on every case; in `make test`, core cases for those that share a signature."""
    return [
        calls.slow_unless_representative(
            entry, case, quick=case in CORE, id=f"{entry.name}-{case.name}"
        )
        for entry in entries
        for case in CASES
    ]


@functools.cache
def layout_dtypes(entry: OpEntry) -> list[tuple[torch.dtype, ...]]:
    """A few dtypes that differ in element size and staging: same dtype, half type, mixed widths."""
    wanted: list[tuple[torch.dtype, ...]] = [
        (torch.float32,),
        (torch.bfloat16,),
        (torch.int8,),
        (torch.complex64,),
        (torch.float32, torch.bfloat16),
        (torch.int64, torch.float64),
    ]
    known = set(calls.input_dtypes(entry))
    several = len(calls.promoted(entry, entry.inputs)) > 1
    return [
        w
        for w in wanted
        if set(w) <= known and (len(w) == 1 or (several and calls.takes(entry, w)))
    ]


def parameters_for(entry: OpEntry) -> list[dict[str, Any]]:
    if entry.promotion == "to_argument":
        return [{"dtype": torch.float32}, {"dtype": torch.int16}, {"dtype": torch.complex128}]
    return calls.parameter_sets(entry)[:1]


def run_on_paths(
    entry: OpEntry, operands: list[torch.Tensor], parameters: dict[str, Any]
) -> dict[str, tuple[torch.Tensor, ...]]:
    """Results by path: its own choice as "", then every legal one forced."""
    call = function(entry)
    results = {"": outputs_of(invoke(call, entry, operands, parameters))}
    legal = invoke(
        lambda *a, **k: iterlab.plan(entry.name, *a, **k), entry, operands, parameters
    ).legal_paths
    for path in PATHS:
        if path in legal:
            with iterlab.force_path(path):
                results[path] = outputs_of(invoke(call, entry, operands, parameters))
    assert {"strided", "generic"} <= set(results)
    return results


@pytest.mark.parametrize(("entry", "case"), sweep(WITH_TWIN))
def test_values_and_strides_are_those_of_torch(entry: OpEntry, case: Case, device: str) -> None:
    for dtypes in layout_dtypes(entry):
        if entry.name in ROUNDED_BETWEEN and torch.bfloat16 in dtypes:
            continue
        if entry.name.endswith("_backward") and len(dtypes) > 1:
            continue  # torch's own take one dtype, which they do not check
        operands = case.make(draws_of(entry, dtypes, device))
        if len({operand.shape for operand in operands}) > 1 and (
            entry.name.endswith("_backward") or entry.name == "copy"
        ):
            continue  # nor do they broadcast; copy does not broadcast its target
        for parameters in parameters_for(entry):
            what = (entry.name, case.name, dtypes, parameters)
            wanted = calls.expected(entry, operands, parameters)
            for path, results in run_on_paths(entry, operands, parameters).items():
                for got, want in zip(results, wanted, strict=True):
                    calls.assert_near(entry, got, want, (*what, path))
                    if entry.name in OTHER_STRIDES_OF_ONE:
                        assert moving_strides(got) == moving_strides(want), (*what, path)
                    elif entry.name not in OTHER_STRIDES:
                        assert got.stride() == want.stride(), (*what, path)


@pytest.mark.parametrize(("entry", "case"), sweep(ELEMENTWISE))
def test_every_path_gives_the_bits_of_generic(entry: OpEntry, case: Case, device: str) -> None:
    differences = Differences()
    for dtypes in layout_dtypes(entry):
        operands = case.make(draws_of(entry, dtypes, device, ordinary=False))
        for parameters in parameters_for(entry):
            what = (entry.name, case.name, dtypes, parameters)
            results = run_on_paths(entry, operands, parameters)
            materialised = [operand.contiguous() for operand in operands]
            results["contiguous operands"] = outputs_of(
                invoke(function(entry), entry, materialised, parameters)
            )
            for path, outputs in results.items():
                for got, want in zip(outputs, results["generic"], strict=True):
                    differences.compare(got, want, (*what, path))
    differences.check()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_what_moves_values_keeps_the_payload_of_a_nan(dtype: torch.dtype, device: str) -> None:
    width = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    info = torch.iinfo(width)
    raw = torch.randint(info.min, info.max, (70, 66), dtype=width).to(device)
    x, mask = raw.view(dtype), torch.rand(70, 66, device=device) > 0.5
    assert x.isnan().any()
    for view, bits in ((x.t(), raw.t()), (x[:, ::2], raw[:, ::2])):
        out = torch.empty(view.shape, dtype=dtype, device=device)
        for path in iterlab.plan("clone", view, out=out).legal_paths:
            with iterlab.force_path(path):
                assert torch.equal(torch.ops.iterlab.to.out(view, dtype, out=out).view(width), bits)
                assert torch.equal(torch.ops.iterlab.clone.out(view, out=out).view(width), bits)
    chosen = torch.ops.iterlab.where(mask, x, x.flip(0))
    assert torch.equal(chosen.view(width), torch.where(mask, raw, raw.flip(0)))


@pytest.mark.parametrize("entry", ELEMENTWISE, ids=name_of)
def test_an_element_does_not_depend_on_length_or_position(entry: OpEntry, device: str) -> None:
    """Lengths 0 to 130 at every offset 0 to 15: vector bodies, tails and heads agree."""
    longest = 130
    offsets = range(16) if entry.name in calls.REPRESENTATIVES else (0, 1, 7)
    differences = Differences()
    for dtypes in layout_dtypes(entry):
        parameters = parameters_for(entry)[0]
        whole = [draw(longest) for draw in draws_of(entry, dtypes, device, ordinary=False)]
        with iterlab.force_path("generic"):
            wanted = outputs_of(invoke(function(entry), entry, whole, parameters))
        for offset in offsets:
            moved = [torch.empty(longest + offset, dtype=t.dtype, device=device) for t in whole]
            for tensor, values in zip(moved, whole, strict=True):
                tensor[offset:].copy_(values)
            for length in range(longest + 1):
                views = [tensor[offset : offset + length] for tensor in moved]
                results = outputs_of(invoke(function(entry), entry, views, parameters))
                for got, want in zip(results, wanted, strict=True):
                    differences.compare(got, want[:length], (dtypes, offset, length))
    differences.check()


@pytest.mark.parametrize(("entry", "case"), sweep(ELEMENTWISE))
def test_strided_outputs_leave_their_neighbours_alone(
    entry: OpEntry, case: Case, device: str
) -> None:
    dtypes = layout_dtypes(entry)[0]
    parameters = parameters_for(entry)[0]
    operands = case.make(draws_of(entry, dtypes, device))
    wanted = outputs_of(invoke(function(entry), entry, operands, parameters))
    if len(wanted) != 1 or "out" not in entry.variants:
        return
    want = wanted[0]
    shape = want.shape
    pads = (
        {
            "inner stride 2": ((*shape[:-1], 2 * shape[-1] + 1), (..., slice(1, None, 2))),
            "longer rows": ((*shape[:-1], shape[-1] + 3), (..., slice(2, -1))),
            "outer stride 2": ((2 * shape[0], *shape[1:]), (slice(1, None, 2),)),
        }
        if shape
        else {"plain": ((3,), (1,))}
    )
    differences = Differences()
    for name, (padded, index) in pads.items():
        whole = torch.full(padded, 1, dtype=want.dtype, device=device)
        untouched = torch.ones(padded, dtype=torch.bool, device=device)
        untouched[index] = False
        out = whole[index]
        for path in ("", "generic", "strided"):
            whole.fill_(1)
            with iterlab.force_path(path) if path else torch.no_grad():
                given = invoke(function(entry), entry, operands, parameters, out=out)
            assert given is out
            differences.compare(out, want, (case.name, name, path))
            differences.refuse((whole != 1) & untouched, ("neighbours", case.name, name, path))
    differences.check()


@pytest.mark.parametrize("entry", WITH_TWIN, ids=name_of)
def test_views_with_lazy_conjugate_or_negative_bits(entry: OpEntry, device: str) -> None:
    for dtype in (torch.complex64, torch.complex128):
        if dtype not in calls.input_dtypes(entry):
            continue
        for case in (BY_NAME[name] for name in ("contiguous", "transposed", "inner stride 2")):
            operands = case.make(draws_of(entry, (dtype,), device))
            lazy = [t.conj() if t.is_complex() else t for t in operands]
            negative = [t.conj().imag if t.is_complex() else t for t in operands]
            for views in (lazy, negative):
                wanted = calls.expected(entry, [v.clone() for v in views], parameters_for(entry)[0])
                results = outputs_of(
                    invoke(function(entry), entry, views, parameters_for(entry)[0])
                )
                for got, want in zip(results, wanted, strict=True):
                    calls.assert_near(entry, got, want, (case.name, dtype))


def test_the_table_has_every_dtype_size_somewhere() -> None:
    sizes = {t.itemsize for entry in ELEMENTWISE for ts in layout_dtypes(entry) for t in ts}
    assert {1, 2, 4, 8} <= sizes
    assert samples.ALL_DTYPES
