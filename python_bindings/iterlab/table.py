"""The operators of this build, as their definitions state them."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache

from iterlab import _C


@dataclass(frozen=True)
class Parameter:
    """An argument that is not a tensor.

    `default` is as the schema spells it; None where the argument is required. `choices` are the
    values of a string argument; None among them stands for None.
    """

    name: str
    kind: str
    default: str | None
    keyword_only: bool
    choices: tuple[str | None, ...]


@dataclass(frozen=True)
class OpEntry:
    """One operator.

    `overload` tells reductions of one name apart: "dim" for max.dim, "" for max. `inputs` names
    its tensor operands; bit i of `promoted_inputs` says whether input i takes part in type
    promotion, bit i of `bool_inputs` whether it must be bool, bit i of `number_inputs` whether
    it is one value, a number or a 0-d tensor. `rounding` names the parameter whose choices
    other than the first keep integers. `dtypes` are the common dtypes that it computes.
    `torch_name` is its twin under `torch`, None where there is none.
    """

    name: str
    overload: str
    doc: str
    torch_name: str | None
    kind: str
    inputs: tuple[str, ...]
    promoted_inputs: int
    bool_inputs: int
    number_inputs: int
    rounding: str | None
    parameters: tuple[Parameter, ...]
    promotion: str
    dtypes: tuple[str, ...]
    variants: tuple[str, ...]


@dataclass(frozen=True)
class CompositeEntry:
    """One operator that is written from others of the table; `call` shows its arguments."""

    name: str
    call: str
    doc: str
    torch_name: str
    variants: tuple[str, ...]


def _entry(facts: dict[str, object]) -> OpEntry:
    parameters = facts.pop("parameters")
    lists = {key: tuple(value) for key, value in facts.items() if isinstance(value, list)}
    assert isinstance(parameters, list)
    made = tuple(Parameter(**(one | {"choices": tuple(one["choices"])})) for one in parameters)
    return OpEntry(**(facts | lists), parameters=made)  # type: ignore[arg-type]


@cache
def op_table() -> tuple[OpEntry, ...]:
    """Give every operator of `torch.ops.iterlab`: elementwise ones first, then reductions."""
    return tuple(_entry(facts) for facts in _C.op_table())


@cache
def composite_table() -> tuple[CompositeEntry, ...]:
    """Give every operator of `torch.ops.iterlab` that is written from others."""
    return tuple(
        CompositeEntry(**(facts | {"variants": tuple(facts["variants"])}))
        for facts in _C.composite_table()
    )


def aten_name(torch_name: str | None) -> str:
    """Give the name in torch.ops.aten of a function under `torch.`: "special.entr" is
    "special_entr" there. "" for None.
    """
    owner, _, name = (torch_name or "").rpartition(".")
    if name == "logsigmoid":
        return "log_sigmoid"
    return f"special_{name}" if owner == "special" else name


def find(name: str, overload: str = "") -> OpEntry:
    """Give the operator of that name, of two that of the overload where one has it. Raises
    ValueError where there is none.
    """
    named = [entry for entry in op_table() if entry.name == name]
    for entry in named:
        if entry.overload == overload:
            return entry
    if named:
        return named[0]
    near = get_close_matches(name, [entry.name for entry in op_table()], n=4, cutoff=0.5)
    such = f" such as {', '.join(near)}" if near else ""
    raise ValueError(
        f"iterlab: expected the name of an operator{such} (`iterlab ops` lists them), got '{name}'"
    )
