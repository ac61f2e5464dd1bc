"""Modes that a call can be explained in: grad, inference mode, autocast, fake tensors, vmap."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

import torch

Result = TypeVar("Result")


def _fake(work: Callable[..., Result], operands: Sequence[Any]) -> Result:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode() as mode:
        return work(
            *(mode.from_tensor(one) if isinstance(one, torch.Tensor) else one for one in operands)
        )


def _vmap(work: Callable[..., Result], operands: Sequence[Any]) -> Result:
    """Call under vmap over dim 0 of every tensor that has one."""
    results: list[Result] = []
    batched = [isinstance(one, torch.Tensor) and one.dim() > 0 for one in operands]
    if not any(batched):
        raise ValueError("iterlab: expected an operand with a dim to map over in mode vmap")

    def inner(*given: Any) -> torch.Tensor:
        results.append(work(*given))
        return torch.zeros(())

    torch.func.vmap(inner, in_dims=tuple(0 if one else None for one in batched))(*operands)
    return results[0]


def _grad(work: Callable[..., Result], operands: Sequence[Any]) -> Result:
    """Call with operands that require grad, where their dtype allows it."""
    for one in operands:
        if isinstance(one, torch.Tensor) and (one.is_floating_point() or one.is_complex()):
            one.requires_grad_()
    return work(*operands)


def call_in(mode: str, work: Callable[..., Result], operands: Sequence[Any]) -> Result:
    """Call `work` with the operands in a mode: none, grad, no_grad, inference_mode, autocast (of
    the CPU, to bfloat16), fake or vmap (over dim 0). Raises ValueError for another.
    """
    special: dict[str, Callable[[Callable[..., Result], Sequence[Any]], Result]] = {
        "fake": _fake,
        "vmap": _vmap,
        "grad": _grad,
    }
    if mode in special:
        return special[mode](work, operands)
    contexts: dict[str, Callable[[], AbstractContextManager[object]]] = {
        "none": torch.enable_grad,
        "no_grad": torch.no_grad,
        "inference_mode": torch.inference_mode,
        "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    }
    if mode not in contexts:
        known = ", ".join([*contexts, *special])
        raise ValueError(f"iterlab: expected one of {known}, got '{mode}'")
    with contexts[mode]():
        return work(*operands)
