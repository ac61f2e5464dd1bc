"""Explains a call: the layers it meets, its plan in words, what the caller could change."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, partial
from html import escape
from io import StringIO
from typing import Any

import torch
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.text import Text
from torch.utils._pytree import tree_map

from iterlab import plan_sections, reasons
from iterlab.advice import Advice, advise
from iterlab.aten_loop import AtenLoop, predict
from iterlab.aten_reduce import predict_reduction
from iterlab.callee import Callee, Op, Overload, resolve
from iterlab.dispatch import Dispatch, dispatch, qualified_name, signature, tensors_in
from iterlab.launches import Launch, launches_of
from iterlab.measured import Measured, measure
from iterlab.physical import outside_graphs, physical, physical_reduction, undisturbed
from iterlab.planning import Plan, ReductionPlan, has_strides, plan, rehearse, unfold
from iterlab.sections import CSS, Section, code_html, html_parts, marked, rich_parts
from iterlab.units import time_text

# Attributes that an explanation loses where it is pickled: what it says is made by then.
_OF_THE_PROCESS = ("_callee", "_args", "_kwargs", "_calls")


@dataclass(frozen=True)
class InnerCall:
    """A call that an operator makes which is written from others; its plan where it is one of
    iterlab's.
    """

    name: str
    plan: Plan | ReductionPlan | None

    def to_dict(self) -> dict[str, Any]:
        """Give the call as plain data, for JSON."""
        return asdict(self)


Planned = tuple[Callee, Sequence[Any], "Plan | ReductionPlan | None"]


class Explanation:
    """What a call does and why.

    `.dispatch` has the layers in call order. `.plan` is the object that the kernel would get; of an
    operator of torch it is None, `.twin_plan` says what iterlab's operator would do, and `.aten`
    predicts ATen's iterator. `.calls` has the operators that one calls which is written from
    others, each with its plan. `.launches` has what one of iterlab's operators launches on a GPU.
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
        calls: Sequence[Planned],
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
        self.calls = tuple(
            InnerCall(inner.overload._schema.name, found) for inner, _, found in calls
        )
        self.aten = aten
        self.advice = advice
        self.launches = tuple(launches)
        self.measured = measured
        self._callee = callee
        self._args = tuple(args)
        self._kwargs = kwargs
        self._calls = tuple(calls)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle what it says, as data: operators and operands stay in the process."""
        _ = self.sections  # made of those, at the first look
        return {name: one for name, one in vars(self).items() if name not in _OF_THE_PROCESS}

    @cached_property
    def summary(self) -> str:
        """The path and its reason in one line, or why the call fails."""
        if self.dispatch.failure:
            return self.dispatch.failure
        if self.plan is not None:
            return reasons.summary(self.plan)
        if self.aten is not None:
            return f"probably {self.aten.loop}: {self.aten.why}"
        if self.calls:
            return f"calls {', '.join(one.name for one in self.calls)}"
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
        facts = self.twin_plan
        if facts is not None:
            parts = _plan_sections(self._callee, self._args, self._kwargs, facts, self.launches)
            if not self._callee.is_iterlab:
                parts = [
                    replace(part, title=f"{part.title}, as iterlab::{facts.op} would")
                    if part.title == "Loop"
                    else part
                    for part in parts
                ]
            found += parts
        if self.calls:
            found.append(plan_sections.calls_section((one.name, one.plan) for one in self.calls))
        for callee, args, inner in self._calls:
            if inner is not None:
                name = callee.overload._schema.name
                parts = _plan_sections(callee, args, {}, inner, ())
                found += [replace(part, title=f"{part.title} of {name}") for part in parts]
        if self.aten is not None:
            found.append(plan_sections.aten_section(self.aten))
        if self.measured is not None:
            traffic = None if facts is None else facts.bytes
            found.append(plan_sections.measured_section(self.measured, traffic))
        return tuple(found)

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
            "calls": [one.to_dict() for one in self.calls],
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


def _plan_sections(
    callee: Callee,
    args: Sequence[Any],
    kwargs: dict[str, Any],
    facts: Plan | ReductionPlan,
    launches: Sequence[Launch],
) -> list[Section]:
    assert callee.entry is not None
    outs = {one.name: kwargs[one.name] for one in callee.overload._schema.arguments if one.is_out}
    inplace = callee.name.endswith("_")
    call = plan_sections.call_section(callee.entry, args, outs, inplace, facts)
    device = _device([*args, *outs.values()])
    if isinstance(facts, ReductionPlan):
        return [call, *plan_sections.reduction_sections(callee.entry, facts, device, launches)]
    return [call, *plan_sections.plan_sections(callee.entry, args, facts, device, launches)]


def _inner_calls(overload: Overload, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Planned]:
    """Give the calls of an operator that is written from others; none where what it calls depends
    on values.
    """
    name, composite = qualified_name(overload), "CompositeImplicitAutograd"
    if not torch._C._dispatch_has_kernel_for_dispatch_key(name, composite):
        return []
    try:
        unfolded = unfold(overload, args, kwargs)
    except (RuntimeError, NotImplementedError):
        if overload.namespace == "iterlab":
            raise
        return []
    calls: list[Planned] = []
    for inner, operands, named in unfolded:
        callee, given, rest = resolve(inner, operands, named)
        facts = _twin_plan(callee, given, rest) if callee.is_iterlab else None
        calls.append((callee, given, facts))
    return calls


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


def _one_element(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.ones([1] * value.dim(), dtype=value.dtype)


def _no_element(value: Any) -> Any:
    return torch.empty(0, dtype=value.dtype) if isinstance(value, torch.Tensor) else value


def _check(callee: Callee, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raise what a call of one of torch's operators raises for its shapes and dtypes."""

    def refused(error: Exception) -> str:
        name = callee.overload._schema.name
        first, _, _ = str(error).partition("\n")
        return f"iterlab: {name} refuses the call: {first}"

    try:
        rehearse(callee.overload, args, kwargs)
    except NotImplementedError:
        return
    except (IndexError, ValueError, TypeError) as error:
        raise type(error)(refused(error)) from None
    except RuntimeError as error:
        raise RuntimeError(refused(error)) from None
    if callee.entry is None or callee.entry.kind == "reduction" or _device(args) != "cpu":
        return
    try:  # the Meta kernel takes dtypes that ATen's kernel does not: one element tells
        # What is named is an output, which is resized without a word where it is empty.
        callee.overload(*map(_one_element, args), **tree_map(_no_element, kwargs))
    except NotImplementedError as error:
        raise NotImplementedError(refused(error)) from None
    except (RuntimeError, IndexError):  # one element is not enough for the call
        return


def _repeatable(callee: Callee, args: Sequence[Any], kwargs: dict[str, Any]) -> partial[Any]:
    """Make a call that can run many times: an operand that is written is a copy of its own, and so
    is a generator of random numbers.
    """

    def own(value: Any) -> Any:
        return value.clone_state() if isinstance(value, torch.Generator) else value

    arguments = [own(value) for value in args]
    named = {name: own(value) for name, value in kwargs.items()}
    if callee.name.endswith("_") and isinstance(arguments[0], torch.Tensor):
        written = arguments[0]
        arguments[0] = torch.empty_strided(
            written.shape, written.stride(), dtype=written.dtype, device=written.device
        ).copy_(written)
    return partial(callee.overload, *arguments, **named)


@outside_graphs
def explain(op: Op, *args: Any, run: bool = False, **kwargs: Any) -> Explanation:
    """Explain a call: every layer of the dispatcher that it meets, and the loop that it gets.

    `op` is a name ("add", "add_", "aten::mul.Tensor"), an operator of `torch.ops`, or a function of
    torch or iterlab; the other arguments are those of the call. Grad mode, inference mode,
    autocast, dispatch modes and torch.func transforms count as they are at this moment. Tensors on
    device "meta" do, so that a call of any size can be asked about. Of tensors without strides,
    such as sparse ones, there is the dispatch alone.

    With `run=True` the call also runs, about twenty times, and is measured: `out` is written, an
    operand of an in-place operator is copied first, generators of random numbers stay as they are.
    Without, nothing runs on the operands. Raises what the call raises for its shapes and dtypes, as
    `iterlab.plan` does; ValueError for an unknown operator; with `run=True`, ValueError for
    operands without data. What autograd or the dispatcher refuses is part of the explanation, and
    with `run=True` a RuntimeError.

    >>> print(iterlab.explain("add", x, y.t()))
    """
    callee, given, kwargs = resolve(op, args, kwargs)
    layers = dispatch(callee.overload, given, kwargs)
    operands, inner = physical(given), kwargs
    plannable = all(map(has_strides, tensors_in([*operands, *kwargs.values()])))
    transformed = torch._C._functorch.peek_interpreter_stack() is not None
    reduces = callee.entry is not None and callee.entry.kind == "reduction"
    if plannable and reduces:
        found = physical_reduction(callee.overload, given, kwargs)
        plannable = found is not None
        operands, inner = found or (operands, kwargs)
    out = kwargs.get("out")
    more = {name: value for name, value in inner.items() if name != "out"}
    aten = advice = measured = None
    launches: tuple[Launch, ...] = ()
    calls: list[Planned] = []
    with undisturbed():
        facts = _twin_plan(callee, operands, inner) if plannable else None
        if plannable and not transformed and not callee.is_iterlab:
            _check(callee, operands, inner)
        if callee.entry is None and plannable and not transformed:
            calls = _inner_calls(callee.overload, operands, inner)
        if isinstance(facts, Plan) and callee.entry is not None:
            aten = predict(callee.entry, operands, out, more, facts, _device(operands))
            names = list(callee.entry.inputs)
            advice = advise(callee.name, names, operands, out, more, facts)
        elif isinstance(facts, ReductionPlan) and callee.entry is not None:
            aten = predict_reduction(callee.entry, operands, more, facts, _device(operands))
        if callee.is_iterlab and facts is not None and not facts.resizes_output:
            launches = launches_of(callee.overload, operands, inner)
    if run:
        if any(tensor.is_meta for tensor in tensors_in([*given, out])):
            raise ValueError(
                "iterlab: expected operands with data to run the call, got meta tensors"
            )
        if layers.failure:
            raise RuntimeError(f"iterlab: {layers.failure}")
        traffic = None if facts is None else facts.bytes
        device = _device(given)
        devices = [torch.cuda.current_device()] if device == "cuda" else []
        with torch.random.fork_rng(devices):
            measured = measure(_repeatable(callee, given, kwargs), device, traffic)
    return Explanation(
        callee, operands, kwargs, layers, facts, calls, aten, advice, launches, measured
    )
