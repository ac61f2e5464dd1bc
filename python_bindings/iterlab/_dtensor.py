"""How iterlab's operators run on the shards of DTensors. It imports torch.distributed.tensor."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard
from torch.distributed.tensor._op_schema import OpSchema, OpStrategy, RuntimeSchemaInfo
from torch.distributed.tensor._ops.utils import expand_to_full_mesh_op_strategy
from torch.distributed.tensor.placement_types import _StridedShard

from iterlab._subclasses import overloads

# A rule says how a call runs along one dim of the mesh: the placements of its results, then those
# of its tensors, among them `out`. That everything may be replicated goes without saying.
Rule = list[Placement | None]
# What makes a shard of a given dim: plainly, or as the operands are sharded.
Sharding = Callable[[int], Placement]

# The operators that can add up later: those linear in all their tensors at once, and those in one.
_ADDITIVE = {"add", "sub", "rsub", "neg"}
_MULTIPLICATIVE = {"mul"}

# How the results of the shards of a reduced dim combine.
_COMBINED = {
    "sum": "sum",
    "nansum": "sum",
    "count_nonzero": "sum",
    "prod": "product",
    "any": "max",
    "all": "min",
    "mean": "avg",
    "amax": "max",
    "amin": "min",
    "max": "max",
    "min": "min",
}
# Of those, what cannot do with a shard of no elements, or counts shards alike.
_EVEN_SHARDS = {"mean", "amax", "amin", "max", "min"}
# Of those, what gives the same whether tensors are combined before it or its results afterwards.
_COMMUTES = {"sum", "prod", "mean", "amax", "amin", "max", "min"}


class _Call:
    """A call as DTensor describes it: the operator, its tensors' strategies, and its arguments."""

    def __init__(self, schema: OpSchema) -> None:
        self.op = schema.op
        names = (argument.name for argument in self.op._schema.arguments)
        self.given: dict[str, Any] = dict(zip(names, schema.args_schema, strict=False))
        self.operands = [one for one in schema.args_schema if isinstance(one, OpStrategy)]
        self.out = [one for one in schema.kwargs_schema.values() if isinstance(one, OpStrategy)]
        self.given |= schema.kwargs_schema
        self.numbers = len(self.operands) < len(schema.args_schema)
        self.outputs = len(self.op._schema.returns)
        self.name = self.op._schema.name.removeprefix("iterlab::").removesuffix("_")

    def rule(self, output: Placement, operands: Sequence[Placement]) -> Rule:
        return [*[output] * self.outputs, *operands, *[output] * len(self.out)]

    def shardings(self) -> list[Sharding]:
        """The kinds of shards among the tensors, in an order that is the same on every rank."""
        factors = dict.fromkeys(
            placement.split_factor if isinstance(placement, _StridedShard) else None
            for tensor in self.operands + self.out
            for placement in tensor.strategies[0].output_spec.placements
            if isinstance(placement, Shard | _StridedShard)
        )
        return [
            Shard if factor is None else partial(_StridedShard, split_factor=factor)
            for factor in factors
        ]


def _elementwise(call: _Call) -> list[Rule]:
    """A dim of the result is sharded as it is in every operand that is not broadcast along it."""
    shapes = [operand.shape for operand in call.operands]
    whole = torch.broadcast_shapes(*shapes)  # type: ignore[no-untyped-call]

    def place(shape: torch.Size, dim: int, shard: Sharding) -> Placement:
        own = dim - len(whole) + len(shape)
        return shard(own) if own >= 0 and shape[own] == whole[dim] else Replicate()

    rules = [
        call.rule(shard(dim), [place(shape, dim, shard) for shape in shapes])
        for shard in call.shardings()
        for dim in range(len(whole))
    ]
    count = len(shapes)
    if call.name in _ADDITIVE and not call.numbers:
        rules.append(call.rule(Partial(), [Partial()] * count))
    if call.name in _MULTIPLICATIVE:
        for i in range(count):
            rules.append(
                call.rule(Partial(), [Partial() if i == k else Replicate() for k in range(count)])
            )
    return rules


def _reduced_dims(call: _Call, rank: int) -> set[int] | None:
    """The dims that are reduced. None where that depends on the operator: no dims may be all."""
    dims = call.given.get("dim")
    if dims is None:
        return set(range(rank))
    dims = [dims] if isinstance(dims, int) else dims
    return {dim % rank for dim in dims if rank} if dims else None


def _reduction(call: _Call) -> list[Rule]:
    """A kept dim is sharded as in the input; what shards of a reduced one give is combined."""
    [tensor] = call.operands
    reduced = _reduced_dims(call, len(tensor.shape))
    if reduced is None:
        return []
    keepdim = call.given.get("keepdim", False)
    combines = call.name in _COMBINED and call.outputs == 1  # not max.dim, whose places do not
    combined = Partial(_COMBINED[call.name]) if combines else None
    rules = []
    for shard in call.shardings():
        for dim, size in enumerate(tensor.shape):
            if dim not in reduced:
                dropped = 0 if keepdim else sum(one < dim for one in reduced)
                rules.append(call.rule(shard(dim - dropped), [shard(dim)]))
            elif combined and (call.name not in _EVEN_SHARDS or size % tensor.mesh.size() == 0):
                rules.append(call.rule(combined, [shard(dim)]))
    if combined and call.name in _COMMUTES and call.given.get("dtype") is None:
        rules.append(call.rule(combined, [combined]))
    return rules


# Without it, a tensor of fewer elements than there are shards is gathered first.
_UNEVEN = (
    {"allow_uneven_sharding": True}
    if "allow_uneven_sharding" in inspect.signature(expand_to_full_mesh_op_strategy).parameters
    else {}
)


def _strategy(rules: Callable[[_Call], list[Rule]], schema: OpSchema) -> Any:
    call = _Call(schema)
    replicated = call.rule(Replicate(), [Replicate()] * len(call.operands))
    return expand_to_full_mesh_op_strategy(
        schema.get_mesh_from_args(),
        schema,
        [replicated, *rules(call)],
        input_index=call.outputs,
        inplace_op=schema.is_inplace_op(),
        **_UNEVEN,  # type: ignore[arg-type]
    )


def register() -> None:
    """Register a strategy for every overload of an elementwise operator or a reduction.

    That is what `torch.distributed.tensor.experimental.register_sharding` does, which remembers a
    strategy without regard to lists of dims and to numbers, though both decide about the result.
    """
    propagator = DTensor._op_dispatcher.sharding_propagator
    for op in overloads():
        by_keyword = [one.name for one in op._schema.arguments if one.kwarg_only]
        propagator.register_op_strategy(
            op,
            partial(_strategy, _elementwise if torch.Tag.pointwise in op.tags else _reduction),
            RuntimeSchemaInfo(static_argnum=0, static_kwargkey=by_keyword),
        )
