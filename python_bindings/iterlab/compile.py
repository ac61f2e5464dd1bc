"""Fusion under torch.compile: opt-in decompositions of iterlab's operators into ATen's.

By default an operator is opaque to Inductor, which calls iterlab's kernel. With fusion, Inductor
generates one kernel for a chain of operators, and iterlab's kernels do not run there; the numerics
are Inductor's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

from iterlab.table import OpEntry, op_table

_TAG = "iterlab-fusion"


def _twin(entry: OpEntry) -> Callable[..., Any] | None:
    if entry.promotion == "to_argument":
        return lambda input, dtype: input.to(dtype, copy=True)
    if entry.torch_name is None:
        return None
    try:
        return operator.attrgetter(entry.torch_name)(torch)  # type: ignore[no-any-return]
    except AttributeError:
        return None


def _without_defaults(
    overload: torch._ops.OpOverload, twin: Callable[..., Any]
) -> Callable[..., Any]:
    """Call `twin` with what differs from the defaults: it may lack an argument that iterlab has."""
    arguments = overload._schema.arguments

    def call(*args: Any, **kwargs: Any) -> Any:
        given = dict(zip((a.name for a in arguments), args, strict=False)) | kwargs
        positional, named = [], {}
        for argument in arguments:
            if argument.name not in given:
                continue
            value = given[argument.name]
            if not argument.has_default_value():
                positional.append(value)
            elif value != argument.default_value:
                named[argument.name] = value
        return twin(*positional, **named)

    return call


@cache
def _table() -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    table = {}
    for entry in op_table():
        twin = _twin(entry)
        if twin is None:
            continue
        packet = getattr(torch.ops.iterlab, entry.name)
        for name in packet.overloads():
            overload = getattr(packet, name)
            if not overload._schema.is_mutable:
                table[overload] = _without_defaults(overload, twin)
    return table


def decomposition_table() -> dict[torch._ops.OpOverload, Callable[..., Any]]:
    """Give, for each functional overload with a twin in torch, a function that calls the twin.

    >>> exported.run_decompositions(iterlab.compile.decomposition_table())
    """
    return dict(_table())


def _inductor() -> Any:
    import torch._inductor.decomposition as decomposition

    return decomposition


def _changed(decomposition: Any, tags: set[str]) -> None:
    """Forget what Inductor derived from its table, and what was compiled.

    The tag keeps code of the other kind out of its caches on disk.
    """
    derived = getattr(decomposition, "fast_random_decomps", None)
    if derived is not None and hasattr(derived, "cache_clear"):
        derived.cache_clear()
    if hasattr(torch.compiler.config, "cache_key_tag"):
        torch.compiler.config.cache_key_tag = " ".join(sorted(tags))
    torch._dynamo.reset()


def _tags() -> set[str]:
    return set(getattr(torch.compiler.config, "cache_key_tag", "").split())


def enable_fusion() -> None:
    """Let Inductor fuse iterlab's operators, in this process, from the next compilation on.

    What has been compiled is forgotten.
    """
    decomposition = _inductor()
    decomposition.decompositions.update(_table())
    _changed(decomposition, _tags() | {_TAG})


def disable_fusion() -> None:
    """Make the operators opaque again."""
    decomposition = _inductor()
    for overload in _table():
        decomposition.decompositions.pop(overload, None)
    _changed(decomposition, _tags() - {_TAG})
