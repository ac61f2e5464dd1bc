"""What a caller could change to get a faster path: candidates, each tried on the planner."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from iterlab.planning import Plan, plan
from iterlab.units import bytes_text

# How a path fares, best first; reasons that only say how the dims nest cost next to nothing. Which
# of strided and tiled is faster depends on the shape: one is no advice for the other.
_RANK = {"vectorized": 0, "strided": 2, "tiled": 2, "generic": 3}
_CHEAP_REASONS = ("empty", "flat", "nested_dims", "forced")

Operand = torch.Tensor | complex


@dataclass(frozen=True)
class Advice:
    """A line of code that gives the call a faster path, what it costs once, and the path it then
    takes.
    """

    code: str
    bytes: int
    path: str
    why: str

    def __str__(self) -> str:
        cost = f" copies {bytes_text(self.bytes)} once" if self.bytes else " needs no copy"
        return f"{self.why}: `{self.code}`{cost}; the path is then {self.path}"


def _rank(facts: Plan) -> int:
    return 1 if facts.reason == "nested_dims" else _RANK[facts.path]


def _blank(sizes: torch.Size, strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(sizes, strides, dtype=dtype, device="meta")


def _relaid(name: str, tensor: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    """Give copies of a tensor in the usual dense layouts, without data, and the code that makes
    each.
    """
    meta = _blank(tensor.shape, tensor.stride(), tensor.dtype)
    if not meta.is_contiguous():
        yield f"{name}.contiguous()", meta.contiguous()
    if meta.dim() == 2:
        yield f"{name}.t().contiguous().t()", meta.t().contiguous().t()
    if meta.dim() == 4:
        code = f"{name}.contiguous(memory_format=torch.channels_last)"
        yield code, meta.contiguous(memory_format=torch.channels_last)


def _plan_or_none(op: str, args: list[Any], out: Any, kwargs: dict[str, Any]) -> Plan | None:
    try:
        found = plan(op, *args, out=out, **kwargs)
    except (RuntimeError, NotImplementedError):
        return None
    return found if isinstance(found, Plan) else None


def _traffic(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _layout(facts: Plan, name: str) -> str:
    return next((one.layout for one in facts.operands if one.name == name), "")


def _why(facts: Plan, name: str) -> str:
    layout = _layout(facts, name)
    if layout == "transposed":
        return f"operand `{name}` is fastest along another dim than the output"
    return f"operand `{name}` is {'in rows apart' if layout == 'rows' else layout or 'not dense'}"


def _single(
    op: str, names: list[str], args: list[Any], out: Any, kwargs: dict[str, Any], facts: Plan
) -> Iterator[Advice]:
    """Try each operand alone in each dense layout, the one that the plan blames first."""
    for i in sorted(range(len(names)), key=lambda i: i + 1 != facts.reason_operand):
        tensor = args[i]
        written = i == 0 and op.endswith("_")
        if written or not isinstance(tensor, torch.Tensor) or tensor.numel() != facts.numel:
            continue
        if _layout(facts, names[i]) in ("contiguous", "broadcast"):
            continue
        for code, copy in _relaid(names[i], tensor):
            better = _plan_or_none(op, [*args[:i], copy, *args[i + 1 :]], out, kwargs)
            if better is not None and _rank(better) < _rank(facts):
                yield Advice(code, _traffic(copy), better.path, _why(facts, names[i]))


def _all(
    op: str, names: list[str], args: list[Any], out: Any, kwargs: dict[str, Any], facts: Plan
) -> Iterator[Advice]:
    """Try every strided operand made contiguous."""
    codes, changed, total = [], list(args), 0
    for i, name in enumerate(names):
        tensor = args[i]
        written = i == 0 and op.endswith("_")
        if isinstance(tensor, torch.Tensor) and not written and not tensor.is_contiguous():
            changed[i] = _blank(tensor.shape, tensor.stride(), tensor.dtype).contiguous()
            codes.append(f"{name}.contiguous()")
            total += _traffic(changed[i])
    better = _plan_or_none(op, changed, out, kwargs) if codes else None
    if better is not None and _rank(better) < _rank(facts):
        why = (
            "no operand is dense" if len(codes) > 1 else f"operand `{codes[0][:-13]}` is not dense"
        )
        yield Advice(", ".join(codes), total, better.path, why)


def advise(
    op: str,
    names: list[str],
    args: list[Any],
    out: torch.Tensor | None,
    kwargs: dict[str, Any],
    facts: Plan,
) -> Advice | None:
    """Find the cheapest change that gives the call a faster path, or None where the path is fast or
    nothing helps.

    `names` are those of the leading tensor operands in `args`. The path of a suggestion is what the
    planner says of the changed call, not a guess.
    """
    if facts.reason in _CHEAP_REASONS or facts.path == "vectorized":
        return None
    if out is not None:
        better = _plan_or_none(op, args, None, kwargs)
        if better is not None and _rank(better) < _rank(facts):
            code = f"{op}({', '.join(names)})"
            return Advice(
                code, 0, better.path, "the strides of `out` differ from those the call would choose"
            )
    found = next(_single(op, names, args, out, kwargs, facts), None)
    return found or next(_all(op, names, args, out, kwargs, facts), None)
