"""Tells Dynamo that it may trace iterlab's functions, once Dynamo is imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from iterlab._after_import import after_import

Function = Callable[..., Any]


def _allow(functions: Iterable[Function]) -> None:
    for function in functions:
        torch.compiler.allow_in_graph(function)  # type: ignore[no-untyped-call]


def register(functions: Iterable[Function]) -> None:
    """Make Dynamo put calls of each function into its graph as they are.

    So a compiled call is parsed as an eager one is; the tracers below Dynamo see the dispatcher's
    operator. Importing Dynamo takes a second or two, so it waits until someone does, as
    `torch.compile` does.
    """
    after_import("torch._dynamo", lambda: _allow(functions))
