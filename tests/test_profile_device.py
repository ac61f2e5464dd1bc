"""Profiles with kernels of a GPU: by hand on any machine, and as it ran where there is one."""

from __future__ import annotations

import time
from collections.abc import Callable

import device_trace as names
import pytest
import torch
from device_trace import BF16, DeviceTrace, operand

import iterlab
from iterlab import classify, findings
from iterlab.profile import Profile, Row
from iterlab.record import launch_text, read

KINDS = {
    "VECTORIZED": classify.VECTORIZED,
    "FOREACH": classify.VECTORIZED,
    "UNROLLED": classify.UNROLLED,
    "STRIDED": classify.STRIDED,
    "STRIDED_UNROLLED": classify.STRIDED,
    "COPY": classify.COPY,
    "CAST": classify.COPY,
    "BF16_CAST": classify.COPY,
    "CAT": classify.COPY,
    "NHWC": classify.COPY,
    "UPLOAD": classify.COPY,
    "REDUCE": classify.REDUCTION,
    "SOFTMAX": classify.REDUCTION,
    "LAYER_NORM": classify.REDUCTION,
    "GEMM": classify.VENDOR,
    "XMMA": classify.VENDOR,
    "CUTLASS": classify.VENDOR,
    "SPLIT_K": classify.VENDOR,
    "GEMV": classify.VENDOR,
    "FLASH": classify.VENDOR,
    "CONVOLUTION": classify.VENDOR,
    "TRITON": classify.COMPILED,
    "OURS": classify.ITERLAB,
    "OURS_REDUCE": classify.ITERLAB,
    "GATHER": classify.OTHER,
    "INDEX": classify.OTHER,
    "RANDOM": classify.OTHER,
    "FILL": classify.OTHER,
}


@pytest.mark.parametrize("name", KINDS)
def test_kernels_are_classified_by_name(name: str) -> None:
    assert classify.device_kernel(getattr(names, name)) == KINDS[name]


def test_launch_text() -> None:
    assert launch_text('"grid": [128, 4, 1], "block": [256, 1, 1]') == "grid 128 × 4, block 256"
    assert launch_text('"grid": [1,1,1], "block": [32,1,1]') == "grid 1, block 32"
    assert launch_text('"bytes": 4096') == ""


SQUARE, TRANSPOSED = (1024, 1024), (1, 1024)
CHANNELS = (8, 64, 56, 56)


def run() -> DeviceTrace:
    """A step of a model on a GPU."""
    trace = DeviceTrace()
    x, t = operand(SQUARE, id=1), operand(SQUARE, strides=TRANSPOSED, id=2)
    half = operand(SQUARE, BF16, id=3)
    trace.call(3, ("aten::add",), [x, x, None], (names.VECTORIZED, 6, 2048, 128))
    trace.call(4, ("aten::add",), [x, t, None], (names.STRIDED, 31, 8192, 128))
    trace.call(5, ("aten::add",), [x, half, None], (names.UNROLLED, 9, 2048, 128))
    trace.call(6, ("aten::linear", "aten::addmm"), [x, x, x], (names.GEMM, 40, 132, 384))
    copied = ("aten::contiguous", "aten::clone", "aten::copy_")
    trace.call(7, copied, [x, t], (names.COPY, 30, 8192, 128))
    trace.call(8, ("aten::sum",), [x, None], (names.REDUCE, 8, 128, 512))
    trace.call(9, ("iterlab::add",), [x, t], (names.OURS, 12, 1024, 256))
    trace.call(10, ("aten::t",), [x])
    trace.wait(5000)
    image = operand(CHANNELS, id=4)
    convolution = ("aten::conv2d", "aten::convolution", "aten::cudnn_convolution")
    kernels = ((names.NHWC, 15, 400, 256), (names.CONVOLUTION, 50, 132, 384))
    trace.call(11, convolution, [image, image], *kernels)
    host = operand(SQUARE, device="cpu", id=5)
    upload = ("aten::to", "aten::_to_copy", "aten::copy_")
    trace.call(12, upload, [x, host], (names.UPLOAD, 200, 1, 1))
    return trace


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> Profile:
    monkeypatch.setattr(findings, "add_seconds", lambda traffic, device: traffic / 4e12)
    return Profile(read(run().profiler))


def row_of(profile: Profile, line: int) -> Row:
    return next(row for row in profile.rows if row.name.endswith(f":{line}"))


def found(profile: Profile, line: int) -> list[tuple[str, str]]:
    lines = [one for one in profile.findings if one.line.endswith(f":{line}")]
    return [(one.kind, one.what) for one in lines]


def test_seconds_are_those_of_the_device(by_hand: Profile) -> None:
    kinds = {kind: round(seconds * 1e6) for kind, seconds in by_hand.kinds.items()}
    assert kinds == {
        classify.VENDOR: 90,
        classify.ITERLAB: 12,
        classify.VECTORIZED: 6,
        classify.REDUCTION: 8,
        classify.COPY: 245,
        classify.UNROLLED: 9,
        classify.STRIDED: 31,
    }
    assert by_hand.rows[0].name.endswith(":12")  # the longest on the device comes first
    row = row_of(by_hand, 6)
    assert round(row.on_device * 1e6) == 40 and round(row.busy * 1e6) == 40
    assert round(row.seconds * 1e6) == 40 and row.loop == ""


def test_the_tree_ends_in_kernels_with_their_launch(by_hand: Profile) -> None:
    linear = row_of(by_hand, 6).rows[0]
    kernel = linear.rows[0].rows[0]
    assert (linear.name, linear.rows[0].name) == ("aten::linear", "aten::addmm")
    assert (kernel.kind, kernel.loop, kernel.launch) == (
        "kernel",
        classify.VENDOR,
        "grid 132, block 384",
    )
    assert "grid 132, block 384" in str(by_hand)


def test_the_host_is_not_blamed_for_the_work_of_a_device(by_hand: Profile) -> None:
    operators = [node for node in by_hand.trace.walk() if node.kind == "operator"]
    assert {node.loop for node in operators} == {"", classify.VIEW}
    assert [node.name for node in operators if node.loop == classify.VIEW] == ["aten::t"]


def test_findings_on_a_device(by_hand: Profile) -> None:
    assert found(by_hand, 3) == [] and found(by_hand, 9) == []
    ((kind, what),) = found(by_hand, 4)
    assert kind == "slow path" and "runs strided" in what and "`other` is not contiguous" in what
    ((kind, what),) = found(by_hand, 5)
    assert kind == "slow path" and "runs unrolled with casts" in what and "bfloat16" in what
    ((kind, what),) = found(by_hand, 7)
    assert kind == "copy" and "layout copy transposed → contiguous" in what
    ((kind, what),) = found(by_hand, 11)
    assert kind == "hidden copy" and "between NCHW and NHWC" in what
    ((kind, what),) = found(by_hand, 12)
    assert kind == "copy" and "transfer cpu → cuda" in what
    seconds = {one.line[-1]: one.seconds for one in by_hand.findings if one.line}
    assert round(seconds["4"] * 1e6) == 31


def test_gaps_are_those_of_the_device(by_hand: Profile) -> None:
    (gaps,) = [one for one in by_hand.findings if one.kind == "gaps"]
    assert 5e-3 < gaps.seconds < 5.5e-3 and "longest 5." in gaps.what
    busy = DeviceTrace()
    for line in range(5):
        x = operand(SQUARE)
        busy.call(line + 1, ("aten::add",), [x, x, None], (names.VECTORIZED, 45, 2048, 128))
    assert "gaps" not in [one.kind for one in Profile(read(busy.profiler)).findings]


def test_the_report_has_a_lane_for_the_device(by_hand: Profile) -> None:
    page = by_hand.html_page()
    assert ">device</text>" in page and "grid 2048, block 128" in page


def kernels_in(profile: Profile) -> set[str]:
    return {node.loop for node in profile.trace.walk() if node.kind == "kernel"}


@pytest.mark.cuda
def test_kinds_of_kernels_as_they_ran(device: str) -> None:
    x = torch.randn(1024, 1024, device=device)
    half, image = x.bfloat16(), torch.randn(4, 8, 64, 64, device=device)
    calls: dict[str, tuple[Callable[[], object], set[str]]] = {
        "contiguous": (lambda: x + x, {classify.VECTORIZED}),
        "transposed": (lambda: x + x.t(), {classify.STRIDED}),
        "row": (lambda: x + x[0], {classify.STRIDED}),
        "sum": (lambda: x.sum(0), {classify.REDUCTION}),
        "layout copy": (lambda: x.t().contiguous(), {classify.COPY}),
        "cast": (lambda: x.bfloat16(), {classify.COPY}),
        "matmul": (lambda: half @ half, {classify.VENDOR}),
        "index": (lambda: x[torch.arange(0, 1024, 2, device=device)], {classify.OTHER}),
        "ours": (lambda: torch.ops.iterlab.add(x, x.t()), {classify.ITERLAB}),
        "our sum": (lambda: torch.ops.iterlab.sum(x, [0]), {classify.ITERLAB}),
    }
    for name, (call, kinds) in calls.items():
        assert kernels_in(iterlab.profile(call)) >= kinds, name
    mixed = kernels_in(iterlab.profile(lambda: x + half))
    assert mixed <= {classify.VECTORIZED, classify.UNROLLED}  # by the version of torch
    weight = torch.randn(8, 8, 3, 3, device=device)
    convolved = iterlab.profile(lambda: torch.nn.functional.conv2d(image, weight))
    assert classify.STRIDED not in kernels_in(convolved)


@pytest.mark.cuda
def test_the_tree_of_a_run_on_a_gpu(device: str) -> None:
    layer = torch.nn.Linear(256, 256, device=device)
    x = torch.randn(64, 256, device=device)

    def work() -> torch.Tensor:
        y = layer(x)  # a vendor's kernel
        return y + y.t()[:64].t()[:, :1]  # a strided one

    profile = iterlab.profile(work)
    rows = [row for row in profile.rows if "test_profile_device.py" in row.name]
    linear = next(row for row in rows if any(one.name == "aten::linear" for one in row.rows))
    assert linear.on_device > 0 and "a vendor's kernel" in str(profile)
    above = next(node for node in profile.trace.walk() if node.loop == classify.VENDOR).above()
    assert [node.name for node in above][:2] == ["aten::addmm", "aten::linear"]
    assert sum(profile.kinds.values()) == pytest.approx(
        sum(row.on_device for row in profile.rows), rel=1e-6
    )
    assert ">device</text>" in profile.html_page()


@pytest.mark.cuda
def test_findings_of_a_run_on_a_gpu(device: str) -> None:
    x = torch.randn(2048, 2048, device=device)
    q = torch.randn(4, 128, 8, 64, device=device, dtype=BF16).transpose(1, 2)

    def work() -> None:
        x + x.t()
        q.transpose(2, 3).reshape(4, 8, -1)
        x.cpu()
        time.sleep(0.02)
        x + x

    found = {(one.kind, one.what.partition(",")[0]) for one in iterlab.profile(work).findings}
    assert ("slow path", "`aten::add` runs strided") in found
    kinds = {kind for kind, _ in found}
    assert {"hidden copy", "gaps", "no kernel"} <= kinds
    assert any("transfer cuda → cpu" in what for _, what in found)


@pytest.mark.cuda
def test_gaps_of_a_run_on_a_gpu(device: str) -> None:
    x = torch.randn(1024, device=device)

    def work() -> None:
        for _ in range(3):
            x + x
            torch.cuda.synchronize()
            time.sleep(0.02)

    (gaps,) = [one for one in iterlab.profile(work).findings if one.kind == "gaps"]
    assert gaps.count >= 2 and 0.04 <= gaps.seconds < 0.5


@pytest.mark.cuda
def test_ranges_of_calls_on_a_gpu(device: str) -> None:
    x = torch.randn(64, 64, device=device)
    profile = iterlab.profile(lambda: torch.ops.iterlab.sum(torch.ops.iterlab.add(x, x.t()), [0]))
    names = [node.name for node in profile.trace.walk()]
    assert names.count("iterlab::plan") == 2
    with torch.autograd.profiler.emit_nvtx():  # the same ranges, for Nsight Systems
        torch.ops.iterlab.add(x, x)
