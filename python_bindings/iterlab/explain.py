"""Explains a call: the layers it meets, its plan in words, what the caller could change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from html import escape
from io import StringIO
from typing import Any

import torch
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from iterlab import plan_sections, reasons
from iterlab.advice import Advice, advise
from iterlab.aten_loop import AtenLoop, predict
from iterlab.aten_reduce import predict_reduction
from iterlab.callee import Callee, Op, resolve
from iterlab.dispatch import Dispatch, dispatch, signature, tensors_in
from iterlab.launches import Launch, launches_of
from iterlab.measured import Measured, measure
from iterlab.physical import physical, physical_reduction, undisturbed
from iterlab.planning import Plan, ReductionPlan, plan
from iterlab.sections import CSS, Section, code_html, html_parts, marked, rich_parts
from iterlab.units import time_text


class Explanation:
    """What a call does and why.

    `.dispatch` has the layers in call order. `.plan` is the object that the kernel would get; of an
    operator of torch it is None, `.twin_plan` says what iterlab's operator would do, and `.aten`
    predicts ATen's iterator. `.launches` has what one of iterlab's operators launches on a GPU.
    `.measured` is there after `run=True`.

    Prints itself on a terminal, in a notebook and with rich; `to_dict` gives it as data.
    """

    def __init__(
        self,
        callee: Callee,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        layers: Dispatch,
        facts: Plan | ReductionPlan | None,
        aten: AtenLoop | None,
        advice: Advice | None,
        launches: Sequence[Launch],
        measured: Measured | None,
    ) -> None:
        self.signature = signature(callee.overload)
        self.schema = self.signature.schema
        self.dispatch = layers
        self.plan = facts if callee.is_iterlab else None
        self.twin_plan = facts
        self.aten = aten
        self.advice = advice
        self.launches = tuple(launches)
        self.measured = measured
        self._callee = callee
        self._args = tuple(args)
        self._out = kwargs.get("out")

    @cached_property
    def summary(self) -> str:
        """The path and its reason in one line."""
        if self.plan is not None:
            return reasons.summary(self.plan)
        if self.aten is not None:
            return f"probably {self.aten.loop}: {self.aten.why}"
        return f"{' → '.join(self.dispatch.runs)}"

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """The parts, in the order in which they happen. The first look measures this machine's
        memory rate.
        """
        found = [
            plan_sections.operator_section(self.signature),
            plan_sections.dispatch_section(self.dispatch),
        ]
        entry, facts = self._callee.entry, self.twin_plan
        if entry is not None and facts is not None:
            parts = self._plan_sections()
            if not self._callee.is_iterlab:
                parts = [
                    replace(part, title=f"{part.title}, as iterlab::{facts.op} would")
                    if part.title == "Loop"
                    else part
                    for part in parts
                ]
            found += parts
        if self.aten is not None:
            found.append(plan_sections.aten_section(self.aten))
        if self.measured is not None:
            traffic = None if facts is None else facts.bytes
            found.append(plan_sections.measured_section(self.measured, traffic))
        return tuple(found)

    def _plan_sections(self) -> list[Section]:
        entry, facts = self._callee.entry, self.twin_plan
        assert entry is not None and facts is not None
        inplace = self._callee.name.endswith("_")
        call = plan_sections.call_section(entry, self._args, self._out, inplace, facts)
        device = _device([*self._args, self._out])
        if isinstance(facts, ReductionPlan):
            return [call, *plan_sections.reduction_sections(entry, facts, device, self.launches)]
        found = plan_sections.plan_sections(entry, self._args, facts, device, self.launches)
        return [call, *found]

    @cached_property
    def advice_text(self) -> str:
        """What the caller could change and, after `run=True`, when it pays; "" where nothing."""
        if self.advice is None:
            return ""
        return f"{self.advice}{self._worth()}"

    def _worth(self) -> str:
        if self.measured is None or self.advice is None or self.twin_plan is None:
            return ""
        memory = self.measured.memory_seconds or self.measured.seconds
        saved = self.measured.seconds - memory
        if saved < 0.05 * self.measured.seconds:
            return ". It would save nothing: the call is as fast as memory allows"
        copy = memory * 2 * self.advice.bytes / max(self.twin_plan.bytes, 1)
        calls = max(1, math.ceil(copy / saved))
        return (
            f". It saves up to {time_text(saved)} a call: "
            f"worth it after about {calls} call{'s' if calls > 1 else ''}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Give everything as plain data, for JSON."""
        return {
            "schema": self.schema,
            "signature": vars(self.signature),
            "summary": self.summary,
            "dispatch": self.dispatch.to_dict(),
            "plan": None if self.plan is None else self.plan.to_dict(),
            "aten": None if self.aten is None else self.aten.to_dict(),
            "advice": None if self.advice is None else vars(self.advice),
            "launches": [launch.to_dict() for launch in self.launches],
            "measured": None if self.measured is None else self.measured.to_dict(),
            "sections": [
                {"title": section.title, "lines": section.lines, "table": section.table}
                for section in self.sections
            ],
        }

    def __rich__(self) -> RenderableType:
        parts: list[RenderableType] = [Text(self.schema, style="bold cyan")]
        for section in self.sections:
            parts += [Text(""), Text(section.title, style="bold")]
            parts += [Padding(part, (0, 0, 0, 2)) for part in rich_parts(section)]
        if self.advice_text:
            parts += [Text(""), marked(f"→ {self.advice_text}", "yellow")]
        return Group(*parts)

    def __str__(self) -> str:
        console = Console(file=StringIO(), width=120, color_system=None, force_terminal=False)
        console.print(self)
        assert isinstance(console.file, StringIO)
        return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())

    def __repr__(self) -> str:
        return f"<Explanation of {self.dispatch.op}: {self.summary}>"

    def _repr_html_(self) -> str:
        body = [f"<p class=schema>{escape(self.schema)}</p>"]
        for section in self.sections:
            body += [f"<h3>{escape(section.title)}</h3>", *html_parts(section)]
        if self.advice_text:
            body.append(f"<p class=advice>→ {code_html(self.advice_text)}</p>")
        return f"<div class=iterlab-explain><style>{CSS}</style>{''.join(body)}</div>"

    def html_page(self) -> str:
        """Give a whole HTML page, which opens from disk."""
        return (
            "<!doctype html><html lang=en><head><meta charset=utf-8>"
            "<meta name=viewport content='width=device-width, initial-scale=1'>"
            f"<title>iterlab: {escape(self.dispatch.op)}</title></head>"
            "<body style='margin:2rem auto;max-width:72rem;padding:1rem;color-scheme:light dark'>"
            f"{self._repr_html_()}</body></html>\n"
        )


def _device(args: Sequence[Any]) -> str:
    kinds = {tensor.device.type for tensor in tensors_in(args)}
    return "cuda" if "cuda" in kinds else "cpu"


def _twin_plan(
    callee: Callee, args: Sequence[Any], kwargs: dict[str, Any]
) -> Plan | ReductionPlan | None:
    """Plan the call as iterlab's operator; an operator of torch may take what its twin does not."""
    if callee.entry is None:
        return None
    if callee.is_iterlab:
        return plan(callee.name, *args, **kwargs)
    try:
        return plan(callee.name, *args, **kwargs)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, IndexError):
        return None


def _repeatable(callee: Callee, args: Sequence[Any], kwargs: dict[str, Any]) -> partial[Any]:
    """Make a call that can run many times: an operand that is written is a copy of its own."""
    arguments = list(args)
    if callee.name.endswith("_") and isinstance(arguments[0], torch.Tensor):
        written = arguments[0]
        arguments[0] = torch.empty_strided(
            written.shape, written.stride(), dtype=written.dtype, device=written.device
        ).copy_(written)
    return partial(callee.overload, *arguments, **kwargs)


def explain(op: Op, *args: Any, run: bool = False, **kwargs: Any) -> Explanation:
    """Explain a call: every layer of the dispatcher that it meets, and the loop that it gets.

    `op` is a name ("add", "add_", "aten::mul.Tensor"), an operator of `torch.ops`, or a function of
    torch or iterlab; the other arguments are those of the call. Grad mode, inference mode,
    autocast, dispatch modes and torch.func transforms count as they are at this moment. Tensors on
    device "meta" do, so that a call of any size can be asked about.

    With `run=True` the call also runs, about twenty times, and is measured: `out` is written, an
    operand of an in-place operator is copied first. Without, nothing runs. Raises what
    `iterlab.plan` raises; ValueError for an unknown operator; with `run=True`, ValueError for
    operands without data.

    >>> print(iterlab.explain("add", x, y.t()))
    """
    callee = resolve(op, args, kwargs)
    layers = dispatch(callee.overload, args, kwargs)
    operands, inner = physical(args), kwargs
    plannable = True
    reduces = callee.entry is not None and callee.entry.kind == "reduction"
    if reduces and args and isinstance(args[0], torch.Tensor):
        found = physical_reduction(callee.overload, args, kwargs)
        plannable = found is not None
        operands, inner = found or (operands, kwargs)
    out = kwargs.get("out")
    more = {name: value for name, value in inner.items() if name != "out"}
    aten = advice = measured = None
    launches: tuple[Launch, ...] = ()
    with undisturbed():
        facts = _twin_plan(callee, operands, inner) if plannable else None
        if isinstance(facts, Plan) and callee.entry is not None:
            aten = predict(callee.entry, operands, out, more, facts, _device(operands))
            names = list(callee.entry.inputs)
            advice = advise(callee.name, names, operands, out, more, facts)
        elif isinstance(facts, ReductionPlan) and callee.entry is not None:
            aten = predict_reduction(callee.entry, operands, more, facts, _device(operands))
        if callee.is_iterlab and facts is not None and not facts.resizes_output:
            launches = launches_of(callee.overload, operands, inner)
    if run:
        if any(tensor.is_meta for tensor in tensors_in([*args, out])):
            raise ValueError(
                "iterlab: expected operands with data to run the call, got meta tensors"
            )
        traffic = None if facts is None else facts.bytes
        measured = measure(_repeatable(callee, args, kwargs), _device(args), traffic)
    return Explanation(callee, operands, kwargs, layers, facts, aten, advice, launches, measured)
