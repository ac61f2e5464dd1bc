"""A few plain calls of every operator of the table, for tests of what surrounds its numbers."""

from __future__ import annotations

from typing import Any

import calls
import torch

import iterlab
from iterlab import OpEntry

TABLE = iterlab.op_table()


def operands(
    entry: OpEntry, shape: tuple[int, ...] = (4, 3), device: str = "cpu"
) -> list[torch.Tensor]:
    """Tensors of one shape, on which the operator is defined."""
    count = torch.Size(shape).numel()
    draws = calls.draws_of(entry, [calls.usual_dtype(entry)], device)
    return [
        draw(1)[0] if entry.number_inputs >> i & 1 else draw(count).view(shape)
        for i, draw in enumerate(draws)
    ]


def required(entry: OpEntry) -> dict[str, Any]:
    """The arguments that are not tensors and have no default."""
    return calls.parameter_sets(entry)[0]


def call(entry: OpEntry, values: list[Any], inplace: bool = False, **more: Any) -> Any:
    """Call the operator with the arguments that it must have."""
    return calls.invoke(calls.function(entry, inplace), entry, values, required(entry), **more)


def is_differentiable(entry: OpEntry) -> bool:
    """Whether gradients flow: the result's node is not one that refuses."""
    if calls.usual_dtype(entry) != torch.float32:
        return False
    inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in operands(entry)]
    nodes = [x.grad_fn for x in calls.outputs_of(call(entry, inputs)) if x.grad_fn is not None]
    return any(not node.name().endswith("NotImplemented") for node in nodes)
