"""Instruction sets: the same results on each, one exported symbol, and calls from many threads."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import calls
import pytest
import torch
from calls import ELEMENTWISE, REDUCTIONS, function, invoke, outputs_of

import iterlab
from iterlab import _build_info

pytestmark = calls.TORCH_WARNINGS

CAPABILITIES = ("default", "avx2", "avx512")
FOLDER = Path(_build_info.__file__).parent
TESTS = Path(__file__).parent

# The planner's door alone, which loads faster than torch's Python does.
ASK = f"import sys; sys.path.insert(0, {str(FOLDER)!r}); import _C; print(_C.cpu_capability())"

# Saves, for each operator and dtype, the results on a few layouts; run in a process of its own.
PROGRAM = """
import sys, warnings
sys.path.insert(0, sys.argv[1])
warnings.simplefilter("ignore")
import torch, iterlab, calls, layouts
results = {"capability": iterlab.cpu_capability()}
names = ("contiguous", "transposed", "inner stride 3", "inner 3 of 4", "column", "misaligned")
for entry in calls.ELEMENTWISE:
    parameters = calls.parameter_sets(entry)[0]
    for dtype in calls.input_dtypes(entry):
        for name in names:
            operands = layouts.BY_NAME[name].make(calls.draws_of(entry, (dtype,), "cpu"))
            got = calls.invoke(calls.function(entry), entry, operands, parameters)
            results[entry.name, str(dtype), name] = calls.outputs_of(got)
for entry in calls.REDUCTIONS:
    for dtype in calls.input_dtypes(entry):
        draw = calls.draws_of(entry, (dtype,), "cpu")[0]
        for dim in (0, 1, [0, 1]):
            got = calls.reduce(entry, draw(300 * 41).view(300, 41), dim)
            results[entry.name, str(dtype), str(dim)] = calls.outputs_of(got)
torch.save(results, sys.argv[2])
"""


def run(capability: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"ITERLAB_CPU_CAPABILITY": capability}
    environment["LD_LIBRARY_PATH"] = str(Path(torch.__file__).parent / "lib")
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )


def supported() -> list[str]:
    """Those that this machine can run."""
    return [name for name in CAPABILITIES if run(name, "-c", ASK).stdout.strip() == name]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[object, object]]:
    found = {}
    for capability in supported():
        path = tmp_path_factory.mktemp("capability") / capability
        ran = run(capability, "-c", PROGRAM, str(TESTS), str(path))
        assert ran.returncode == 0, ran.stderr
        found[capability] = torch.load(path)
    return found


# Reductions that take a root, a logarithm or a product of complex numbers.
REDUCED_ULPS = 4


def test_the_wanted_capability_runs(results: dict[str, dict[object, object]]) -> None:
    assert {name: one["capability"] for name, one in results.items()} == {n: n for n in results}
    assert set(_build_info.capabilities) == set(CAPABILITIES)


def test_results_do_not_depend_on_the_capability(results: dict[str, dict[object, object]]) -> None:
    """Bitwise where the formula is exact; else within the tolerance towards torch.

    A fused multiply-add exists on some instruction sets only: complex products, and the polynomials
    of functions such as exp, may round differently.
    """
    by_name = {entry.name: entry for entry in [*ELEMENTWISE, *REDUCTIONS]}
    want = results["default"]
    for capability, found in results.items():
        assert found.keys() == want.keys()
        for key, outputs in found.items():
            if not isinstance(key, tuple) or (key[0] == "prod" and "complex" in key[1]):
                continue  # 300 factors overflow, and what nan and infinity give differs
            entry = by_name[key[0]]
            for got, other in zip(outputs, want[key], strict=True):  # type: ignore[call-overload]
                if entry.kind == "reduction":
                    calls.assert_close(got, other, REDUCED_ULPS, (capability, key))
                elif entry.name in calls.CANCELS:
                    calls.assert_near(entry, got, other, (capability, key))
                else:
                    complex_input = "complex" in key[1]
                    tolerance = (
                        calls.DEFAULT_ULPS if complex_input else calls.ulps(entry, got.dtype)
                    )
                    calls.assert_close(got, other, 4 * tolerance, (capability, key))


@pytest.mark.parametrize("value", ["sse9", "AVX2", "avx512 "])
def test_unknown_capability(value: str) -> None:
    ran = run(value, "-c", ASK)
    assert ran.returncode == 1
    text = f"expected ITERLAB_CPU_CAPABILITY to be default, avx2 or avx512, got {value}"
    assert text in ran.stderr


def test_empty_capability_means_the_best() -> None:
    assert run("", "-c", ASK).stdout.strip() == supported()[-1]
    assert run("avx2", "-c", ASK).stdout.strip() == "avx2" or "avx2" not in supported()


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_kernel_libraries_export_one_symbol(capability: str) -> None:
    """What is compiled for AVX-512 must not be what the baseline links."""
    library = FOLDER / f"libiterlab_cpu_{capability}.so"
    nm = shutil.which("nm")
    assert library.exists() and nm is not None
    listed = subprocess.run(
        [nm, "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    )
    symbols = {line.split()[-1].split("@")[0] for line in listed.stdout.splitlines()}
    assert symbols == {"iterlab_cpu_kernel_table"}


def test_concurrent_calls() -> None:
    """16 threads, each with its own operands, paths and outputs; nothing is shared but the code."""
    errors: list[BaseException] = []
    start = threading.Barrier(16)

    def work(seed: int) -> None:
        try:
            start.wait()
            for entry in ELEMENTWISE:
                parameters = calls.parameter_sets(entry)[0]
                draws = calls.draws_of(entry, (calls.usual_dtype(entry),), "cpu", seed=seed)
                operands = [draw(64 * 48).view(64, 48) for draw in draws]
                flipped = [*operands[:-1], operands[-1].t().contiguous().t()]
                want = outputs_of(invoke(function(entry), entry, operands, parameters))[0]
                for path in ("", "generic", "strided") * 4:
                    with iterlab.force_path(path) if path else torch.no_grad():
                        got = outputs_of(invoke(function(entry), entry, flipped, parameters))[0]
                    calls.assert_bitwise(got, want, (entry.name, path))
            for entry in REDUCTIONS:
                x = torch.rand(200, 300).to(calls.usual_dtype(entry))
                want = outputs_of(calls.reduce(entry, x, 1))[0]
                for _ in range(10):
                    calls.assert_bitwise(outputs_of(calls.reduce(entry, x, 1))[0], want)
                    calls.assert_bitwise(outputs_of(calls.reduce(entry, x.t(), 0))[0], want)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
