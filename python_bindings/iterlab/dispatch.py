"""The dispatch of a call: which of the dispatcher's layers it meets, in order, and what each does.

The dispatcher merges the key sets of the arguments with the thread's included and excluded keys
(TLS), and walks the result from the highest key to the lowest. What is read here is the
dispatcher's own state and its own table of kernels; nothing runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch._C import DispatchKey

from iterlab.layers import Context, functorch_text, is_backend, purpose, refusal, skipped

Keys = tuple[str, ...]

_FRONT, _BACK = "FuncTorchDynamicLayerFrontMode", "FuncTorchDynamicLayerBackMode"
_BATCHED, _WRAPPER = "FuncTorchBatched", "FuncTorchGradWrapper"

# The states of a layer in which the call fails.
FAILING = ("no kernel", "raises")


@dataclass(frozen=True)
class Layer:
    """One key that the call meets.

    `state` is "runs" (it has a kernel), "falls through", "skipped" (the thread excludes the key),
    "not reached" (a layer above answers the call, or it fails there), or where the call fails,
    "no kernel" and "raises". `kernel` says who registered it, as the dispatcher prints it.
    """

    key: str
    state: str
    kernel: str
    what: str


@dataclass(frozen=True)
class Dispatch:
    """How the dispatcher treats one call, in the contexts that are active now.

    `operands` gives each tensor's key set, highest first; `key_set` is what dispatch starts from.
    """

    op: str
    operands: tuple[tuple[str, Keys], ...]
    included: Keys
    excluded: Keys
    key_set: Keys
    layers: tuple[Layer, ...]

    @property
    def runs(self) -> Keys:
        """The keys whose kernels run, in call order."""
        return tuple(layer.key for layer in self.layers if layer.state == "runs")

    @property
    def failure(self) -> str:
        """Where and why the call fails, "" where it does not."""
        failing = (layer for layer in self.layers if layer.state in FAILING)
        return next((f"{layer.what} ({layer.key})" for layer in failing), "")

    def to_dict(self) -> dict[str, Any]:
        """Give the dispatch as plain data, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class Signature:
    """What an operator promises: its schema, the arguments that it writes or aliases, its tags."""

    name: str
    overload: str
    schema: str
    aliases: tuple[str, ...]
    tags: tuple[str, ...]


def signature(overload: torch._ops.OpOverload[..., Any]) -> Signature:
    """Read an overload's schema, alias annotations and tags."""
    schema = overload._schema
    aliases = [
        f"{'writes' if argument.alias_info.is_write else 'aliases'} `{argument.name}`"
        for argument in schema.arguments
        if argument.alias_info is not None
    ]
    aliases += [
        f"returns an alias of {_aliased(schema, result)}"
        for result in schema.returns
        if result.alias_info is not None
    ]
    tags = sorted(str(tag).removeprefix("Tag.") for tag in overload.tags)
    return Signature(
        schema.name, schema.overload_name or "default", str(schema), tuple(aliases), tuple(tags)
    )


def _aliased(schema: Any, result: Any) -> str:
    names = [
        f"`{argument.name}`"
        for argument in schema.arguments
        if argument.alias_info is not None
        and argument.alias_info.before_set & result.alias_info.before_set
    ]
    return ", ".join(names) or "an argument"


def _bits(keys: torch._C.DispatchKeySet) -> Iterator[tuple[str, int]]:
    """Give a key set's keys, highest first, each with its bit. Of several backends, dispatch sees
    one.
    """
    while (highest := keys.highestPriorityTypeId()) is not DispatchKey.Undefined:
        rest = keys.remove(highest)
        if rest.raw_repr() == keys.raw_repr():  # backends without a key of their own are left
            return
        yield torch._C._dispatch_key_name(highest), keys.raw_repr() ^ rest.raw_repr()
        keys = rest


def keys_of(keys: torch._C.DispatchKeySet) -> Keys:
    """Give the names of a key set's keys, highest first."""
    return tuple(name for name, _ in _bits(keys))


def _union(sets: Iterable[torch._C.DispatchKeySet]) -> torch._C.DispatchKeySet:
    merged = 0
    for one in sets:
        merged |= one.raw_repr()
    return torch._C.DispatchKeySet.from_raw_repr(merged)


def kernel_table(name: str) -> dict[str, str]:
    """Give the dispatcher's table of an overload, such as "aten::add.Tensor": for each key with a
    kernel, its origin and kind as the dispatcher prints them.
    """
    lines = torch._C._dispatch_dump_table(name).splitlines()
    return {key: text for key, _, text in (line.partition(": ") for line in lines)}


def _origin(text: str) -> str:
    """Shorten a table entry: paths of the machine that built torch say nothing."""
    short = re.sub(r"\S*/(\w+\.\w+):\d+", r"\1", text).removeprefix("fallthrough ")
    return re.sub(r"^registered (?:at|by) ", "", short)


def tensors_in(args: Iterable[Any]) -> Iterator[torch.Tensor]:
    """Give the tensors among arguments, those in lists too."""
    for argument in args:
        if isinstance(argument, torch.Tensor):
            yield argument
        elif isinstance(argument, list | tuple):
            yield from tensors_in(argument)


def _merged(tensors: Iterable[torch.Tensor]) -> torch._C.DispatchKeySet:
    return _union(torch._C._dispatch_keys(tensor) for tensor in tensors)


class _Walk:
    """Follows one call down the layers."""

    def __init__(
        self,
        overload: torch._ops.OpOverload[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
    ) -> None:
        self.overload = overload
        self.args, self.kwargs = args, kwargs
        self.tensors = tuple(tensors_in([*args, *kwargs.values()]))
        self.table = kernel_table(qualified_name(overload))
        self.answered = ""  # why the call goes no further; "" where it does

    def layer(self, key: str, context: Context) -> Layer:
        text = self.table.get(key)
        if text is None:
            return Layer(key, "no kernel", "", "the call fails: NotImplementedError")
        if text.startswith("fallthrough"):
            return Layer(key, "falls through", _origin(text), "")
        if refused := refusal(key, text, context):
            return Layer(key, "raises", _origin(text), f"the call fails: {refused}")
        return Layer(key, "runs", _origin(text), purpose(key, text, context))

    def replaces_writes(self, transform: str) -> bool:
        """Whether the call ends in a transform, which calls the operator without writes instead."""
        functional = any(map(torch._is_functional_tensor, self.tensors))
        return transform == "functionalize" and self.overload._schema.is_mutable and functional

    def functorch(self) -> Iterator[Layer]:
        """Go through the transforms of torch.func, innermost first; unwraps the tensors."""
        functorch = torch._C._functorch
        for interpreter in reversed(functorch.get_interpreter_stack() or []):
            transform, level = interpreter.key().name.lower(), interpreter.level()
            yield Layer(
                _FRONT, "runs", _origin(self.table[_FRONT]), functorch_text(transform, level)
            )
            yield from self.transform(transform, level)
            if self.replaces_writes(transform):
                self.answered = "the operator without writes is called in its place"
            rest = "the transform is done; its tensors are unwrapped"
            state = "not reached" if self.answered else "runs"
            yield Layer(_BACK, state, _origin(self.table[_BACK]), self.answered or rest)
            self.tensors = tuple(
                functorch.get_unwrapped(tensor)
                if functorch.maybe_get_level(tensor) == level
                else tensor
                for tensor in self.tensors
            )

    def transform(self, transform: str, level: int) -> Iterator[Layer]:
        functorch = torch._C._functorch
        mine = [one for one in self.tensors if functorch.maybe_get_level(one) == level]
        if transform == "vmap":
            keys: Keys = (_BATCHED,) if any(map(functorch.is_batchedtensor, mine)) else ()
        elif transform == "functionalize":
            keys = ("Functionalize",)
        else:
            keys = tuple(
                key
                for key in keys_of(_merged(self.tensors))
                if key.startswith("Autograd") or key == "ADInplaceOrView"
            )
        context = Context(self.overload, tuple(mine), level)
        yield from (self.layer(key, context) for key in keys)

    def plain(self, start: torch._C.DispatchKeySet, excluded: int) -> Iterator[Layer]:
        """Go down the keys of a call that no transform of torch.func is left around.

        `excluded` is the thread's excluded key set, as bits.
        """
        context = Context(self.overload, self.tensors, 0, self.args, self.kwargs)
        fake = context.fake_mode()
        for key, bit in _bits(start):
            if key in (_FRONT, _BACK, _BATCHED, _WRAPPER):
                continue
            layer = self.layer(key, context)
            if bit & excluded:
                layer = Layer(key, "skipped", layer.kernel, skipped(key))
            elif self.answered:
                layer = Layer(key, "not reached", layer.kernel, self.answered)
            yield layer
            if layer.state in FAILING:
                self.answered = "the call has failed"
            if layer.state != "runs":
                continue
            if key == "Python" and fake:
                yield self.layer("Meta", context)
                self.answered = f"{fake} has answered"
            elif "[math kernel]" in layer.kernel:
                self.answered = "what it unfolds into is dispatched on its own"
            elif is_backend(key):
                self.answered = f"the {key} kernel gives the result"


def qualified_name(overload: torch._ops.OpOverload[..., Any]) -> str:
    """Give the dispatcher's name of an overload: "aten::add.Tensor", "iterlab::add"."""
    schema = overload._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def dispatch(
    overload: torch._ops.OpOverload[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> Dispatch:
    """Say which layers a call of `overload` meets now, without running it.

    Grad mode, inference mode, autocast, dispatch modes and torch.func transforms count as they are
    at this moment. `args` and `kwargs` are the arguments of the call; what is no tensor does not
    matter.
    """
    names = [argument.name for argument in overload._schema.arguments]
    named = [*zip(names, args, strict=False), *kwargs.items()]
    operands = tuple(
        (name, keys_of(torch._C._dispatch_keys(value)))
        for name, value in named
        if isinstance(value, torch.Tensor)
    )
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set()
    walk = _Walk(overload, args, kwargs)
    start = _union([_merged(walk.tensors), included])
    key_set = tuple(key for key, bit in _bits(start) if not bit & excluded.raw_repr())
    layers = [*walk.functorch()]
    layers += walk.plain(_union([_merged(walk.tensors), included]), excluded.raw_repr())
    return Dispatch(
        qualified_name(overload),
        operands,
        keys_of(included),
        # Keys of one backend each are excluded for all backends: named for those of the operands.
        keys_of(_union([excluded, _backends(walk.tensors)])),
        key_set,
        tuple(layers),
    )


def _backends(tensors: Iterable[torch.Tensor]) -> torch._C.DispatchKeySet:
    merged = _merged(tensors)
    every_key = 0
    for _, bit in _bits(merged):
        every_key |= bit
    return torch._C.DispatchKeySet.from_raw_repr(merged.raw_repr() & ~every_key)
