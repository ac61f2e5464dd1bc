"""Operators that are written from others: every overload under what the dispatcher's users do."""

from __future__ import annotations

import io
from typing import Any

import calls
import pytest
import torch

import iterlab
from iterlab.table import composite_table

pytestmark = [*calls.TORCH_WARNINGS, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

# Arguments of each functional overload; a tensor is in place of "x" and "y".
ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "clamp.default": ("x", "y"),
    "clamp.Scalar": ("x", 0.5, 1.0),
    "float_power.default": ("x", "y"),
    "float_power.Scalar_exponent": ("x", 2.5),
    "float_power.Scalar_input": (2.0, "x"),
    "contiguous.default": ("x",),
    "polygamma.default": (1, "x"),
    "prelu.default": ("x", "channels"),
    "frexp.default": ("x",),
}
PACKETS = {
    name: getattr(torch.ops.iterlab, name)
    for entry in composite_table()
    for name in (entry.name, entry.name + "_")
    if name == entry.name or "inplace" in entry.variants
}
OVERLOADS = {
    f"{name}.{which}": getattr(packet, which)
    for name, packet in PACKETS.items()
    for which in packet.overloads()
}


def tensors(grad: bool, device: str) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(4)
    shapes = {"x": (3, 4), "y": (3, 4), "channels": (4,)}
    made = {
        name: torch.rand(shape, generator=generator, dtype=torch.float64).to(device) + 0.5
        for name, shape in shapes.items()
    }
    return {name: tensor.requires_grad_(grad) for name, tensor in made.items()}


def functional_of(full_name: str) -> str:
    """The functional overload that takes the same arguments: "clamp.Scalar" of "clamp_.Scalar"."""
    name, which = full_name.split(".")
    which = which.removesuffix("out").removesuffix("_") or "default"
    return f"{name.removesuffix('_')}.{which}"


def arguments(
    full_name: str, grad: bool = False, device: str = "cpu"
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments of any overload; outputs among them, by keyword, have the result's shape."""
    given = tensors(grad, device)
    args = [
        given.get(a, a) if isinstance(a, str) else a for a in ARGUMENTS[functional_of(full_name)]
    ]
    schema = OVERLOADS[full_name]._schema
    first = schema.arguments[0].name
    if schema.name.endswith("_") and first == "input" and not isinstance(args[0], torch.Tensor):
        args.reverse()  # polygamma_ takes what it writes first
    outs = [a.name for a in schema.arguments if a.kwarg_only and a.alias_info is not None]
    if not outs:
        return args, {}
    plain = [a.detach() if isinstance(a, torch.Tensor) else a for a in args]
    results = calls.outputs_of(OVERLOADS[functional_of(full_name)](*plain))
    return args, {n: torch.empty_like(r) for n, r in zip(outs, results, strict=True)}


def test_every_overload_has_arguments() -> None:
    assert {functional_of(name) for name in OVERLOADS} == set(ARGUMENTS)


@pytest.mark.parametrize("full_name", OVERLOADS)
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # opcheck asks for it
def test_opcheck(full_name: str, device: str) -> None:
    functional = functional_of(full_name) == full_name
    args, kwargs = arguments(full_name, grad=functional, device=device)
    results = torch.library.opcheck(OVERLOADS[full_name], args, kwargs)
    assert set(results.values()) == {"SUCCESS"}, results


@pytest.mark.parametrize("full_name", OVERLOADS)
def test_variants_agree(full_name: str, device: str) -> None:
    """Through the package's functions and the dispatcher, eager and compiled."""
    args, kwargs = arguments(full_name, device=device)
    want = OVERLOADS[functional_of(full_name)](
        *arguments(functional_of(full_name), device=device)[0]
    )
    name = full_name.split(".")[0]
    outs = list(kwargs.values())
    named = {} if not outs else {"out": outs[0] if len(outs) == 1 else tuple(outs)}

    def function(*values: Any) -> Any:
        return getattr(iterlab, name)(*values, **named)

    for run in (function, torch.compile(function, fullgraph=True, backend="aot_eager")):
        torch._dynamo.reset()
        values = [a.clone() if isinstance(a, torch.Tensor) else a for a in args]
        got = run(*values)
        for mine, theirs in zip(calls.outputs_of(got), calls.outputs_of(want), strict=True):
            calls.assert_bitwise(mine, theirs, full_name)
        for mine, theirs in zip(outs, calls.outputs_of(want), strict=bool(outs)):
            calls.assert_bitwise(mine, theirs, full_name)


FUNCTIONAL = [name for name in OVERLOADS if functional_of(name) == name]


@pytest.mark.parametrize("full_name", FUNCTIONAL)
def test_export_round_trip(full_name: str, device: str) -> None:
    args, _ = arguments(full_name, device=device)
    places = [i for i, a in enumerate(args) if isinstance(a, torch.Tensor)]

    class Module(torch.nn.Module):
        def forward(self, *values: torch.Tensor) -> Any:
            filled = list(args)
            for place, value in zip(places, values, strict=True):
                filled[place] = value
            return OVERLOADS[full_name](*filled)

    given = tuple(args[i] for i in places)
    buffer = io.BytesIO()
    torch.export.save(torch.export.export(Module(), given), buffer)
    buffer.seek(0)
    got = torch.export.load(buffer).module()(*given)
    for mine, theirs in zip(calls.outputs_of(got), calls.outputs_of(Module()(*given)), strict=True):
        calls.assert_bitwise(mine, theirs, full_name)


@pytest.mark.parametrize("full_name", [n for n in FUNCTIONAL if "contiguous" not in n])
def test_jagged_nested_tensors(full_name: str) -> None:
    args, _ = arguments(full_name)
    if full_name.startswith("prelu"):
        args[1] = args[1][:1]  # the channels of a jagged tensor are those of no one dim
    offsets = torch.tensor([0, 1, 3])
    nested, shared = list(args), None
    for i, value in enumerate(args):
        if not isinstance(value, torch.Tensor) or value.dim() != 2:
            continue
        made = torch.nested.nested_tensor_from_jagged(value, offsets if shared is None else shared)
        shared = made.offsets()
        nested[i] = made
    got = OVERLOADS[full_name](*nested)
    want = OVERLOADS[full_name](*args)
    for mine, theirs in zip(calls.outputs_of(got), calls.outputs_of(want), strict=True):
        assert mine.is_nested
        torch.testing.assert_close(mine.values(), theirs)
