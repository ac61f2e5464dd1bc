"""Profiles: the tree, kinds of kernels, hidden copies, slow paths."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import StringIO
from pathlib import Path

import pytest
import torch
from rich.console import Console

import iterlab
from iterlab import classify, findings
from iterlab.cli import main
from iterlab.measured import quiet_profile
from iterlab.profile import Profile
from iterlab.record import record
from iterlab.script import profile_script
from iterlab.trace import source_text

SCRIPTS = Path(__file__).parent / "scripts"


def profiled(name: str) -> tuple[Profile, str]:
    """Profile a script of tests/scripts: its profile and its source."""
    script = SCRIPTS / name
    result, code = profile_script(str(script))
    assert code == 0
    return result, script.read_text()


class Found:
    """The findings of a script by kind and by the text of the line."""

    def __init__(self, name: str) -> None:
        self.profile, source = profiled(name)
        self.name, self.lines = name, source.splitlines()

    def of(self, kind: str, text: str) -> str:
        """What is found at the line that has this text, in one string; "" where nothing is."""
        numbers = [i for i, line in enumerate(self.lines, 1) if text in line]
        assert len(numbers) == 1, f"{text} is in lines {numbers}"
        line = f"{self.name}:{numbers[0]}"
        return "\n".join(
            f"{one.what}; {one.advice}"
            for one in self.profile.findings
            if one.kind == kind and one.line.endswith(line)
        )


def test_a_cnn_in_nhwc() -> None:
    found = Found("nhwc_classifier.py")
    assert "contiguous → channels_last" in found.of("hidden copy", "self.norm(self.conv(x))")
    assert "channels_last → contiguous" in found.of("copy", "x = x.contiguous()")
    slow = found.of("slow path", "x + self.position")
    assert "`aten::add` runs strided" in slow and "`other` is not contiguous" in slow
    assert "joins 4 tensors" in found.of("copy", "batch = torch.stack")
    assert "cast uint8 → float32" in found.of("copy", "frame.float()")
    # What has one layout is no fault: a norm over channels, a scale for each.
    for fine in ("self.norm(y.permute", "x + self.scale * y", "(image - MEAN) / STD"):
        for kind in ("slow path", "hidden copy", "repeated copy", "copy"):
            assert found.of(kind, fine) == ""
    kinds = found.profile.kinds
    assert kinds[classify.VENDOR] > 0 and kinds[classify.STRIDED] > 0


def test_a_transformer_in_bf16() -> None:
    found = Found("small_gpt.py")
    rotary = found.of("hidden copy", "q = q * cos")
    assert "cast bfloat16 → float32" in rotary and "hides in `aten::mul`" in rotary
    assert "hides in `MulBackward0`, the backward of this line" in rotary
    assert "hides in `aten::softmax`" in found.of("hidden copy", "F.softmax(scores")
    assert "float32 → bfloat16" in found.of("copy", "F.softmax(scores")
    masked = found.of("hidden copy", "masked_fill(causal")
    assert "hides in `aten::masked_fill`" in masked and "masked_fill_" in masked
    assert "layout copy" in found.of("hidden copy", "mixed.transpose(1, 2).reshape")
    again = found.of("repeated copy", "head.to(torch.bfloat16)")
    assert "cast float32 → bfloat16 of [200, 96]" in again and "copy it once" in again
    assert found.of("repeated copy", "wide = x.float()") == ""  # another tensor each time
    rows = [row for row in found.profile.rows if "small_gpt.py" in row.name]
    backward = next(row for row in rows if any(one.kind == "backward" for one in row.rows))
    assert found.lines[int(backward.name.rpartition(":")[2]) - 1].strip() == "loss.backward()"


def test_a_kernel_without_vectors_is_a_slow_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "add_seconds", lambda traffic, device: 1e-6)
    x, mask = torch.randn(1024, 1024), torch.rand(1024, 1024) > 0.5
    profile = iterlab.profile(lambda: (torch.where(mask, x, 0.0), torch.add(x, x)))
    slow = [one for one in profile.findings if one.kind == "slow path"]
    assert len(slow) == 1 and slow[0].what.startswith("`aten::where` takes")
    assert "a call, because ATen's kernel of where has no vectors" in slow[0].what
    assert slow[0].advice == "call iterlab.where; memory allows 1 µs a call"
    assert profile.kinds[classify.SCALAR] > 0


def test_a_cast_of_a_tensor_that_changes_is_no_repetition() -> None:
    weight, x = torch.randn(64, 64), torch.randn(8, 64)

    def steps(update: bool) -> set[str]:
        def work() -> None:
            for _ in range(3):
                x.bfloat16() @ weight.bfloat16()
                if update:
                    weight.mul_(0.9)
                    x.add_(1)

        return {one.kind for one in iterlab.profile(work).findings}

    assert "repeated copy" in steps(update=False)
    assert "repeated copy" not in steps(update=True)


def test_an_optimizers_step_is_of_its_line() -> None:
    layer = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def work() -> None:
        layer(torch.ones(2, 8)).sum().backward()
        optimizer.step()  # this line

    profile = iterlab.profile(work)
    assert all("test_profile.py" in row.name for row in profile.rows if row.seconds > 1e-5)
    (step,) = [one for one in profile.trace.walk() if one.name == "Optimizer.step#SGD.step"]
    assert "this line" in source_text(step.line)
    assert {one.kind for one in step.children} == {"operator"}


def test_parts_of_one_tensor_are_no_repetition() -> None:
    """The profiler tells the memory of views apart, not the views."""
    qkv = torch.randn(64, 3, 64)

    def work() -> list[torch.Tensor]:
        return [qkv[:, i].contiguous() for i in range(3)]

    found = iterlab.profile(work).findings
    assert [(one.kind, one.count) for one in found if "copy" in one.kind] == [("copy", 3)]


def test_a_backward_repeats_its_forwards_copy() -> None:
    """A convolution copies an input of another layout twice: that is no fault of a loop."""
    convolution = torch.nn.Conv2d(16, 16, 3).to(memory_format=torch.channels_last)
    x = torch.randn(4, 16, 32, 32, requires_grad=True)
    found = iterlab.profile(lambda: convolution(x).sum().backward()).findings
    hidden = [one for one in found if one.kind == "hidden copy"]
    assert any("hides in `aten::conv2d`" in one.what for one in hidden)
    assert "repeated copy" not in {one.kind for one in found}


@pytest.mark.parametrize("width", [80, 120])
def test_a_row_of_the_tree_is_one_line(width: int) -> None:
    def work() -> torch.Tensor:
        x = torch.ones(3)
        return x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x + x  # a long line

    console = Console(file=StringIO(), width=width)
    console.print(iterlab.profile(work))
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    rows = [line for line in lines if line.lstrip("│ ").startswith(("├──", "└──"))]
    assert len(rows) > 3 and max(map(len, rows)) <= width
    first = next(row for row in rows if "x + x" in row)
    assert first.endswith("…  ×16") and "test_profile.py:" in first
    assert lines.index(rows[-1]) - lines.index(rows[0]) == len(rows) - 1


def test_the_tree_goes_from_lines_to_kernels() -> None:
    x = torch.randn(64, 64)

    def work() -> torch.Tensor:
        return torch.ops.iterlab.add(x, x.t())  # this line

    profile = iterlab.profile(work)
    row = next(row for row in profile.rows if "test_profile.py" in row.name)
    named = {inner.name: inner for one in profile.rows for inner in one.rows}
    assert row.kind == "line" and "iterlab::add" in named
    kernels = [one for one in named["iterlab::add"].rows if one.kind == "kernel"]
    plan = iterlab.plan("add", x, x.t())
    assert isinstance(plan, iterlab.Plan)
    assert kernels[0].name.startswith(f"iterlab::add [{plan.path} ")
    assert kernels[0].loop == classify.ITERLAB
    assert "iterlab::plan" in {one.name for one in named["iterlab::add"].rows}
    assert named["aten::t"].rows[0].rows[0].loop == classify.VIEW


def test_profiling_does_not_import_the_compiler() -> None:
    """That takes seconds, and the start of a profile is what a user waits for."""
    code = (
        "import sys, torch, iterlab\n"
        "iterlab.profile(torch.neg, torch.ones(3))\n"
        "assert not {'torch._dynamo', 'torch._inductor'} & set(sys.modules)\n"
        "import torch._inductor\n"
        "assert torch._inductor.__name__ == 'torch._inductor'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_a_profile_inside_another_is_refused_and_ends_neither() -> None:
    x, ran = torch.ones(4), []
    with quiet_profile() as outer:
        with pytest.raises(RuntimeError, match=r"^iterlab: expected no active profiler"):
            iterlab.profile(lambda: ran.append(x + x))
        with pytest.raises(RuntimeError, match=r"^iterlab: expected no active profiler"):
            iterlab.explain("add", x, x, run=True)
        torch.exp(x)
    assert not ran
    assert any(event.name == "aten::exp" for event in outer.events())


def test_work_in_other_threads_counts() -> None:
    x = torch.randn(300, 300)

    def work() -> None:
        thread = threading.Thread(target=lambda: [x + x.t() for _ in range(20)])
        thread.start()
        thread.join()
        torch.mul(x, x)

    counts = {name: count for name, _, count, _ in iterlab.profile(work).table}
    assert (counts["aten::add"], counts["aten::mul"]) == (20, 1)


def test_threads_that_wait_have_no_part() -> None:
    x, row = torch.randn(64, 64), torch.randn(64)

    def work() -> list[torch.Tensor]:
        return [x @ row.bfloat16().float() for _ in range(3)]

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(int).result() == 0
        time.sleep(0.2)  # its thread has started, and waits
        assert iterlab.profile(work).trace.tells_memory
        assert not iterlab.profile(lambda: pool.submit(work).result()).trace.tells_memory


def test_a_profile_of_a_script_says_that_threads_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import threading, torch\n"
        "thread = threading.Thread(target=lambda: torch.ones(9) + 1)\n"
        "thread.start()\n"
        "thread.join()\n"
    )
    assert main(["profile", str(script)]) == 0
    missing = capsys.readouterr().out
    assert "a thread, and what it ran is not in this profile" in missing
    assert "aten::add" not in missing and "iterlab profile --all-threads" in missing
    assert main(["profile", "--all-threads", str(script)]) == 0
    whole = capsys.readouterr().out
    assert "aten::add" in whole and "--all-threads" not in whole


def test_a_profile_of_all_threads_takes_no_address_for_a_tensor() -> None:
    def work() -> None:
        for value in range(4):
            torch.full((64, 64), float(value)).bfloat16()

    found = findings.findings(record(work, all_threads=True))
    assert "repeated copy" not in {one.kind for one in found}


def test_work_with_a_profiler_of_its_own_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def work() -> None:
        with torch.profiler.profile():
            torch.ones(3) + 1

    with pytest.raises(RuntimeError, match=r"^iterlab: expected work without a profiler"):
        iterlab.profile(work)
    script = tmp_path / "script.py"
    script.write_text("import torch\nwith torch.profiler.profile():\n    torch.ones(3) + 1\n")
    assert main(["profile", str(script)]) == 2
    assert capsys.readouterr().err.startswith("iterlab: expected work without a profiler")
    assert iterlab.profile(torch.add, torch.ones(2), 1).table


def test_calls_that_raised_are_no_slow_paths() -> None:
    x, short, mask = torch.randn(300, 300), torch.ones(7), torch.ones(300, 300) > 0
    calls: tuple[Callable[[], object], ...] = (
        lambda: x + short,
        lambda: x[0].clone().mul_(x),
        lambda: torch.where(mask, x, short),
        lambda: x.copy_(short),
    )

    def work() -> None:
        for call in calls:
            with suppress(RuntimeError):
                call()

    profile = iterlab.profile(work)
    raised = {node.name for node in profile.trace.walk() if node.loop == classify.RAISED}
    assert raised == {"aten::add", "aten::mul_", "aten::where", "aten::copy_"}
    assert {one.kind for one in profile.findings} <= {"no kernel", "copy", "repeated copy"}
    assert not any("[7]" in one.what for one in profile.findings)


def test_a_cast_is_of_one_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(findings, "add_seconds", lambda traffic, device: 1e-9)
    x, mask = torch.randn(1024, 1024), torch.rand(1024, 1024) > 0.5
    wide = x.double()
    profile = iterlab.profile(lambda: torch.where(mask, x, wide))
    (slow,) = (one for one in profile.findings if one.kind == "slow path")
    (where,) = (node for node in profile.trace.walk() if node.name == "aten::where")
    assert slow.seconds == where.own < where.seconds


def test_a_row_copied_into_a_matrix_is_broadcast() -> None:
    matrix, row = torch.zeros(300, 300), torch.ones(300)
    (copy,) = (one for one in iterlab.profile(matrix.copy_, row).findings if one.kind == "copy")
    assert copy.what.startswith("broadcast made in memory of [300]")


def test_calls_that_copy_are_no_views() -> None:
    x = torch.randn(512, 512)
    profile = iterlab.profile(lambda: [x.to(dtype) for dtype in (torch.float32, torch.float64)])
    found = [row for top in profile.rows for row in top.rows if row.name == "aten::to"]
    assert {(row.loop, row.count, bool(row.rows)) for row in found} == {
        (classify.VIEW, 1, False),
        ("", 1, True),
    }


def test_composites_unfold() -> None:
    layer = torch.nn.Linear(32, 32)
    profile = iterlab.profile(layer, torch.randn(8, 32))
    names = [node.name for node in profile.trace.walk()]
    assert names.index("aten::linear") < names.index("aten::addmm")
    addmm = next(node for node in profile.trace.walk() if node.name == "aten::addmm")
    assert "aten::linear" in [node.name for node in addmm.above()]


def test_operands_have_their_strides() -> None:
    x = torch.randn(8, 4)
    profile = iterlab.profile(torch.mul, x.t(), x.t())
    mul = next(node for node in profile.trace.walk() if node.name == "aten::mul")
    assert [one.strides for one in mul.operands if one is not None] == [(1, 4), (1, 4)]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>",
            classify.VECTORIZED,
        ),
        (
            "void at::native::unrolled_elementwise_kernel<at::native::CUDAFunctor_add<float>>",
            classify.UNROLLED,
        ),
        (
            "void at::native::elementwise_kernel<128, 2, at::native::gpu_kernel_impl_nocast<...>>",
            classify.STRIDED,
        ),
        (
            "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda<...>>",
            classify.COPY,
        ),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>", classify.REDUCTION),
        ("Memcpy DtoD (Device -> Device)", classify.COPY),
        ("sm90_xmma_gemm_bf16bf16_bf16f32", classify.VENDOR),
        ("triton_poi_fused_add_0", classify.COMPILED),
        ("void iterlab::cuda::elementwise_kernel<...>", classify.ITERLAB),
        ("my_kernel", classify.OTHER),
    ],
)
def test_device_kernels_by_name(name: str, kind: str) -> None:
    assert classify.device_kernel(name) == kind


@pytest.mark.slow
def test_graph_breaks_are_found() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    compiled = torch.compile(broken, backend="eager")
    profile = Profile(record(lambda: compiled(torch.randn(4))))
    assert "graph break" in [one.kind for one in profile.findings]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, page, trace = tmp_path / "s.py", tmp_path / "r.html", tmp_path / "t.json"
    script.write_text(
        "import sys, torch\nx = torch.randn(9, 9)\nprint(sys.argv[1:], (x + x.t()).shape)\n"
        "sys.exit(3)\n"
    )
    code = main(["profile", "--html", str(page), "--trace", str(trace), str(script), "--a", "b"])
    assert code == 3
    printed = capsys.readouterr()
    assert "['--a', 'b'] torch.Size([9, 9])" in printed.out and "aten::add" in printed.out
    assert printed.err.splitlines() == [f"wrote {trace}", f"wrote {page}"]
    assert json.loads(trace.read_text())["traceEvents"]
    assert "s.py:3" in page.read_text()
    assert main(["profile", "--json", str(script)]) == 3
    out = capsys.readouterr().out
    assert "rows" in json.loads(out[out.index("{") :])
