"""The page of operators, from the table: docs/operators.md, `iterlab ops`, and its check."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

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


def dtypes(entry: OpEntry) -> str:
    """Give the dtypes of an operator in groups: "floats, complex, bool"."""
    left = list(entry.dtypes)
    groups = []
    for name, members in _GROUPS:
        if all(member in left for member in members):
            groups.append(name)
            left = [one for one in left if one not in members]
    return ", ".join(groups + left)


def call(entry: OpEntry) -> str:
    """Give the call of an operator: "add(input, other, *, alpha=1)"."""
    arguments = list(entry.inputs)
    if entry.kind == "reduction":
        arguments += ["dim=None", "keepdim=False"]
    starred = False
    for one in entry.parameters:
        if one.keyword_only and not starred:
            arguments.append("*")
            starred = True
        arguments.append(one.name if one.default is None else f"{one.name}={one.default}")
    if entry.kind == "reduction":
        arguments += ["dtype=None"] if starred else ["*", "dtype=None"]
    return f"{entry.name}({', '.join(arguments)})"


def _twin(entry: OpEntry) -> str:
    if entry.torch_name is None:
        return "–"
    owner = "torch.Tensor" if entry.promotion == "to_argument" else "torch"
    return f"`{owner}.{entry.torch_name}`"


def _result(entry: OpEntry) -> str:
    if entry.kind == "reduction":
        return "dtype=, else as in torch"
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
        lines.append(
            f"| `{call(entry)}` | {doc} | {dtypes(entry)} | {variants} | {promotion} | {twin} |"
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
        result.add_column(title)
    for entry in op_table():
        result.add_row(call(entry), entry.doc, dtypes(entry), ", ".join(entry.variants[1:]))
    for one in composite_table():
        result.add_row(one.call, one.doc, "of its parts", ", ".join(one.variants[1:]))
    return result
