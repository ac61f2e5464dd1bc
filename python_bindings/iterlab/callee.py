"""Which operator a call names: one of iterlab's, or one of torch's with or without a twin."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Number
from typing import Any

import torch

from iterlab.table import OpEntry, aten_name, composite_table, find, op_table

Overload = torch._ops.OpOverload[..., Any]
Op = str | Overload | torch._ops.OpOverloadPacket[..., Any] | Callable[..., Any]


@dataclass(frozen=True)
class Callee:
    """The overload that a call gets, and the table's entry of the operator or of its twin.

    `name` is that of iterlab's operator ("add_"). `is_iterlab` says whose the overload is. There is
    no entry for an operator that is written from others, such as clamp, or max of two tensors.
    """

    overload: Overload
    name: str
    entry: OpEntry | None
    is_iterlab: bool


@cache
def _twins() -> dict[str, OpEntry]:
    return {
        aten_name(entry.torch_name): entry for entry in op_table() if entry.torch_name is not None
    }


def _composites() -> set[str]:
    return {one.name for one in composite_table()}


def twin_of(qualified: str) -> OpEntry | None:
    """Give the entry of the operator that is the twin of "aten::add" or "aten::add_"."""
    library, _, name = qualified.partition("::")
    return _twins().get(name.partition(".")[0].removesuffix("_")) if library == "aten" else None


def _qualified_name(text: str) -> str:
    """Give "iterlab::add" for "add", and "aten::add" for "torch.add". Raises ValueError where only
    torch has an operator of the name.
    """
    if text.startswith("torch."):
        return f"aten::{aten_name(text.removeprefix('torch.'))}"
    if "::" in text:
        return text
    known = {one.name for one in op_table()} | _composites()
    name = text.partition(".")[0]
    if name.removesuffix("_") not in known and hasattr(torch.ops.aten, name):
        raise ValueError(
            f"iterlab: expected one of iterlab's operators, got '{text}'; torch's is 'aten::{text}'"
        )
    return f"iterlab::{text}"


def _qualified(op: Op) -> str:
    """Give "iterlab::add", or "iterlab::add.out" where the overload is given."""
    if isinstance(op, str):
        return _qualified_name(op)
    if isinstance(op, torch._ops.OpOverload):
        return f"{op._schema.name}.{op._overloadname}"
    if isinstance(op, torch._ops.OpOverloadPacket):
        return op._qualified_op_name
    name = getattr(op, "__name__", "")
    module = getattr(op, "__module__", None) or ""
    torchs = module.startswith("torch") and hasattr(torch.ops.aten, name)
    if torchs or getattr(torch.Tensor, name, None) is op:
        return f"aten::{name}"
    import iterlab

    if getattr(iterlab, name, None) is op:
        return f"iterlab::{name}"
    raise TypeError(f"iterlab: expected the name of an operator, or one of torch.ops, got {op!r}")


def functional_overload(overload: Overload) -> str:
    """Name the functional overload that an overload or its out variant belongs to, "" for
    "default".
    """
    name = overload._overloadname
    return "" if name in ("default", "out") else name.removesuffix("_out")


def _entry_of(entry: OpEntry, overload: Overload) -> OpEntry | None:
    """Give the entry of an overload, of those that have the name of `entry`. None where there is
    none: max of two tensors is no reduction, and takes more tensors than that.
    """
    arguments = (one for one in overload._schema.arguments if not one.is_out)
    tensors = sum(isinstance(one.type, torch.TensorType) for one in arguments)
    if tensors > len(entry.inputs):
        return None
    return find(entry.name, functional_overload(overload))


def _misfits(schema: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """Say what keeps a schema from taking a call, by number and names of its arguments."""
    arguments = schema.arguments
    by_position = [one.name for one in arguments if not one.kwarg_only]
    given = [*by_position[: len(args)], *kwargs]
    most = len(by_position)
    # One fault for each argument too many, so that the nearest schema has the fewest.
    faults = [f"expected at most {most} positional arguments, got {len(args)}"] * (len(args) - most)
    left = [one.name for one in arguments[len(args) :] if not one.is_out or one.name in kwargs]
    faults += [f"expected arguments {left}, got ['{name}']" for name in kwargs if name not in left]
    required = [one.name for one in arguments if not one.has_default_value()]
    if not set(required) <= set(given):
        got = ", ".join(given) or "none"
        faults.append(f"expected at least the arguments {', '.join(required)}, got {got}")
    return faults


def _wrong_type(refusals: str) -> str:
    """Say in short which value none of the overloads takes, as torch's refusals of each say it."""
    found = re.findall(
        r"Expected a value of type '(.+?)' for argument '(.+?)' but instead found type '(.+?)'\.\n"
        r"Position: (\d+)",
        refusals,
    )
    if not found:
        return refusals.strip().splitlines()[-1]
    _, name, got, position = max(found, key=lambda one: int(one[3]))
    types = dict.fromkeys(one[0] for one in found if one[3] == position)
    return f"expected {' or '.join(types)} as {name}, got {got}"


def _refused(
    qualified: str, schemas: Sequence[Any], args: Sequence[Any], kwargs: dict[str, Any], why: str
) -> TypeError:
    """Make the error of a call that no schema takes: what the nearest one expected."""
    faults = min((_misfits(schema, args, kwargs) for schema in schemas), key=len)
    who = qualified if qualified.startswith("iterlab::") else f"iterlab: {qualified}"
    return TypeError(f"{who}: {faults[0] if faults else _wrong_type(why)}")


def _overload(qualified: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Overload:
    """Find the overload of an operator that a call gets, as `torch.ops` would; that of
    "aten::add.Tensor" is given.
    """
    library, _, name = qualified.partition("::")
    name, _, overload = name.partition(".")
    packet = getattr(getattr(torch.ops, library), name, None)
    if packet is None:
        raise ValueError(f"iterlab: expected the name of an operator, got '{qualified}'")
    overloads = packet.overloads()
    if overload and overload not in overloads:
        raise ValueError(f"iterlab: expected one of {overloads}, got '{overload}'")
    schemas = [getattr(packet, one)._schema for one in ([overload] if overload else overloads)]
    if overload and _misfits(schemas[0], args, kwargs):
        raise _refused(qualified, schemas, args, kwargs, "")
    try:
        overload = overload or torch._C._jit_resolve_packet(f"{library}::{name}", *args, **kwargs)
    except RuntimeError as error:
        raise _refused(qualified, schemas, args, kwargs, str(error)) from None
    found: Overload = getattr(packet, overload)
    return found


def _plain(value: Any) -> Any:
    """Give a number of NumPy as Python's; what else there is, as it is."""
    return value.item() if isinstance(value, Number) and hasattr(value, "item") else value


def resolve(
    op: Op, args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Callee, list[Any], dict[str, Any]]:
    """Find what a call names, and give its arguments with every operand by position.

    `op` is a name ("add", "add_", "aten::mul.Tensor", "torch.mul"), an operator of `torch.ops`, or
    a function of torch or iterlab. Raises ValueError for an unknown name, TypeError for what is no
    operator or takes no such arguments.
    """
    qualified = _qualified(op)
    positional = [_plain(value) for value in args]
    named = {name: _plain(value) for name, value in kwargs.items()}
    if "out" in named and named["out"] is None:
        del named["out"]
    library, _, name = qualified.partition("::")
    name = name.partition(".")[0]
    base = name.removesuffix("_")
    is_iterlab = library == "iterlab"
    entry = find(base) if is_iterlab and base not in _composites() else twin_of(qualified)
    if is_iterlab and entry is not None and name != base and "inplace" not in entry.variants:
        raise ValueError(f"iterlab: expected an operator with an in-place variant, got '{name}'")
    overload = _overload(qualified, positional, named)
    entry = None if entry is None else _entry_of(entry, overload)
    if entry is not None:
        name = entry.name + "_" * (name != base)
        for one in overload._schema.arguments[len(positional) : len(entry.inputs)]:
            if one.name in named:
                positional.append(named.pop(one.name))
    return Callee(overload, name, entry, is_iterlab), positional, named
