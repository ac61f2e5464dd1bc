"""Copies in a profile: what each changes, which call hides it, and what would save it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch

from iterlab.callee import twin_of
from iterlab.planning import dtype_name
from iterlab.trace import Node, Tensor, Trace
from iterlab.units import bytes_text, shape_text

# Calls of the code that are nothing but a copy.
_PLAIN = ("aten::copy_", "aten::clone", "aten::contiguous", "aten::to", "aten::_to_copy")
# A smaller copy takes as long as its call.
_LEAST_BYTES = 4096
_COPY, _IN_PLACE = "copy", "write into the place where the result is wanted"

# A copy by its Python line, its source's id, the dtype made, and whether a backward makes it.
Reread = tuple[str, int, torch.dtype, bool]


@dataclass(frozen=True)
class Copy:
    """A copy. `kind` is "copy" where the code asks for one, "hidden copy" where it hides in another
    call, "repeated copy" where one unchanged tensor is copied again and again; `advice` says what
    would save it.
    """

    kind: str
    what: str
    advice: str


def layout_text(one: Tensor) -> str:
    """Name a layout where it has a name, else give the strides."""
    like = one.meta()
    if like.is_contiguous():
        return "contiguous"
    for dims, memory_format in ((4, torch.channels_last), (5, torch.channels_last_3d)):
        if like.dim() == dims and like.is_contiguous(memory_format=memory_format):
            return str(memory_format).removeprefix("torch.")
    if like.dim() == 2 and like.t().is_contiguous():
        return "transposed"
    return f"strides {shape_text(one.strides)}"


def _order(one: Tensor) -> list[int]:
    """Give the dims from the slowest to the fastest."""
    dims = [dim for dim, size in enumerate(one.sizes) if size > 1]
    return sorted(dims, key=lambda dim: -one.strides[dim])


def _is_dense(one: Tensor) -> bool:
    """Whether the elements fill one piece of memory."""
    expected = 1
    for dim in reversed(_order(one)):
        if one.strides[dim] != expected:
            return False
        expected *= one.sizes[dim]
    return True


def _elements(one: Tensor) -> int:
    """Count the elements of the memory that a tensor shows, those of an expanded one once."""
    return math.prod(
        size for size, stride in zip(one.sizes, one.strides, strict=True) if stride != 0
    )


class Rereads:
    """The tensors that a run casts or copies again and again though nothing writes to them.

    Found in a trace; `has` says whether a copy in it is one of those. The profiler tells memory
    apart, not the parts of it that views show: a tensor counts that is all of its memory. None is
    found in a profile of all threads.
    """

    def __init__(self, trace: Trace) -> None:
        self._all = self._sizes(trace)
        self._again: set[Reread] = set()
        seen: dict[int, set[Reread]] = {}
        if not trace.tells_memory:
            return
        for node in trace.walk():
            if node.kind != "operator":
                continue
            if (key := self._key(node)) is not None:
                known = seen.setdefault(key[1], set())
                (self._again if key in known else known).add(key)
            for one in _written(node):
                if one.id is not None:
                    seen.pop(one.id, None)

    @staticmethod
    def _sizes(trace: Trace) -> dict[int, int]:
        sizes: dict[int, int] = {}
        for node in trace.walk():
            for one in node.operands:
                if one is not None and one.id is not None:
                    sizes[one.id] = max(sizes.get(one.id, 0), _elements(one))
        return sizes

    def _key(self, node: Node) -> Reread | None:
        """Give what makes two copies the same. A backward copies what its forward has copied, and
        can't have it.
        """
        if node.name != "aten::copy_":
            return None
        target, source = (*node.operands, None, None)[:2]
        if target is None or source is None or source.id is None:
            return None
        if _elements(source) < self._all[source.id]:
            return None
        return node.line, source.id, target.dtype, _in_backward(node)

    def has(self, node: Node) -> bool:
        """Say whether the copy is made again and again of one unchanged tensor."""
        return self._key(node) in self._again


def _in_backward(node: Node) -> bool:
    return any(one.kind == "backward" for one in node.above())


def _written(node: Node) -> Iterator[Tensor]:
    """Give the operands that an operator may write, by its name: those of an in-place variant."""
    if not node.name.endswith("_"):
        return
    many = "_foreach_" in node.name or "_fused_" in node.name
    for one in node.operands if many else node.operands[:1]:
        if one is not None:
            yield one


def _around(node: Node) -> list[str]:
    """Name the operators and autograd nodes around a copy, itself first."""
    return [one.name for one in (node, *node.above()) if one.kind in ("operator", "backward")]


def _without_copy(names: list[str], plain: bool) -> str:
    """Say which call does without the copy of the operators around it, "" where none does. `plain`
    says that the copy changes neither dtype nor layout.
    """
    for name in names:
        base = name.removeprefix("aten::")
        if name in _PLAIN:
            continue
        if plain and not base.endswith("_") and hasattr(torch.Tensor, f"{base}_"):
            return f"call {base}_, which writes in place, where the input is not needed again"
        if not plain and twin_of(name) is not None:
            return f"or call iterlab.{base}, which converts and gathers tile by tile"
    return ""


def _change(target: Tensor, source: Tensor, names: list[str]) -> tuple[str, str]:
    """Say what a copy changes, and what would save it."""
    if target.device != source.device:
        return (
            f"transfer {source.device} → {target.device}",
            "keep data where it is used; pinned memory and non_blocking=True let copies overlap",
        )
    if target.dtype != source.dtype:
        cast = f"cast {dtype_name(source.dtype)} → {dtype_name(target.dtype)}"
        return cast, "keep one dtype: store the operand in the dtype that its reader computes in"
    if 0 in source.strides or math.prod(source.sizes) < math.prod(target.sizes):
        return (
            "broadcast made in memory",
            "leave it expanded: operators broadcast by themselves (expand, not repeat)",
        )
    if "aten::resolve_conj" in names or "aten::resolve_neg" in names:
        return "lazy conjugate made in memory", "nothing, unless the conjugate is used again"
    if _order(source) != _order(target):
        layouts = f"{layout_text(source)} → {layout_text(target)}"
        if any("convolution" in name for name in names):
            return (
                f"layout copy {layouts}",
                "give input and weight one layout: "
                ".to(memory_format=torch.channels_last) once on the model and on its input",
            )
        if "aten::contiguous" in names:
            return (
                f"layout copy {layouts}",
                "leave it out where what follows takes any layout; `reshape` and `flatten` do",
            )
        return f"layout copy {layouts}", "make the operand in the layout that its reader wants"
    if source.strides != target.strides:
        into = _is_dense(source)
        part = "copy into a part" if into else "copy of a part"
        return (
            f"{part}, {layout_text(source)} → {layout_text(target)}",
            _IN_PLACE if into else "let the reader take the part as it is, or make it dense once",
        )
    return _COPY, _IN_PLACE


def _join(node: Node) -> Copy | None:
    given = [one for one in node.operands if one is not None]
    size = sum(one.bytes for one in given)
    if size < _LEAST_BYTES:
        return None
    layouts = ", ".join(dict.fromkeys(layout_text(one) for one in given))
    what = f"joins {len(given)} tensors {shape_text(given[0].sizes)} ({layouts}), "
    by = _around(node)[-1].removeprefix("aten::")
    advice = "write the parts into one tensor made before: out=, or result[i] = ..."
    return Copy("copy", f"{what}{bytes_text(size)}, by `{by}`", advice)


def describe(node: Node, rereads: Rereads) -> Copy | None:
    """Describe the copy that a node is; None where it is none worth a word."""
    if node.name == "aten::cat":
        return _join(node)
    given = [one for one in node.operands[:2] if one is not None]
    if node.name != "aten::copy_" or len(given) < 2:
        return None
    target, source = given
    names = _around(node)
    starts_sums = 0 in source.strides and "aten::addmm" in names  # as the bias of a linear does
    if source.sizes == () or target.bytes < _LEAST_BYTES or starts_sums:
        return None
    change, advice = _change(target, source, names)
    what = f"{change} of {shape_text(source.sizes)}, {bytes_text(target.bytes)}"
    asked = all(name in _PLAIN for name in names)
    by, outer = ("by", names[-1].removeprefix("aten::")) if asked else ("hides in", names[-1])
    what = f"{what}, {by} `{outer}`"
    if rereads.has(node):
        same = "it is the same tensor each time: copy it once and use the copy again"
        return Copy("repeated copy", what, same)
    if asked:
        return Copy("copy", what, advice)
    if _in_backward(node):
        what += ", the backward of this line" if node.line else ""
    elif change == _COPY:
        advice = _without_copy(names, True) or "nothing: the operator works on a copy of its own"
    elif other := _without_copy(names, False):
        advice = f"{advice}; {other}"
    return Copy("hidden copy", what, advice)
