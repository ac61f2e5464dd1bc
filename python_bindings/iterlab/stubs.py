"""Writes the type stubs of the operators' functions: `python -m iterlab.stubs FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from iterlab.table import CompositeEntry, OpEntry, composite_table, op_table

HEADER = '''"""Types of every operator's function, written by `python -m iterlab.stubs`."""

# ruff: noqa: E501, RUF022
# fmt: off
from collections.abc import Sequence
from typing import overload

from torch import Tensor, dtype, memory_format, return_types
from torch.types import Number

'''

TYPES = {
    "Tensor": "Tensor",
    "number": "Number | complex | Tensor",  # of one value
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "List[int]": "int | Sequence[int]",
    "ScalarType": "dtype",
    "MemoryFormat": "memory_format",
}


def _type(argument: torch.Argument, takes_number: bool) -> str:
    text = str(argument.real_type)
    inner = text.removeprefix("Optional[")
    is_optional = inner != text
    name = TYPES[inner[:-1] if is_optional else inner]
    if takes_number:
        name += " | Number | complex"
    return f"{name} | None" if is_optional else name


def _default(argument: torch.Argument) -> str:
    if not argument.has_default_value():
        return ""
    named = _type(argument, False) == "memory_format"  # which a schema shows as a number
    return " = ..." if named else f" = {argument.default_value!r}"


def _result(name: str, count: int) -> str:
    if count > 1 and hasattr(torch.return_types, name):
        return f"return_types.{name}"
    return "Tensor" if count == 1 else f"tuple[{', '.join(['Tensor'] * count)}]"


def _written(name: str, arguments: dict[str, str], positional: int, result: str) -> str:
    texts = [f"{argument}: {text}" for argument, text in arguments.items()]
    if positional < len(texts):
        texts.insert(positional, "*")
    return f"def {name}({', '.join(texts)}) -> {result}: ..."


def _signatures(name: str, packet: torch._ops.OpOverloadPacket, which: str) -> list[str]:
    """Write an overload; where it has a dim, also with NumPy's names."""
    overloads = packet.overloads()  # type: ignore[no-untyped-call]
    schema = getattr(packet, which)._schema
    arguments = {
        one.name: _type(one, f"Scalar_{one.name}" in overloads) + _default(one)
        for one in schema.arguments
    }
    positional = sum(not one.kwarg_only for one in schema.arguments)
    count = len(schema.returns)
    result = _result(name, count)
    if ("out" if which == "default" else f"{which}_out") in overloads:
        arguments["out"] = f"{_result('', count)} | None = None"
    texts = [_written(name, arguments, positional, result)]
    if "dim" in arguments:
        before = list(arguments).index("dim")
        numpy = {"axis": f"{TYPES['List[int]']} | None", "keepdims": "bool = False"}
        named = dict(list(arguments.items())[:before]) | numpy | arguments
        del named["dim"]
        texts.append(_written(name, named, min(before, positional), result))
    return texts


def _function(name: str) -> str:
    packet = getattr(torch.ops.iterlab, name)
    # Overloads of numbers are in the types of the first.
    names = [
        which
        for which in packet.overloads()
        if not which.startswith("Scalar_") and not which.endswith("out")
    ]
    # As torch's parser tries them.
    ordered = sorted(names, key=lambda which: len(which.removeprefix("default")))
    texts = [text for which in ordered for text in _signatures(name, packet, which)]
    return texts[0] if len(texts) == 1 else "\n".join(f"@overload\n{text}" for text in texts)


def text() -> str:
    """Give the stub file."""
    entries: list[OpEntry | CompositeEntry] = [*op_table(), *composite_table()]
    names = {entry.name for entry in entries}
    names |= {f"{entry.name}_" for entry in entries if "inplace" in entry.variants}
    functions = [_function(name) for name in sorted(names)]
    # mypy takes the names for exported only where they are written out.
    return "\n".join([f"{HEADER}__all__ = {sorted(names)!r}", "", *functions, ""])


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")
