"""Which operator a call names: one of iterlab's, or one of torch's with or without a twin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

from iterlab.planning import functional_overload
from iterlab.table import OpEntry, aten_name, composite_table, find, op_table

Overload = torch._ops.OpOverload[..., Any]
Op = str | Overload | torch._ops.OpOverloadPacket[..., Any] | Callable[..., Any]


@dataclass(frozen=True)
class Callee:
    """The overload that a call gets, and the table's entry of the operator or of its twin.

    `name` is that of iterlab's operator ("add_"). `is_iterlab` says whose the overload is. There is
    no entry for an operator that is written from others.
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
    if text.removesuffix("_") not in known and hasattr(torch.ops.aten, text):
        raise ValueError(
            f"iterlab: expected one of iterlab's operators, got '{text}'; torch's is 'aten::{text}'"
        )
    return f"iterlab::{text}"


def _qualified(op: Op) -> tuple[str, Overload | None]:
    """Give "iterlab::add" and the overload where one is given."""
    if isinstance(op, str):
        return _qualified_name(op), None
    if isinstance(op, torch._ops.OpOverload):
        return op._schema.name, op
    if isinstance(op, torch._ops.OpOverloadPacket):
        return op._qualified_op_name, None
    name = getattr(op, "__name__", "")
    module = getattr(op, "__module__", None) or ""
    torchs = module.startswith("torch") and hasattr(torch.ops.aten, name)
    if torchs or getattr(torch.Tensor, name, None) is op:
        return f"aten::{name}", None
    import iterlab

    if getattr(iterlab, name, None) is op:
        return f"iterlab::{name}", None
    raise TypeError(f"iterlab: expected the name of an operator, or one of torch.ops, got {op!r}")


def _own(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Overload:
    """Find the overload of iterlab's operator that a call with these arguments gets."""
    entry = find(name.removesuffix("_"))
    if entry.kind == "reduction":
        return _resolved(f"iterlab::{name}", args, kwargs)
    if name.endswith("_") and "inplace" not in entry.variants:
        raise ValueError(f"iterlab: expected an operator with an in-place variant, got '{name}'")
    numbers = [
        operand
        for operand, given in zip(entry.inputs, args, strict=False)
        if not isinstance(given, torch.Tensor)
    ]
    parts = ["Scalar", *numbers] if numbers else []
    parts += ["out"] if kwargs.get("out") is not None else []
    packet = getattr(torch.ops.iterlab, name)
    if ("_".join(parts) or "default") not in packet.overloads():
        raise TypeError(f"iterlab::{name}: expected a tensor as {numbers[0]}, got a number")
    found: Overload = getattr(packet, "_".join(parts) or "default")
    return found


def _resolved(qualified: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Overload:
    """Find the overload of an operator, as `torch.ops` would."""
    library, _, name = qualified.partition("::")
    name, _, overload = name.partition(".")
    packet = getattr(getattr(torch.ops, library), name, None)
    if packet is None:
        raise ValueError(f"iterlab: expected the name of an operator, got '{qualified}'")
    if not overload:
        try:
            overload = torch._C._jit_resolve_packet(f"{library}::{name}", *args, **kwargs)
        except RuntimeError as error:
            # Torch says in one line that none fits, then why for each.
            reasons = [line.strip() for line in str(error).splitlines() if line.strip()]
            reason = next((one for one in reasons if "()" in one), reasons[0])
            raise TypeError(
                f"iterlab: no overload of {qualified} takes the call: {reason}"
            ) from None
    if overload not in packet.overloads():
        raise ValueError(f"iterlab: expected one of {packet.overloads()}, got '{overload}'")
    found: Overload = getattr(packet, overload)
    return found


def resolve(op: Op, args: Sequence[Any], kwargs: dict[str, Any]) -> Callee:
    """Find what a call names.

    `op` is a name ("add", "add_", "aten::mul.Tensor", "torch.mul"), an operator of `torch.ops`, or
    a function of torch or iterlab. Raises ValueError for an unknown name, TypeError for what is no
    operator or takes no such arguments.
    """
    qualified, overload = _qualified(op)
    library, _, name = qualified.partition("::")
    if library == "iterlab" and name.removesuffix("_") not in _composites():
        found = overload or _own(name, args, kwargs)
        return Callee(found, name, find(name.removesuffix("_"), functional_overload(found)), True)
    found = overload or _resolved(qualified, args, kwargs)
    base = name.partition(".")[0]
    entry = twin_of(qualified)
    inplace = "_" * base.endswith("_")
    return Callee(found, base if entry is None else entry.name + inplace, entry, False)
