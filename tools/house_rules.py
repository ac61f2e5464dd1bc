#!/usr/bin/env python3
"""The house rules that a script can check, over the whole tree: `tools/house_rules.py [ROOT]`.

Prints `file:line: rule: what is wrong` for each fault and exits 1 when there is one.
A rule is one function from a file to its faults; its docstring is the rule.
"""

import ast
import functools
import posixpath
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

# Includes point one way: a room may include itself and what stands before it.
ROOMS = ("include", "engine", "src", "python_bindings")
FOLDERS = (*ROOMS, "tests", "benchmarks", "examples", "cmake", "tools", ".ci")

HEADERS = {".h", ".hpp", ".cuh"}
CUDA = {".cu", ".cuh"}
CPP = HEADERS | CUDA | {".cpp", ".cc"}
PYTHON = {".py", ".pyi"}
CODE = CPP | PYTHON | {".sh"}
# Beside code, what can begin with a comment.
COMMENTED = CODE | {".cmake", ".toml", ".yaml", ".yml"}
COMMENTED_NAMES = {
    "CMakeLists.txt",
    "Makefile",
    "run",
    ".clang-format",
    ".clang-tidy",
    ".gitignore",
}

MAX_LINES = 500
CATCH_ALL = {"util", "utils", "helper", "helpers", "common", "misc", "impl"}
ALLOW_OPERATOR_NAME = "house-rules: allow operator-name"

# A literal is matched first so that a `//` inside one does not begin a comment.
LITERAL_OR_COMMENT = re.compile(
    r"""(?P<literal> R"(?P<mark>\w*)\(.*?\)(?P=mark)" | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])' )
      | //[^\n]* | /\*.*?\*/""",
    re.DOTALL | re.VERBOSE,
)
INCLUDE = re.compile(r'\s*#\s*include\s*[<"]([^>"]+)[>"]')
STANDARD_HEADER = re.compile(r"[a-z_]+|(assert|float|inttypes|limits|math|stddef|stdint|string)\.h")


@dataclass(frozen=True)
class File:
    """One file of the tree, by its POSIX path relative to the root, and the text it holds."""

    path: PurePosixPath
    text: str

    @property
    def room(self) -> str:
        """The top folder, or an empty string for a file at the root."""
        return self.path.parts[0] if len(self.path.parts) > 1 else ""

    @functools.cached_property
    def lines(self) -> list[str]:
        """The text as written."""
        return self.text.splitlines()

    @functools.cached_property
    def code(self) -> list[str]:
        """The lines of a C++ file with comments blanked; line numbers stay."""

        def blank(match: re.Match[str]) -> str:
            return match[0] if match["literal"] else re.sub(r"[^\n]", " ", match[0])

        return LITERAL_OR_COMMENT.sub(blank, self.text).splitlines()

    def find(self, pattern: str) -> Iterator[tuple[int, str]]:
        """Line number and text of each match of `pattern` in the code."""
        for number, line in enumerate(self.code, 1):
            for match in re.finditer(pattern, line):
                yield number, match[0]

    @functools.cached_property
    def includes(self) -> list[tuple[int, str]]:
        """Line number and target of each include; `../` is resolved against the file's folder."""
        found = []
        for number, line in enumerate(self.code, 1):
            if match := INCLUDE.match(line):
                target = match[1]
                if target.startswith("."):
                    target = posixpath.normpath(posixpath.join(str(self.path.parent), target))
                found.append((number, target.removeprefix("include/")))
        return found


Faults = Iterator[tuple[int, str]]


def first_line(file: File) -> Faults:
    """The first line (after a `#!`) is a comment or docstring that says what the file is for."""
    shebang = bool(file.lines) and file.lines[0].startswith("#!")
    line = file.lines[shebang] if len(file.lines) > shebang else ""
    opening = r"//+|/\*+" if file.path.suffix in CPP else r'#+|[rR]?"""'
    if not re.match(rf"(?:{opening})\s*(?!(?i:copyright|spdx)\b)\w\S*\s+\S", line):
        yield shebang + 1, "the first line must say what the file is for"


def file_name(file: File) -> Faults:
    """Files and folders of code are snake_case and named for a concept, not `utils` or `common`."""
    if file.path.suffix not in CODE:
        return
    stem = file.path.name.split(".")[0]
    if stem != "_C" and not re.fullmatch(r"[a-z0-9_]+", stem):
        yield 1, f"'{file.path.name}' is not snake_case"
    for part in (*file.path.parts[:-1], stem):
        if part.split("_")[-1] in CATCH_ALL:
            yield 1, f"'{part}' names no concept"


def file_length(file: File) -> Faults:
    """No file of code is over 500 lines: a longer one holds two ideas."""
    if file.path.suffix in CODE and len(file.lines) > MAX_LINES:
        yield MAX_LINES + 1, f"{len(file.lines)} lines, at most {MAX_LINES} are allowed"


def pragma_once(file: File) -> Faults:
    """A header has `#pragma once`."""
    if file.path.suffix in HEADERS and not any(file.find(r"^\s*#\s*pragma\s+once\b")):
        yield 1, "the header lacks #pragma once"


def using_namespace(file: File) -> Faults:
    """A header has no `using namespace`."""
    if file.path.suffix in HEADERS:
        for number, _ in file.find(r"\busing\s+namespace\b"):
            yield number, "'using namespace' in a header"


def no_tensor(file: File) -> Faults:
    """`engine/` and `include/` know neither `at::Tensor` nor `TORCH_LIBRARY`."""
    if file.path.suffix in CPP and file.room in ("engine", "include"):
        for number, name in file.find(r"\bat::Tensor\w*|\bTORCH_LIBRARY\w*"):
            yield number, f"{name} under {file.room}/"


ATEN_MATH = {"ATen/native/Math.h", "ATen/native/cpu/LogAddExp.h"}


def torch_headers(file: File) -> Faults:
    """Kernels and the engine see little of torch.

    `include/` and every CUDA file: `torch/headeronly` only. `engine/`: that, and in `engine/cpu`
    PyTorch's SIMD classes. `include/` otherwise sees std (libcu++ under NVRTC) and iterlab alone.
    """
    if file.path.suffix not in CPP or not (
        file.room in ("include", "engine") or file.path.suffix in CUDA
    ):
        return
    simd = file.path.parts[:2] == ("engine", "cpu")
    for number, target in file.includes:
        if target.startswith("torch/headeronly/"):
            continue
        if target.startswith(("torch/", "ATen/", "c10/", "caffe2/", "pybind11/", "Python.h")):
            if simd and (target.startswith("ATen/cpu/vec/") or target in ATEN_MATH):
                continue
            yield number, f"<{target}> is not for {file.path.parent}/*{file.path.suffix}"
        elif file.room == "include" and not (
            STANDARD_HEADER.fullmatch(target)
            or target.startswith(("iterlab/", "cuda/std/"))
            or target.split("/")[0] in ROOMS  # include_direction tells of these
        ):
            yield number, f"<{target}> is neither std, torch/headeronly nor iterlab"


def include_direction(file: File) -> Faults:
    """Includes point one way: python_bindings -> src -> engine -> include."""
    if file.path.suffix in CPP and file.room in ROOMS:
        for number, target in file.includes:
            room = target.split("/")[0]
            if room in ROOMS and ROOMS.index(room) > ROOMS.index(file.room):
                yield number, f"{file.room}/ includes {target}"


def symbolic_meta(file: File) -> Faults:
    """Meta code reads `sym_sizes()` and its kin alone; a bare `.size()` is a container's."""
    if file.path.suffix in CPP and file.room == "src" and "meta" in file.path.stem:
        concrete = r"(?:\.|->)(?:sizes|strides|stride|numel|size(?=\(\s*[^\s)]))\("
        for number, call in file.find(concrete):
            yield number, f"{call}) in Meta code, where only symbolic sizes are known"


def tests_assert(file: File) -> Faults:
    """A test asserts something, itself or by a call named for it (`check_...`, `raises`)."""
    if not re.fullmatch(r"test_\w+\.py", file.path.name):
        return
    for function in ast.walk(ast.parse(file.text)):
        if not isinstance(function, ast.FunctionDef) or not function.name.startswith("test_"):
            continue
        if not any(map(_asserts, ast.walk(function))):
            yield function.lineno, f"{function.name} asserts nothing"


def _asserts(node: ast.AST) -> bool:
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func).split(".")[-1]
        return bool(re.search(r"assert|check|raises|warns", name))
    return isinstance(node, ast.Assert)


def operator_names(files: list[File]) -> set[str]:
    """The names of definitions under `include/iterlab/ops/`; `.name = ` is that of a parameter."""
    definitions = [file for file in files if file.path.match("include/iterlab/ops/*.h")]
    found = (name for file in definitions for _, name in file.find(r'(?<!\.)\bname\s*=\s*"\w+"'))
    return {name.split('"')[1] for name in found}


def operator_name(file: File, names: set[str]) -> Faults:
    """No operator's name is spelled outside its definition, its derivative and its tests.

    A literal that only happens to equal one says `// house-rules: allow operator-name` on its line.
    """
    if file.path.suffix not in CPP or file.room not in ("engine", "src", "python_bindings"):
        return
    if file.room == "src" and re.match(r"(reduction_)?derivatives|composites", file.path.parts[1]):
        return
    for number, literal in file.find(r'"\w+"'):
        if literal[1:-1] in names and ALLOW_OPERATOR_NAME not in file.lines[number - 1]:
            yield number, f"{literal} names an operator outside its definition"


RULES: tuple[Callable[[File], Faults], ...] = (
    first_line,
    file_name,
    file_length,
    pragma_once,
    using_namespace,
    no_tensor,
    torch_headers,
    include_direction,
    symbolic_meta,
    tests_assert,
)


def read_tree(root: Path) -> list[File]:
    """The files that the rules are about: those at the root and in the project's folders."""
    inside = (path for folder in FOLDERS for path in (root / folder).rglob("*"))
    files = []
    for path in sorted([*root.iterdir(), *inside]):
        relative = PurePosixPath(path.relative_to(root).as_posix())
        if path.is_file() and (path.suffix in COMMENTED or path.name in COMMENTED_NAMES):
            files.append(File(relative, path.read_text(encoding="utf-8")))
    return files


def check_tree(root: Path) -> list[str]:
    """Every fault under `root`, in the order of the files, as `file:line: rule: what is wrong`."""
    files = read_tree(root)
    with_names = functools.partial(operator_name, names=operator_names(files))
    rules = [(rule.__name__, rule) for rule in RULES] + [("operator_name", with_names)]
    return [
        f"{file.path}:{number}: {name.replace('_', '-')}: {message}"
        for file in files
        for name, rule in rules
        for number, message in rule(file)
    ]


def main() -> int:
    """Print the faults of the tree; 1 when there are any."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parent.parent
    faults = check_tree(root)
    print("\n".join(faults) if faults else "house rules: kept")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
