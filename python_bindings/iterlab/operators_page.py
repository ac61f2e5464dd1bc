"""The page of operators, from the table: docs/operators.md, `iterlab ops`, and its check."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from rich.table import Table
from rich.text import Text

from iterlab.callee import Overload
from iterlab.planning import ReductionPlan, dtype_name, plan
from iterlab.table import CompositeEntry, OpEntry, composite_table, op_table

_HEAD = """# Operators

<!-- Written by `python -m iterlab ops --markdown > docs/operators.md`; do not edit. -->

Every operator below is `torch.ops.iterlab.<name>`, with the variants that its row names: `out` is
`out=`, `inplace` is `<name>_`. Dtypes are those that it computes in; operands are promoted to them
as `torch` does.

"""

_GROUPS = (
    ("floats", ("float16", "bfloat16", "float32", "float64")),
    ("complex", ("complex32", "complex64", "complex128")),
    ("signed", ("int8", "int16", "int32", "int64")),
    ("unsigned", ("uint8", "uint16", "uint32", "uint64")),
    (
        "float8",
        ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    ),
)

_PROMOTION = {
    "default": "common dtype",
    "int_to_float": "common dtype; integers: the default dtype",
    "float_to_bool": "bool",
    "always_bool": "bool",
    "complex_to_real": "common dtype; complex: its real dtype",
    "to_argument": "the dtype argument",
    "int_to_float_complex_to_real": "integers: the default dtype; complex: its real dtype",
    "bool_to_int": "common dtype; bool: int64",
    "always_int": "int32",
}


def grouped(dtypes: Iterable[str]) -> str:
    """Name dtypes in groups: "floats, complex, bool"."""
    left = list(dtypes)
    groups = []
    for name, members in _GROUPS:
        if all(member in left for member in members):
            groups.append(name)
            left = [one for one in left if one not in members]
    return ", ".join(groups + left)


def _overloads(entry: OpEntry) -> list[Overload]:
    """Give the functional overloads that an entry stands for: its own, and those of a reduction
    whose arguments have other names. One that takes a number for a tensor is no call of its own.
    """
    packet = getattr(torch.ops.iterlab, entry.name)
    own = entry.overload or "default"
    names = [own]
    if entry.kind == "reduction" and own == "default":
        apart = {one.overload for one in op_table() if one.name == entry.name}
        names += [one for one in packet.overloads() if one not in apart and "out" not in one]
    found: dict[tuple[str, ...], Overload] = {}
    for overload in (getattr(packet, name) for name in names):
        found.setdefault(tuple(one.name for one in overload._schema.arguments), overload)
    return list(found.values())


def _call(schema: Any) -> str:
    arguments, starred = [], False
    for one in schema.arguments:
        if one.kwarg_only and not starred:
            arguments.append("*")
            starred = True
        default = f"={one.default_value!r}" if one.has_default_value() else ""
        arguments.append(f"{one.name}{default}")
    return f"{schema.name.partition('::')[2]}({', '.join(arguments)})"


def calls(entry: OpEntry) -> list[str]:
    """Give the calls of an operator, as their schemas say: "add(input, other, *, alpha=1)"."""
    return [_call(overload._schema) for overload in _overloads(entry)]


def _twin(entry: OpEntry) -> str:
    if entry.torch_name is None:
        return "–"
    owner = "torch.Tensor" if entry.promotion == "to_argument" else "torch"
    return f"`{owner}.{entry.torch_name}`"


def _word(given: str, result: str) -> str:
    real = dtype_name(getattr(torch, given).to_real()) == result != given
    return "its real dtype" if real else result


def _rule(results: dict[str, str]) -> str:
    """Say a result's dtype by the operand's, with few exceptions: "input's (bool: int64)"."""
    words = {given: _word(given, result) for given, result in results.items()}
    rules = []
    for base in ("input's", *dict.fromkeys(results.values())):
        apart = dict.fromkeys(
            words[given]
            for given, result in results.items()
            if result != (given if base == "input's" else base)
        )
        found = {word: [one for one in words if words[one] == word] for word in apart}
        exceptions = "; ".join(f"{grouped(given)}: {word}" for word, given in found.items())
        count = sum(map(len, found.values()))
        rules.append((len(found), count, f"{base} ({exceptions})" if found else base))
    return min(rules)[2]


def _reduction_result(entry: OpEntry) -> str:
    """Say the dtypes of a reduction's results, as its plans have them."""
    schema = _overloads(entry)[0]._schema
    required = sum(not one.has_default_value() for one in schema.arguments)
    results: dict[str, dict[str, str]] = {}
    for name in entry.dtypes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls complex32 experimental
            operand = torch.empty(2, dtype=getattr(torch, name), device="meta")
        facts = plan(entry.name, operand, *[0] * (required - 1))
        assert isinstance(facts, ReductionPlan)
        for result, dtype in facts.results:
            results.setdefault(result, {})[name] = dtype
    rules = {result: _rule(found) for result, found in results.items()}
    same = len(set(rules.values())) == 1
    text = next(iter(rules.values())) if same else ", ".join(f"{k}: {v}" for k, v in rules.items())
    takes_dtype = any(one.name == "dtype" for one in schema.arguments)
    return f"{text}; or the dtype argument" if takes_dtype else text


def _result(entry: OpEntry) -> str:
    if entry.kind == "reduction":
        return _reduction_result(entry)
    return _PROMOTION.get(entry.promotion, entry.promotion)


def _section(title: str, entries: list[OpEntry]) -> str:
    lines = [
        f"## {title}",
        "",
        "| call | result | dtypes | variants | result dtype | in torch |",
        "|---|---|---|---|---|---|",
    ]
    for entry in entries:
        twin = _twin(entry)
        doc = entry.doc.replace("|", "\\|")
        variants = ", ".join(variant for variant in entry.variants if variant != "functional")
        promotion = _result(entry)
        shown = "<br>".join(f"`{call}`" for call in calls(entry))
        lines.append(
            f"| {shown} | {doc} | {grouped(entry.dtypes)} | {variants} | {promotion} | {twin} |"
        )
    return "\n".join(lines) + "\n"


def _composites(entries: tuple[CompositeEntry, ...]) -> str:
    lines = [
        "## Composites",
        "",
        "Written from the operators above, and of their dtypes.",
        "",
        "| call | result | variants | in torch |",
        "|---|---|---|---|",
    ]
    for entry in entries:
        doc = entry.doc.replace("|", "\\|")
        variants = ", ".join(entry.variants[1:]) or "–"
        lines.append(f"| `{entry.call}` | {doc} | {variants} | `torch.{entry.torch_name}` |")
    return "\n".join(lines) + "\n"


def markdown() -> str:
    """Write the page."""
    kinds = (("Elementwise", "elementwise"), ("Reductions", "reduction"))
    parts = [
        _section(title, [one for one in op_table() if one.kind == kind]) for title, kind in kinds
    ]
    return _HEAD + "\n".join([*parts, _composites(composite_table())])


def is_current(page: Path) -> bool:
    """Say whether `page` (docs/operators.md) is what `markdown` writes now."""
    return page.read_text(encoding="utf-8") == markdown()


def table() -> Table:
    """Give the operators as a table for a terminal."""
    result = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="bold")
    for title in ("operator", "what it gives", "dtypes", "variants"):
        result.add_column(title, overflow="fold")
    rows = [(calls(one), one.doc, grouped(one.dtypes), one.variants) for one in op_table()]
    rows += [([one.call], one.doc, "of its parts", one.variants) for one in composite_table()]
    for spelled, doc, dtypes, variants in rows:
        # Text, because rich would read what stands in brackets as markup.
        cells = ("\n".join(spelled), doc, dtypes, ", ".join(variants[1:]))
        result.add_row(*map(Text, cells))
    return result
