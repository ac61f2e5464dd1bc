"""PyTorch's OpInfo database on iterlab's operators: torch's samples, torch's answers.

Quick tests take the sample inputs of COMMON dtypes; slow ones all dtypes, and the reference inputs.
Gradients are taken in double precision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as forward_ad
from calls import assert_bitwise
from opinfo_differences import DIFFERENCES
from opinfos import (
    TWINS,
    SampleInput,
    Twin,
    call,
    described,
    mapped,
    outcome,
    outputs,
    tensors,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

COMMON = {torch.bfloat16, torch.float32, torch.complex64, torch.int64, torch.bool}
# What PyTorch's own tests allow, with a last place more for half types: torch rounds them between
# the steps of a formula, iterlab rounds once.
TOLERANCE = {
    torch.float16: (2e-3, 1e-5),
    torch.bfloat16: (2e-2, 1e-5),
    torch.complex32: (4e-3, 1e-5),
}

Check = Callable[[], None]
Checks = Iterator[tuple[str, Check]]


def every_twin(*marks: Any) -> Any:
    return pytest.mark.parametrize("twin", [pytest.param(t, id=t.id, marks=marks) for t in TWINS])


def run(test: str, twin: Twin, checks: Checks) -> None:
    """Run all checks; what fails must be among DIFFERENCES, and what is among them must fail."""
    expected = [one for one in DIFFERENCES if twin.id in one.operators and test in one.tests]
    failures, count = [], 0
    for what, check in checks:
        count += 1
        try:
            check()
        except (AssertionError, RuntimeError, TypeError, ValueError, IndexError) as error:
            failures.append(f"{what}: {type(error).__name__}: {' '.join(str(error).split())[:400]}")
    unknown = [f for f in failures if not any(re.search(one.what, f) for one in expected)]
    assert not unknown, f"{len(unknown)} of {count}:\n" + "\n".join(unknown[:5])
    for one in expected:
        assert any(re.search(one.what, f) for f in failures), f"no longer needed: {one}"


def assert_same(got: Any, want: Any) -> None:
    """Values, dtypes, shapes, and the strides of what has elements."""
    for mine, theirs in zip(outputs(got), outputs(want), strict=True):
        rtol, atol = TOLERANCE.get(theirs.dtype, (None, None))
        torch.testing.assert_close(mine, theirs, rtol=rtol, atol=atol, equal_nan=True)
        if theirs.numel() != 0:
            walked = [d for d in range(theirs.dim()) if theirs.size(d) != 1]
            strides = [[t.stride(d) for d in walked] for t in (mine, theirs)]
            assert strides[0] == strides[1], f"strides {strides[0]}, torch's {strides[1]}"


def assert_same_bits(got: Any, want: Any) -> None:
    for mine, theirs in zip(outputs(got), outputs(want), strict=True):
        assert_bitwise(mine, theirs)


def like_torch(twin: Twin, sample: SampleInput) -> None:
    """The same result, or the same kind of exception."""
    want, got = outcome(twin.info.op, sample), outcome(twin.function, sample)
    if isinstance(want, Exception) or isinstance(got, Exception):
        assert type(got) is type(want), f"got {got!r}, torch's {want!r}"
    else:
        assert_same(got, want)


def forward_checks(
    twin: Twin, dtypes: list[torch.dtype], samples: Callable[[torch.dtype], list[SampleInput]]
) -> Checks:
    for dtype in dtypes:
        for sample in samples(dtype):
            yield described(sample), lambda sample=sample: like_torch(twin, sample)


@every_twin()
def test_samples(twin: Twin) -> None:
    dtypes = [dtype for dtype in twin.dtypes if dtype in COMMON]
    run("samples", twin, forward_checks(twin, dtypes, twin.samples))


@every_twin(pytest.mark.slow)
def test_samples_of_rare_dtypes(twin: Twin) -> None:
    dtypes = [dtype for dtype in twin.dtypes if dtype not in COMMON]
    run("rare samples", twin, forward_checks(twin, dtypes, twin.samples))


@every_twin(pytest.mark.slow)
def test_reference_samples(twin: Twin) -> None:
    run("reference", twin, forward_checks(twin, twin.dtypes, twin.reference_samples))


@every_twin()
def test_errors(twin: Twin) -> None:
    """Inputs that torch rejects, and dtypes that it lacks: refused alike, or computed."""
    errors = [] if twin.info.error_inputs_func is None else twin.info.error_inputs("cpu")

    def checks() -> Checks:
        for error in errors:
            sample = error.sample_input
            yield described(sample), lambda sample=sample: like_torch(twin, sample)

    run("errors", twin, checks())


ALL_DTYPES = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
ALL_DTYPES += [torch.float16, torch.bfloat16, torch.float32, torch.float64]
ALL_DTYPES += [torch.complex32, torch.complex64, torch.complex128]


@every_twin()
def test_dtypes_that_torch_lacks(twin: Twin) -> None:
    """Each is refused by the same kind of exception, or computed by iterlab."""
    lacking = [dtype for dtype in ALL_DTYPES if dtype not in twin.dtypes]

    def same_refusal(sample: SampleInput) -> None:
        want, got = outcome(twin.info.op, sample), outcome(twin.function, sample)
        if isinstance(got, Exception):
            assert type(got) is type(want), f"got {got!r}, torch's {want!r}"
        elif not isinstance(want, Exception):
            assert_same(got, want)

    def checks() -> Checks:
        base = next(iter(twin.info.sample_inputs("cpu", twin.dtypes[0])))
        for dtype in lacking:
            sample = mapped(base, lambda t, dtype=dtype: t.to(dtype))
            yield described(sample), lambda sample=sample: same_refusal(sample)

    run("lacking", twin, checks())


def like_an_inplace_variant(result: torch.Tensor) -> Callable[..., torch.Tensor]:
    """What an in-place variant does that torch lacks: the result is copied where it fits."""

    def write(target: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        if result.shape != target.shape or not torch.can_cast(result.dtype, target.dtype):
            raise RuntimeError
        return target.copy_(result)

    return write


def variants_agree(twin: Twin, sample: SampleInput) -> None:
    """out=, in place, and operands that are not contiguous give the functional result's bits."""
    want = call(twin.function, sample)
    assert_same_bits(call(twin.function, sample.noncontiguous()), want)
    if twin.info.supports_out:
        outs = [torch.full_like(one, 7) for one in outputs(want)]
        given = outs[0] if len(outs) == 1 else tuple(outs)
        returned = call(twin.function, sample, out=given)
        assert all(a is b for a, b in zip(outputs(returned), outs, strict=True))
        assert_same_bits(given, want)
    if twin.inplace is not None and isinstance(sample.input, torch.Tensor):
        mine, theirs = (mapped(sample, lambda t: t.clone()) for _ in range(2))
        returned = outcome(twin.inplace, mine)
        torchs = outcome(twin.info.inplace_variant or like_an_inplace_variant(want), theirs)
        if isinstance(torchs, Exception):
            assert type(returned) is type(torchs), f"got {returned!r}, torch's {torchs!r}"
        else:
            assert returned is mine.input
            assert_same_bits(mine.input, want.to(mine.input.dtype))


def variant_checks(twin: Twin, dtypes: list[torch.dtype]) -> Checks:
    for dtype in dtypes:
        for sample in twin.samples(dtype):
            if not isinstance(outcome(twin.info.op, sample), Exception):
                yield described(sample), lambda sample=sample: variants_agree(twin, sample)


@every_twin()
def test_variants(twin: Twin) -> None:
    dtypes = [dtype for dtype in twin.dtypes if dtype in COMMON]
    run("variants", twin, variant_checks(twin, dtypes))


@every_twin(pytest.mark.slow)
def test_variants_of_rare_dtypes(twin: Twin) -> None:
    dtypes = [dtype for dtype in twin.dtypes if dtype not in COMMON]
    run("rare variants", twin, variant_checks(twin, dtypes))


def gradient_dtypes(twin: Twin) -> list[torch.dtype]:
    known = twin.info.supported_backward_dtypes("cpu") if twin.info.supports_autograd else set()
    return [dtype for dtype in (torch.float64, torch.complex128) if dtype in known]


def cotangent(result: torch.Tensor) -> torch.Tensor:
    generator = torch.Generator().manual_seed(result.numel())
    return torch.rand(result.shape, dtype=result.dtype, generator=generator) + 0.5


def derivatives(fn: Callable[..., Any], sample: SampleInput, twice: bool) -> list[Any]:
    """The gradients of all tensors that require one, and the gradients of these."""
    leaves = [t for t in tensors(sample) if t.requires_grad]
    results = [r for r in outputs(call(fn, sample)) if r.requires_grad]
    grads = torch.autograd.grad(
        results, leaves, [cotangent(r) for r in results], create_graph=twice, allow_unused=True
    )
    if not twice:
        return list(grads)
    second = [g for g in grads if g is not None and g.requires_grad]
    if not second:
        return [*grads, *[None] * len(leaves)]
    cotangents = [cotangent(g) for g in second]
    return [*grads, *torch.autograd.grad(second, leaves, cotangents, allow_unused=True)]


def assert_same_derivatives(got: list[Any], want: list[Any]) -> None:
    for i, (mine, theirs) in enumerate(zip(got, want, strict=True)):
        if mine is None or theirs is None:  # no gradient, or one of zeros
            other = theirs if mine is None else mine
            assert other is None or not other.any(), f"gradient {i}"
        else:
            torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-8, equal_nan=True)


@every_twin()
def test_gradients(twin: Twin) -> None:
    """Backward and double backward, against torch's."""

    def same_gradients(sample: SampleInput) -> None:
        twice = twin.info.supports_gradgrad
        want = derivatives(twin.info.op, sample, twice)
        assert_same_derivatives(derivatives(twin.function, sample, twice), want)

    def checks() -> Checks:
        for dtype in gradient_dtypes(twin):
            for sample in twin.samples(dtype, requires_grad=True):
                result = outcome(twin.info.op, sample)
                if isinstance(result, Exception) or not outputs(result)[0].requires_grad:
                    continue
                yield described(sample), lambda sample=sample: same_gradients(sample)

    run("gradients", twin, checks())


def tangents(fn: Callable[..., Any], sample: SampleInput) -> list[Any]:
    with forward_ad.dual_level():
        dual = mapped(
            sample,
            lambda t: forward_ad.make_dual(t.detach(), cotangent(t)) if t.requires_grad else t,
        )
        return [forward_ad.unpack_dual(one).tangent for one in outputs(call(fn, dual))]


@every_twin()
def test_forward_mode(twin: Twin) -> None:
    def same_tangents(sample: SampleInput) -> None:
        assert_same_derivatives(tangents(twin.function, sample), tangents(twin.info.op, sample))

    def checks() -> Checks:
        if not twin.info.supports_forward_ad:
            return
        for dtype in gradient_dtypes(twin):
            for sample in twin.samples(dtype, requires_grad=True):
                if not isinstance(outcome(twin.info.op, sample), Exception):
                    yield described(sample), lambda sample=sample: same_tangents(sample)

    run("forward mode", twin, checks())


@pytest.fixture
def no_vmap_fallback() -> Iterator[None]:
    torch._C._functorch._set_vmap_fallback_enabled(False)
    yield
    torch._C._functorch._set_vmap_fallback_enabled(True)


@every_twin()
@pytest.mark.usefixtures("no_vmap_fallback")
def test_vmap(twin: Twin) -> None:
    """Every tensor batched, and the first alone, against a loop over the samples."""

    def same_as_a_loop(sample: SampleInput, batched: list[torch.Tensor]) -> None:
        places = {id(t): i for i, t in enumerate(batched)}

        def of(*values: torch.Tensor) -> Any:
            here = lambda t: values[places[id(t)]] if id(t) in places else t  # noqa: E731
            return call(twin.function, mapped(sample, here))

        stacks = [torch.stack([t, t.flip(0) if t.dim() else t], dim=t.dim()) for t in batched]
        got = torch.vmap(of, in_dims=-1)(*stacks)
        loop = [outputs(of(*(s[..., i] for s in stacks))) for i in range(2)]
        for mine, *theirs in zip(outputs(got), *loop, strict=True):
            torch.testing.assert_close(mine, torch.stack(theirs), equal_nan=True)

    def checks() -> Checks:
        for dtype in (torch.float32, torch.int64):
            for sample in twin.samples(dtype)[:12] if dtype in twin.dtypes else ():
                if isinstance(outcome(twin.info.op, sample), Exception):
                    continue
                every = list({id(t): t for t in tensors(sample)}.values())
                for chosen in [every] + ([every[:1]] if len(every) > 1 else []):
                    yield (
                        f"{len(chosen)} of {described(sample)}",
                        lambda sample=sample, chosen=chosen: same_as_a_loop(sample, chosen),
                    )

    run("vmap", twin, checks())
