"""Writes the type stubs of the operators' functions: `python -m iterlab.stubs FILE`."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from iterlab.table import CompositeEntry, OpEntry, composite_table, op_table

HEADER = '''"""Types of every operator's function, written by `python -m iterlab.stubs`."""

# ruff: noqa: E501
# fmt: off
from collections.abc import Sequence
from typing import overload

from torch import Tensor, dtype, memory_format
from torch.types import Number

__all__: list[str]
'''

TYPES = {
    "Tensor": "Tensor",
    "number": "Number | complex",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "str": "str",
    "List[int]": "int | Sequence[int]",
    "ScalarType": "dtype",
    "MemoryFormat": "memory_format",
}


def _type(argument: torch.Argument, takes_number: bool) -> str:
    text = str(argument.real_type if hasattr(argument, "real_type") else argument.type)
    optional = text.startswith("Optional[")
    text = text.removeprefix("Optional[").removesuffix("]") if optional else text
    if text == "int" and argument.name == "dtype":  # how a schema shows ScalarType
        text = "ScalarType"
    name = TYPES.get(text if text != "List[int" else "List[int]", text)
    if takes_number:
        name += " | Number | complex"
    return f"{name} | None" if optional else name


def _default(argument: torch.Argument) -> str:
    if not argument.has_default_value():
        return ""
    named = _type(argument, False) == "memory_format"  # which a schema shows as a number
    return " = ..." if named else f" = {argument.default_value!r}"


def _signature(name: str, packet: torch._ops.OpOverloadPacket, which: str) -> str:
    overloads = packet.overloads()  # type: ignore[no-untyped-call]
    schema = getattr(packet, which)._schema
    arguments = []
    for argument in schema.arguments:
        if argument.kwarg_only and "*" not in arguments:
            arguments.append("*")
        text = _type(argument, f"Scalar_{argument.name}" in overloads)
        arguments.append(f"{argument.name}: {text}{_default(argument)}")
    count = len(schema.returns)
    result = "Tensor" if count == 1 else f"tuple[{', '.join(['Tensor'] * count)}]"
    if ("out" if which == "default" else f"{which}_out") in overloads:
        arguments += ["*"] * ("*" not in arguments) + [f"out: {result} | None = None"]
    return f"def {name}({', '.join(arguments)}) -> {result}: ..."


def _function(name: str) -> str:
    packet = getattr(torch.ops.iterlab, name)
    # Overloads of numbers are in the types of the first.
    names = [
        which
        for which in packet.overloads()
        if not which.startswith("Scalar_") and not which.endswith("out")
    ]
    texts = [_signature(name, packet, which) for which in sorted(names, key=len)]
    return texts[0] if len(texts) == 1 else "\n".join(f"@overload\n{text}" for text in texts)


def text() -> str:
    """Give the stub file."""
    entries: list[OpEntry | CompositeEntry] = [*op_table(), *composite_table()]
    names = {entry.name for entry in entries}
    names |= {f"{entry.name}_" for entry in entries if "inplace" in entry.variants}
    return HEADER + "\n" + "\n".join(_function(name) for name in sorted(names)) + "\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(), encoding="utf-8")
