"""The house-rules script: each rule finds its fault, and leaves the sound twin alone."""

from pathlib import Path

import pytest

from house_rules import check_tree

HEADER = "// A header for the test.\n#pragma once\n"
SOURCE = "// A source for the test.\n"
ADD = {"include/iterlab/ops/binary.h": HEADER + 'static constexpr auto name = "add";\n'}
LONG = "".join(f"int a{i};\n" for i in range(500))

# rule, path, a text that keeps it, a text that breaks it, the line that is told
CASES = [
    ("first-line", "engine/plan.cpp", "// Plans a call.\nint a;\n", "int a;\n", 1),
    ("first-line", "engine/plan.cpp", "// Plans a call.\n", "// Copyright (c) us\n", 1),
    ("first-line", "engine/plan.cpp", "// If all agree.\n", '"""Plans a call."""\n', 1),
    ("first-line", "tests/cases.py", '"""The cases of all tests."""\n', "import os\n", 1),
    ("first-line", "tests/__init__.py", "# Makes tests a package.\n", "", 1),
    ("first-line", "tools/go.sh", "#!/bin/sh\n# Goes its way.\n", "#!/bin/sh\nset -e\n", 2),
    ("first-line", "CMakeLists.txt", "# Builds the engine.\n", "project(iterlab)\n", 1),
    ("first-line", "engine/plan.cpp", "/* Plans a call. */\n", "#include <vector>\n", 1),
    ("pragma-once", "engine/plan.h", HEADER, "// Plans a call, #pragma once not.\n", 1),
    ("using-namespace", "src/call.h", HEADER, HEADER + "using namespace std::literals;\n", 3),
    ("no-tensor", "engine/plan.cpp", SOURCE + "// at::Tensor\n", SOURCE + "at::Tensor t;\n", 2),
    ("no-tensor", "include/iterlab/op.h", HEADER, HEADER + "TORCH_LIBRARY_FRAGMENT(a, m)\n", 3),
    ("file-length", "src/call.cpp", SOURCE + LONG[: -len("int a499;\n")], SOURCE + LONG, 501),
]

INCLUDES = [
    (
        "torch-headers",
        "include/iterlab/op.h",
        "<torch/headeronly/util/Half.h>",
        "<c10/util/Half.h>",
    ),
    ("torch-headers", "include/iterlab/op.h", "<cuda/std/limits>", "<immintrin.h>"),
    ("torch-headers", "include/iterlab/op.h", "<stdint.h>", "<fmt/core.h>"),
    ("torch-headers", "engine/plan.cpp", "<vector>", "<torch/library.h>"),
    ("torch-headers", "engine/cpu/stage.cpp", "<ATen/cpu/vec/vec.h>", "<ATen/ATen.h>"),
    ("torch-headers", "engine/cpu/stage.cpp", "<ATen/native/Math.h>", "<ATen/native/Copy.h>"),
    ("torch-headers", "engine/plan.cpp", "<immintrin.h>", "<ATen/cpu/vec/vec.h>"),
    ("torch-headers", "src/launch.cu", "<torch/headeronly/macros/Macros.h>", "<ATen/ATen.h>"),
    ("include-direction", "include/iterlab/op.h", '"iterlab/dtype.h"', '"engine/plan.h"'),
    ("include-direction", "engine/plan.cpp", "<iterlab/plan.h>", '"src/call.h"'),
    ("include-direction", "engine/cpu/stage.cpp", '"../plan.h"', '"../../src/call.h"'),
    ("include-direction", "src/call.cpp", '"engine/plan.h"', '"python_bindings/module.h"'),
]

META_CALLS = [
    ("input.sym_sizes()", "input.sizes()"),
    ("input.sym_size(0)", "input.size(0)"),
    ("names.size()", "input->size(dim)"),
    ("input.sym_numel()", "input.numel()"),
    ("input.sym_stride(0)", "input.stride(0)"),
    ("input.sym_strides()", "input.strides()"),
]


def faults(root: Path, files: dict[str, str]) -> list[str]:
    """What the script says of a tree of `files`, each fault cut down to `path:line: rule`."""
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return [": ".join(fault.split(": ")[:2]) for fault in check_tree(root)]


@pytest.mark.parametrize(("rule", "path", "sound", "broken", "line"), CASES)
def test_text(tmp_path: Path, rule: str, path: str, sound: str, broken: str, line: int) -> None:
    assert faults(tmp_path, {path: sound}) == []
    assert faults(tmp_path, {path: broken}) == [f"{path}:{line}: {rule}"]


@pytest.mark.parametrize(("rule", "path", "sound", "broken"), INCLUDES)
def test_includes(tmp_path: Path, rule: str, path: str, sound: str, broken: str) -> None:
    assert faults(tmp_path, {path: f"{HEADER}#include {sound}\n"}) == []
    assert faults(tmp_path, {path: f"{HEADER}#include {broken}\n"}) == [f"{path}:3: {rule}"]


@pytest.mark.parametrize(("sound", "broken"), META_CALLS)
def test_meta_code_is_symbolic(tmp_path: Path, sound: str, broken: str) -> None:
    meta = "src/meta.cpp"
    assert faults(tmp_path, {meta: f"{SOURCE}auto a = {sound};\n"}) == []
    assert faults(tmp_path, {meta: f"{SOURCE}auto a = {broken};\n"}) == [f"{meta}:2: symbolic-meta"]


def test_concrete_sizes_are_fine_outside_meta_code(tmp_path: Path) -> None:
    assert faults(tmp_path, {"src/operands.cpp": SOURCE + "auto a = input.sizes();\n"}) == []


@pytest.mark.parametrize(
    "path", ["src/Call.cpp", "src/utils.h", "src/cast_helpers.h", "src/common/cast.h", "src/a-b.h"]
)
def test_names_that_say_nothing(tmp_path: Path, path: str) -> None:
    assert faults(tmp_path, {path: HEADER}) == [f"{path}:1: file-name"]


@pytest.mark.parametrize("path", ["src/common_dtype.h", "src/__init__.py", "src/_C.pyi"])
def test_names_that_say_something(tmp_path: Path, path: str) -> None:
    assert faults(tmp_path, {path: HEADER if path.endswith(".h") else "# A test's file.\n"}) == []


def test_operator_names_stay_in_their_definitions(tmp_path: Path) -> None:
    spelled = SOURCE + 'auto op = find("add");\n'
    sound = {"src/derivatives_binary.cpp": spelled, "src/other.cpp": SOURCE + 'find("addition");\n'}
    assert faults(tmp_path, ADD | sound) == []
    for path in ("src/call.cpp", "engine/plan.cpp", "python_bindings/module.cpp"):
        assert faults(tmp_path, {path: spelled}) == [f"{path}:2: operator-name"]
        allowed = spelled.replace(";\n", ";  // house-rules: allow operator-name\n")
        assert faults(tmp_path, {path: allowed}) == []


def test_comments_and_literals_are_told_apart(tmp_path: Path) -> None:
    lines = ['auto a = "//"; at::Tensor t;', "/* at::Tensor", "at::Tensor */ at::Tensor u;"]
    told = faults(tmp_path, {"engine/plan.cpp": SOURCE + "\n".join(lines)})
    assert told == ["engine/plan.cpp:2: no-tensor", "engine/plan.cpp:4: no-tensor"]


@pytest.mark.parametrize(
    "body",
    ["assert x", "check_plan(x)", "with pytest.raises(E): f()", "torch.testing.assert_close(x)"],
)
def test_tests_that_assert(tmp_path: Path, body: str) -> None:
    path = "tests/test_x.py"
    assert faults(tmp_path, {path: f"# Tests of x.\ndef test_x():\n    {body}\n"}) == []


def test_tests_that_cannot_fail(tmp_path: Path) -> None:
    path = "tests/test_x.py"
    text = "# Tests of x.\ndef test_x():\n    print(f())\n"
    assert faults(tmp_path, {path: text}) == [f"{path}:2: tests-assert"]
