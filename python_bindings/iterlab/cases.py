"""The cases that benchmarks measure and tests check, in one table: operands written as specs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from iterlab import spec
from iterlab.table import OpEntry, find, op_table


@dataclass(frozen=True)
class Case:
    """One call. In its specs, {n} is the side of a square and {m} is n * n, its number of elements.

    `out` is the layout of a given output where it differs from the one that the call would choose.
    `group` is "layout", "dtype", "copy", "reduction" or "operator".
    """

    name: str
    group: str
    op: str
    operands: tuple[str, ...]
    arguments: dict[str, Any] = field(default_factory=dict)
    out: str | None = None

    def build(self, n: int, device: str = "cpu") -> Call:
        """Make the operands for a square of side `n`, a multiple of 32."""
        args = tuple(self._operand(text, n, device) for text in self.operands)
        out = None if self.out is None else self._operand(self.out, n, device)
        assert not isinstance(out, complex)
        return Call(self.op, args, dict(self.arguments), out)

    @staticmethod
    def _operand(text: str, n: int, device: str) -> spec.Operand:
        return spec.parse(text.format(n=n, m=n * n), device)


@dataclass(frozen=True)
class Call:
    """A case with its tensors."""

    op: str
    args: tuple[spec.Operand, ...]
    arguments: dict[str, Any]
    out: torch.Tensor | None


def side(megabytes: float) -> int:
    """Give the n for which a float32 square has about that many MiB, as a multiple of 32."""
    return max(32, int((megabytes * 2**20 / 4) ** 0.5) // 32 * 32)


_SQUARE = "f32[{n},{n}]"
_IMAGE = "f32[16,64,{n}//32,{n}//32]"
_PHOTO = "u8[4,{n}//4,{n}//4,3].permute(0,3,1,2)"
_PLANES = "f32[4,3,{n}//4,{n}//4]"
_CUBE = "[32,{n},{n}//32]"


def _add(name: str, *operands: str, group: str = "layout") -> Case:
    return Case(name, group, "add", operands)


def _copy(name: str, source: str, dtype: torch.dtype, out: str) -> Case:
    return Case(name, "copy", "to", (source,), {"dtype": dtype}, out)


_ELEMENTWISE = (
    _add("contiguous f32", _SQUARE, _SQUARE),
    _add("contiguous bf16", "bf16[{n},{n}]", "bf16[{n},{n}]"),
    _add("contiguous i8", "i8[{n},{n}]", "i8[{n},{n}]"),
    _add("row broadcast", _SQUARE, "f32[{n}]"),
    _add("column broadcast", _SQUARE, "f32[{n},1]"),
    _add("x + y.t()", _SQUARE, _SQUARE + ".t()"),
    _add("inner stride 2", _SQUARE, "f32[{n},2*{n}][:, ::2]"),
    _add("inner 3 of 4", "f32[{m}//4,4][:, :3]", "f32[{m}//4,4][:, :3]"),
    _add("inner 7 of 8", "f32[{m}//8,8][:, :7]", "f32[{m}//8,8][:, :7]"),
    _add("NCHW + channels_last", _IMAGE, _IMAGE + ".channels_last()"),
    _add("3-D permuted", "f32[{n}//8,64,{n}//8]", "f32[64,{n}//8,{n}//8].permute(2,0,1)"),
    _add("misaligned x[1:]", "f32[{m}+1][1:]", "f32[{m}]"),
    _add("f32 + bf16", _SQUARE, "bf16[{n},{n}]", group="dtype"),
    _add("f32 + i8", _SQUARE, "i8[{n},{n}]", group="dtype"),
    _add("f16 + bf16", "f16[{n},{n}]", "bf16[{n},{n}]", group="dtype"),
    _add("i32 + f32", "i32[{n},{n}]", _SQUARE, group="dtype"),
    _add("f32 + bf16.t()", _SQUARE, "bf16[{n},{n}].t()", group="dtype"),
    _copy("cast f32 → bf16", _SQUARE, torch.bfloat16, "bf16[{n},{n}]"),
    _copy("transpose copy f32", _SQUARE + ".t()", torch.float32, _SQUARE),
    _copy("transpose copy bf16", "bf16[{n},{n}].t()", torch.bfloat16, "bf16[{n},{n}]"),
    _copy("channels_last → NCHW", _IMAGE + ".channels_last()", torch.float32, _IMAGE),
    _copy("HWC u8 → CHW f32", _PHOTO, torch.float32, _PLANES),
    Case("HWC u8 × f32 → CHW f32", "copy", "mul", (_PHOTO, "f32[3,1,1]"), out=_PLANES),
)


def _sum(name: str, operand: str, dim: int | list[int] | None = None) -> Case:
    return Case(f"sum {name}", "reduction", "sum", (operand,), {} if dim is None else {"dim": dim})


def _sums() -> Iterator[Case]:
    for dtype in ("f32", "bf16"):
        yield _sum(f"inner {dtype}", dtype + "[{n},{n}]", 1)
        yield _sum(f"outer {dtype}", dtype + "[{n},{n}]", 0)
        yield _sum(f"middle {dtype}", dtype + _CUBE, 1)
        yield _sum(f"(0, 2) {dtype}", dtype + _CUBE, [0, 2])
        yield _sum(f"all {dtype}", dtype + "[{n},{n}]")
    for dtype in ("i8", "bool", "i32"):
        yield _sum(f"inner {dtype}", dtype + "[{n},{n}]", 1)
        yield _sum(f"all {dtype}", dtype + "[{n},{n}]")
    for size in (2, 3, 8):
        yield _sum(f"over inner {size} f32", f"f32[{{m}}//{size},{size}]", 1)


# Values of arguments without a default, by kind.
_ARGUMENTS: dict[str, Any] = {
    "scalar": 0.5,
    "alpha": 0.5,
    "float": 0.5,
    "optional_float": 0.5,
    "int": 2,
    "bool": False,
    "dtype": torch.float32,
}


def _plain_operands(entry: OpEntry, form: str) -> tuple[str, ...] | None:
    known = {str(dtype).removeprefix("torch."): name for name, dtype in spec.DTYPES.items()}
    wanted = "float32" if "float32" in entry.dtypes else entry.dtypes[0]
    if wanted not in known:
        return None

    def operand(i: int) -> str:
        dtype = "bool" if entry.bool_inputs >> i & 1 else known[wanted]
        return dtype + ("[]" if entry.number_inputs >> i & 1 else form)

    return tuple(operand(i) for i in range(len(entry.inputs)))


def _of_operator(entry: OpEntry) -> Iterator[Case]:
    operands = _plain_operands(entry, "[{n},{n}]")
    missing = [one for one in entry.parameters if one.default is None]
    if operands is None or any(one.kind not in _ARGUMENTS for one in missing):
        return
    arguments = {one.name: _ARGUMENTS[one.kind] for one in missing}
    if entry.kind == "elementwise":
        yield Case(entry.name, "operator", entry.name, operands, arguments)
        return
    for form, dim in (("inner", 1), ("outer", 0)):
        yield Case(
            f"{entry.name} {form}", "operator", entry.name, operands, arguments | {"dim": dim}
        )


def all_cases() -> list[Case]:
    """Give every case of this build: the layouts, dtypes, copies and sums below, then each operator
    of the table.

    An operator that is added to the table has its cases here without further ado.
    """
    known = {entry.name for entry in op_table()}
    listed = [case for case in (*_ELEMENTWISE, *_sums()) if case.op in known]
    seen = {"add", "to", "sum"}
    return listed + [
        case for entry in op_table() if entry.name not in seen for case in _of_operator(entry)
    ]


def is_reduction(case: Case) -> bool:
    """Say whether a case reduces: its result is small, and out= would change nothing."""
    return find(case.op).kind == "reduction"
