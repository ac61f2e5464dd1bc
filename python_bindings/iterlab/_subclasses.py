"""Tells PyTorch's tensor subclasses about iterlab's operators, once someone imports them."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import suppress

import torch

from iterlab._after_import import after_import
from iterlab.table import op_table


def overloads() -> Iterator[torch._ops.OpOverload]:
    """Give every overload that has kernels; what is composed reaches a subclass as its parts."""
    composite = torch._C.DispatchKey.CompositeImplicitAutograd
    for name in dict.fromkeys(entry.name for entry in op_table()):
        for spelling in (name, f"{name}_"):
            packet = getattr(torch.ops.iterlab, spelling, None)
            for overload in [] if packet is None else packet.overloads():
                op = getattr(packet, overload)
                if not torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), composite):
                    yield op


def _register(rules: str) -> None:
    with suppress(ImportError, AttributeError):  # a torch whose internals have other names
        importlib.import_module(f"iterlab.{rules}").register()


def register() -> None:
    """Give DTensors, jagged nested tensors and masked tensors their rules."""
    after_import("torch.distributed.tensor", lambda: _register("_dtensor"))
    after_import("torch.nested._internal.ops", lambda: _register("_jagged"))
    after_import("torch.masked.maskedtensor._ops_refs", lambda: _register("_masked"))
