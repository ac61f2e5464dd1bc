"""Tells Dynamo that it may trace iterlab's functions, once Dynamo is imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

Function = Callable[..., Any]


def _allow(functions: Iterable[Function]) -> None:
    for function in functions:
        torch.compiler.allow_in_graph(function)  # type: ignore[no-untyped-call]


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


def register(functions: Iterable[Function]) -> None:
    """Make Dynamo put calls of each function into its graph as they are.

    So a compiled call is parsed as an eager one is; the tracers below Dynamo see the dispatcher's
    operator. Importing Dynamo takes a second or two, so it waits until someone does, as
    `torch.compile` does.
    """
    if "torch._dynamo" in sys.modules:
        _allow(functions)
    else:
        sys.meta_path.insert(0, _Watcher("torch._dynamo", lambda: _allow(functions)))
