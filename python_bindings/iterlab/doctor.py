"""doctor: what this installation is, what works, and what to do about what does not."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.table import Table
from rich.text import Text

import iterlab
from iterlab import _build_info


@dataclass(frozen=True)
class Finding:
    """A fact about the installation. `state` is "ok", "note" or "bad"; `todo` says what to do about
    it.
    """

    what: str
    value: str
    state: str = "ok"
    todo: str = ""


_STYLES = {"ok": ("✓", "green"), "note": ("–", "yellow"), "bad": ("✗", "red")}


def _versions() -> Iterator[Finding]:
    yield Finding("iterlab", iterlab.__version__)
    yield Finding("torch", f"{torch.__version__}, built against {_build_info.torch_version}")
    yield Finding(
        "python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    )


def _build() -> Iterator[Finding]:
    yield Finding("compiler", _build_info.compiler)
    flags = " ".join(_build_info.cxx_flags.split())
    state = "ok" if _build_info.build_type == "Release" else "note"
    todo = "" if state == "ok" else "timings of this build say nothing: build with `make build`"
    yield Finding("build", f"{_build_info.build_type}: {flags}", state, todo)


def _capability() -> Iterator[Finding]:
    try:
        capability = iterlab.cpu_capability()
    except RuntimeError as error:
        yield Finding("CPU kernels", str(error), "bad", "unset ITERLAB_CPU_CAPABILITY")
        return
    built = ", ".join(_build_info.capabilities)
    best = torch.backends.cpu.get_cpu_capability().lower()
    weaker = best in _build_info.capabilities and best != capability and capability != "avx512"
    todo = f"torch uses {best} here: unset ITERLAB_CPU_CAPABILITY" if weaker else ""
    yield Finding("CPU kernels", f"{capability} (built: {built})", "note" if weaker else "ok", todo)


def _operators() -> Iterator[Finding]:
    x, y = torch.arange(6.0).view(2, 3), torch.tensor([1, 2, 3], dtype=torch.int8)
    try:
        right = bool(torch.equal(torch.ops.iterlab.add(x, y), x + y))
        state, value = (
            ("ok", "a call gives torch's result")
            if right
            else ("bad", "a call gives a wrong result")
        )
    except RuntimeError as error:
        state, value = "bad", str(error).splitlines()[0]
    todo = "" if state == "ok" else "please report this with the output of `iterlab doctor`"
    yield Finding("operators", f"{len(iterlab.op_table())}; {value}", state, todo)


def _threads() -> Iterator[Finding]:
    threads, cores = torch.get_num_threads(), torch.multiprocessing.cpu_count()
    few = threads == 1 < cores
    todo = "set OMP_NUM_THREADS or call torch.set_num_threads" if few else ""
    yield Finding("threads", f"{threads} of {cores} logical cores", "note" if few else "ok", todo)


def _huge_pages() -> Iterator[Finding]:
    switch = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    try:
        setting = switch.read_text().split("[")[1].split("]")[0]
    except (OSError, IndexError):
        yield Finding(
            "huge pages",
            "this system does not say",
            "note",
            "large new results pay small page faults",
        )
        return
    off = setting == "never"
    todo = (
        f"large new results pay a page fault for every 4 kB: `echo madvise | sudo tee {switch}`"
        if off
        else ""
    )
    yield Finding("huge pages", setting, "note" if off else "ok", todo)


def _cuda() -> Iterator[Finding]:
    built, torch_cuda = _build_info.cuda_version, torch.version.cuda
    if torch_cuda is None:
        yield Finding(
            "CUDA",
            "this torch is a CPU build",
            "note",
            "for a GPU, install a CUDA build of torch first",
        )
    elif built is None:
        yield Finding(
            "CUDA",
            f"torch has {torch_cuda}, iterlab was built without",
            "note",
            "build with ITERLAB_CUDA=ON",
        )
    elif not torch.cuda.is_available():
        yield Finding(
            "CUDA",
            f"built for {built}, no device found",
            "note",
            "check the driver with `nvidia-smi`",
        )
    else:
        yield Finding(
            "CUDA",
            f"{built} on {torch.cuda.get_device_name()}, "
            f"built for sm_{_build_info.cuda_architectures}",
        )


def _extras() -> Iterator[Finding]:
    from importlib.util import find_spec

    for module, package, use in (
        ("skimage", "scikit-image", "the demo"),
        ("numexpr", "numexpr", "a peer in bench"),
    ):
        if find_spec(module) is None:
            yield Finding(
                package,
                f"not installed ({use})",
                "note",
                f"{sys.executable} -m pip install {package}",
            )
        else:
            yield Finding(package, f"installed ({use})")


def findings() -> list[Finding]:
    """Look at everything."""
    parts = (_versions, _build, _capability, _operators, _threads, _huge_pages, _cuda, _extras)
    return [finding for part in parts for finding in part()]


def table(found: Sequence[Finding]) -> Table:
    """Lay the findings out, each with what to do."""
    rows = Table.grid(padding=(0, 2, 0, 0))
    for finding in found:
        mark, style = _STYLES[finding.state]
        text = Text(finding.value)
        if finding.todo:
            text.append(f"\n→ {finding.todo}", style=style)
        rows.add_row(Text(mark, style=style), Text(finding.what, style="bold"), text)
    return rows
