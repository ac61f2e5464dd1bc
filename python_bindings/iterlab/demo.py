"""The tour: a photograph made ready for a network, then a language model's adds and sums.

Every step says what is computed, compares the result with torch's, prints the plan's path with its
reason, and times both in turns. A picture of the times is saved at the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn
from rich.text import Text

import iterlab
from iterlab import picture
from iterlab.reasons import path as path_reason
from iterlab.reasons import summary
from iterlab.timing import Times, interleaved
from iterlab.units import bytes_text, shape_text, time_text

BATCH = 16
HIDDEN = 4096

# Of the images of ImageNet in red, green and blue, for values in [0, 1]: what torchvision's
# pretrained networks were trained with.
MEAN = (0.485, 0.456, 0.406)
DEVIATION = (0.229, 0.224, 0.225)

Call = tuple[str, tuple[Any, ...], dict[str, Any]]


@dataclass
class Step:
    """One thing to compute in both libraries.

    `calls` are the calls that iterlab makes, for their plans. `tolerance` is the largest allowed
    error relative to torch's result; 0 asks for the same bits.
    """

    label: str
    what: str
    ours: Callable[[], torch.Tensor]
    theirs: Callable[[], torch.Tensor]
    calls: list[Call]
    tolerance: float = 0.0
    note: str = ""
    times: dict[str, Times] = field(default_factory=dict)


def photograph() -> torch.Tensor:
    """Load a batch of a real photograph: uint8 [16, 512, 512, 3], height by width by channels.

    One that ships with scikit-image's wheel is taken 16 times, flipped and rolled.
    Raises ImportError, with what to install, where scikit-image is missing.
    """
    try:
        from skimage import data
    except ImportError:
        raise ImportError(
            "iterlab: the demo takes its photograph from scikit-image: pip install scikit-image"
        ) from None
    image = numpy.asarray(data.astronaut())  # type: ignore[no-untyped-call]
    turned = [numpy.roll(image[:, :: 1 - 2 * (i % 2)], 17 * i, axis=1) for i in range(BATCH)]
    return torch.from_numpy(numpy.stack(turned))


def photo_steps(photos: torch.Tensor) -> list[Step]:
    """Make uint8 HWC photographs into normalised float32 CHW."""
    ops = torch.ops.iterlab
    scale = (1 / (255 * torch.tensor(DEVIATION))).view(3, 1, 1)
    shift = (-torch.tensor(MEAN) / torch.tensor(DEVIATION)).view(3, 1, 1)
    pixels = photos.permute(0, 3, 1, 2)
    planes = torch.empty(pixels.shape)
    planes_too = torch.empty(pixels.shape)
    half = torch.empty(pixels.shape, dtype=torch.bfloat16)
    half_too = torch.empty(pixels.shape, dtype=torch.bfloat16)

    def ours() -> torch.Tensor:
        ops.mul.out(pixels, scale, out=planes)
        ops.add_(planes, shift)
        return planes

    def theirs() -> torch.Tensor:
        torch.mul(pixels, scale, out=planes_too)
        return planes_too.add_(shift)

    return [
        Step(
            "photo to planes\nuint8 HWC → float32 CHW, scaled",
            f"mul(photo uint8 {shape_text(pixels.shape)} as HWC, 1/σ [3, 1, 1]) into float32",
            lambda: ops.mul.out(pixels, scale, out=planes),
            lambda: torch.mul(pixels, scale, out=planes_too),
            [("mul", (pixels, scale), {"out": planes})],
        ),
        Step(
            "the whole normalisation\nmul, then add in place",
            "the same, then add_(-µ/σ): a photograph as a network wants it",
            ours,
            theirs,
            [("mul", (pixels, scale), {"out": planes}), ("add_", (planes, shift), {})],
        ),
        Step(
            "to bfloat16\nfloat32 CHW → bfloat16",
            "to(float32 planes, bfloat16)",
            lambda: ops.to.out(planes, torch.bfloat16, out=half),
            lambda: half_too.copy_(planes),
            [("to", (planes, torch.bfloat16), {"out": half})],
        ),
    ]


def _residual(label: str, what: str, x: torch.Tensor, y: torch.Tensor) -> Step:
    ops = torch.ops.iterlab
    dtype = torch.promote_types(x.dtype, y.dtype)
    ours, theirs = torch.empty(x.shape, dtype=dtype), torch.empty(x.shape, dtype=dtype)
    return Step(
        label,
        what,
        lambda: ops.add.out(x, y, out=ours),
        lambda: torch.add(x, y, out=theirs),
        [("add", (x, y), {"out": ours})],
    )


def model_steps() -> list[Step]:
    """Residual adds at a language model's sizes, in the layouts and dtypes that occur."""
    stream = torch.randn(HIDDEN, HIDDEN)
    block = torch.randn(HIDDEN, HIDDEN).bfloat16()
    return [
        _residual(
            "residual\nfloat32 + bfloat16",
            f"add(stream float32 {shape_text(stream.shape)}, block bfloat16)",
            stream,
            block,
        ),
        _residual(
            "residual, transposed block\nfloat32 + bfloat16.t()",
            "the same with a block that arrives transposed",
            stream,
            block.t(),
        ),
        _residual(
            "plain residual\nfloat32 + float32",
            "add(float32, float32), all contiguous: nothing to gain but nothing to lose",
            stream,
            stream.flip(0),
        ),
    ]


def _sum(label: str, x: torch.Tensor, dim: int | None, tolerance: float, note: str = "") -> Step:
    ops = torch.ops.iterlab
    dims = None if dim is None else [dim]
    what = f"sum({str(x.dtype).removeprefix('torch.')} {shape_text(x.shape)}, dim={dim})"
    call: Call = ("sum", (x, dim), {})
    return Step(
        label, what, lambda: ops.sum(x, dims), lambda: torch.sum(x, dims), [call], tolerance, note
    )


def sum_steps() -> list[Step]:
    """Sums along either dim, and of integers."""
    x = torch.randn(HIDDEN, HIDDEN)
    counts = torch.randint(-128, 128, (HIDDEN, HIDDEN), dtype=torch.int8)
    order = "another order of additions"
    return [
        _sum("sum of each row\nfloat32", x, 1, 1e-5, order),
        _sum("sum of each column\nfloat32", x, 0, 1e-5, order),
        _sum("sum of each row\nbfloat16", x.bfloat16(), 1, 2**-7, order),
        _sum("sum of everything\nint8 → int64", counts, None, 0.0),
    ]


def compare(step: Step) -> str:
    """Compare the results of a step; say how in words. Raises AssertionError where they differ by
    more than allowed.
    """
    ours, theirs = step.ours(), step.theirs()
    torch.testing.assert_close(
        ours, theirs, rtol=0, atol=0, check_stride=True
    ) if not step.tolerance else None
    if torch.equal(ours, theirs):
        return "same bits as torch"
    # Relative to the sum's scale: single results near zero have no meaningful relative error.
    scale = theirs.double().abs().max()
    error = float((ours.double() - theirs.double()).abs().max() / scale)
    assert error <= step.tolerance, f"{step.what}: differs from torch by {error:.1e}"
    return f"within {error:.0e} of torch ({step.note})"


def _plan_lines(step: Step) -> list[Text]:
    lines = []
    for op, args, kwargs in step.calls:
        facts = iterlab.plan(op, *args, **kwargs)
        line = Text("  ").append(f"{op:<5}", style="dim")
        kind = facts.path if isinstance(facts, iterlab.Plan) else facts.form
        reason = (
            path_reason(facts)
            if isinstance(facts, iterlab.Plan)
            else summary(facts).partition(": ")[2]
        )
        line.append(kind, style="bold")
        line.append(f": {reason}".replace("`", ""))
        line.append(f" · {bytes_text(facts.bytes)}", style="dim")
        lines.append(line)
    return lines


def _verdict(step: Step) -> Text:
    ours, theirs = step.times["iterlab"], step.times["torch"]
    ratio = theirs.median / ours.median
    line = Text("  ")
    line.append(f"iterlab {time_text(ours.median):>8}", style="bold")
    line.append(
        f" ±{ours.spread:.0%}   torch {time_text(theirs.median):>8} ±{theirs.spread:.0%}   "
    )
    if ratio >= 1.05:
        line.append(f"{ratio:.1f}× faster", style="bold green")
    elif ratio <= 0.95:
        line.append(f"{1 / ratio:.2f}× slower", style="bold red")
    else:
        line.append("as fast", style="bold")
    return line


def _show(console: Console, step: Step, agreement: str) -> None:
    console.print()
    console.print(Text(step.what, style="bold cyan"))
    for line in _plan_lines(step):
        console.print(line)
    console.print(Text(f"  ✓ {agreement}", style="green"))
    console.print(_verdict(step))


def _save(path: Path, steps: list[Step]) -> None:
    groups = []
    for step in steps:
        texts = {name: time_text(times.median) for name, times in step.times.items()}
        ratio = step.times["torch"].median / step.times["iterlab"].median
        texts["iterlab"] += f"   {ratio:.1f}×" if ratio >= 1.05 or ratio <= 0.95 else ""
        groups.append(
            picture.Bars(step.label, {n: t.median * 1e3 for n, t in step.times.items()}, texts)
        )
    cap = 2 * max(step.times["iterlab"].median for step in steps) * 1e3
    threads = torch.get_num_threads()
    picture.save_bars(
        path,
        "iterlab beside torch, by step",
        f"median time, shorter is better; torch {torch.__version__}, {threads} threads, "
        f"{iterlab.cpu_capability()} kernels; a gap marks a bar that goes on",
        "ms",
        [groups],
        cap=cap,
    )


def run(console: Console, path: Path) -> None:
    """Run the tour and save its picture at `path`. Takes under a minute on two cores."""
    start = time.perf_counter()
    console.print(Text("iterlab beside torch: any layout, any dtype", style="bold"))
    console.print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, "
        f"{iterlab.cpu_capability()} kernels",
        style="dim",
    )
    torch.manual_seed(0)
    chapters: list[Callable[[], list[Step]]] = [
        lambda: photo_steps(photograph()),
        model_steps,
        sum_steps,
    ]
    done: list[Step] = []
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        console=console,
        transient=True,
    )
    with bar:
        task = bar.add_task("preparing", total=10)
        for chapter in chapters:
            for step in chapter():
                bar.update(task, description=step.label.partition("\n")[0])
                agreement = compare(step)
                step.times = interleaved({"iterlab": step.ours, "torch": step.theirs}, rounds=9)
                _show(console, step, agreement)
                bar.advance(task)
                done.append(step)
        bar.update(task, description="drawing")
        _save(path, done)
    console.print()
    console.print(Text(f"picture of the times: {path.resolve()}", style="bold"))
    console.print(f"{time.perf_counter() - start:.0f} s in all", style="dim")
