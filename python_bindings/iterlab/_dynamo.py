"""Tells Dynamo which dispatcher operator each function of iterlab is, once Dynamo is imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

Function = Callable[..., Any]


def _traceable(name: str) -> Function:
    operator = getattr(torch.ops.iterlab, name)
    outs: dict[int, list[str]] = {}  # the names of outputs, by how many they are
    for which in operator.overloads():
        arguments = getattr(operator, which)._schema.arguments
        names = [one.name for one in arguments if one.kwarg_only and one.alias_info is not None]
        outs.setdefault(len(names), names)

    def call(*args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        if isinstance(out, (tuple, list)):
            kwargs.update(zip(outs[len(out)], out, strict=True))
        elif out is not None:
            kwargs["out"] = out
        return operator(*args, **kwargs)

    call.__name__ = name
    return call


def _substitute(functions: Mapping[str, Function]) -> None:
    for name, function in functions.items():
        substitute = torch.compiler.substitute_in_graph(function, skip_signature_check=True)
        substitute(_traceable(name))


class _Watcher(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Runs `then` after the first import of one module, and goes."""

    def __init__(self, module: str, then: Callable[[], None]) -> None:
        self.module = module
        self.then = then
        self.loader: importlib.abc.Loader | None = None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.module:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None:
            self.loader, spec.loader = spec.loader, self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType | None:
        assert self.loader is not None
        return self.loader.create_module(spec)

    def exec_module(self, module: types.ModuleType) -> None:
        assert self.loader is not None
        assert module.__spec__ is not None
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        self.then()


def register(functions: Mapping[str, Function]) -> None:
    """Make Dynamo trace each function as its operator.

    Importing Dynamo takes a second or two, so it waits until someone does, as `torch.compile`
    does.
    """
    if "torch._dynamo" in sys.modules:
        _substitute(functions)
    else:
        sys.meta_path.insert(0, _Watcher("torch._dynamo", lambda: _substitute(functions)))
