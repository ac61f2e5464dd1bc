"""Runs functions after the first import of modules that take long to import."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence


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


def after_import(module: str, then: Callable[[], None]) -> None:
    """Run `then` now where `module` is imported already, else once someone has imported it."""
    if module in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Watcher(module, then))
