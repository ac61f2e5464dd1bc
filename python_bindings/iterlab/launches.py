"""The launches of a call on a GPU, asked of the code that launches; nothing runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from iterlab import _C
from iterlab.physical import undisturbed


@dataclass(frozen=True)
class Launch:
    """One launch of a call: which of the operator's kernels, the grid of blocks, the threads of a
    block, and the shared memory that it asks for, in bytes.

    `kernel` is "vectorized", "strided", "box", "tiled" or "generic", or a reduction's form.
    """

    kernel: str
    grid: tuple[int, int]
    threads: int
    shared_bytes: int

    def __str__(self) -> str:
        x, y = self.grid
        blocks = f"{x} × {y}" if y > 1 else f"{x}"
        shared = f", {self.shared_bytes} bytes of shared memory" if self.shared_bytes else ""
        return f"{self.kernel} kernel: {blocks} blocks of {self.threads} threads{shared}"

    def to_dict(self) -> dict[str, Any]:
        """Give the launch as plain data, for JSON."""
        return asdict(self)


def _has_memory(value: Any) -> bool:
    plain = not isinstance(value, torch.Tensor) or type(value) in (torch.Tensor, torch.nn.Parameter)
    return plain and not (isinstance(value, torch.Tensor) and value.is_meta)


def _alias(value: Any) -> Any:
    """Give a tensor of the same memory with a version counter of its own: nothing is written."""
    return value.data if isinstance(value, torch.Tensor) else value


def launches_of(
    overload: torch._ops.OpOverload[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> tuple[Launch, ...]:
    """Give what a call of one of iterlab's operators would launch.

    The result is allocated and dropped. Empty where no operand is on a GPU, where one has no
    memory, or where that for the result is not there.
    """
    values = [*args, *kwargs.values()]
    on_gpu = any(isinstance(one, torch.Tensor) and one.is_cuda for one in values)
    if not on_gpu or not all(map(_has_memory, values)):
        return ()
    with undisturbed():
        _C.note_cuda_launches(True)
        try:
            overload(*map(_alias, args), **{name: _alias(one) for name, one in kwargs.items()})
        except torch.OutOfMemoryError:
            return ()
        finally:
            noted = _C.note_cuda_launches(False)
    return tuple(Launch(*one) for one in noted)
