"""PyTorch's own OpInfo database, and what each of its entries is called here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import iterlab
from iterlab.table import composite_table, op_table

NAMES = {entry.name for entry in (*op_table(), *composite_table())}

# OpInfos that are about something else than the operator of the name.
NOT_OURS = {
    ("to", ""): "Tensor.to, with devices and memory formats; ours converts to a dtype",
    ("norm", "nuc"): "a norm of matrices",
}
RENAMED = {
    ("linalg.vector_norm", ""): "norm",
    ("max", "binary"): "maximum",
    ("min", "binary"): "minimum",
}
# OpInfo passes what the gradient is of first.
REORDERED: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "where": lambda fn: lambda x, condition, *rest, **more: fn(condition, x, *rest, **more),
    "polygamma": lambda fn: lambda x, n, **more: fn(n, x, **more),
}


def _name(info: OpInfo) -> str | None:
    key = (info.name, info.variant_test_name)
    plain = info.name.removeprefix("nn.functional.").removeprefix("special.")
    names = (RENAMED.get(key), info.name.replace(".", "_"), plain)
    return None if key in NOT_OURS else next((name for name in names if name in NAMES), None)


@dataclass(frozen=True)
class Twin:
    """An OpInfo and the operator here that it describes."""

    info: OpInfo
    name: str

    @property
    def id(self) -> str:
        variant = self.info.variant_test_name
        return self.info.name + (f".{variant}" if variant else "")

    @cached_property
    def function(self) -> Callable[..., Any]:
        """The operator, called as `info.op` is."""
        found = getattr(iterlab, self.name)
        return REORDERED.get(self.name, lambda fn: fn)(found)

    @cached_property
    def inplace(self) -> Callable[..., Any] | None:
        return getattr(iterlab, self.name + "_", None)

    @property
    def dtypes(self) -> list[torch.dtype]:
        return sorted(self.info.supported_dtypes("cpu"), key=str)

    def samples(self, dtype: torch.dtype, requires_grad: bool = False) -> list[SampleInput]:
        return list(self.info.sample_inputs("cpu", dtype, requires_grad=requires_grad))

    def reference_samples(self, dtype: torch.dtype) -> list[SampleInput]:
        return list(self.info.reference_inputs("cpu", dtype))


TWINS = [Twin(info, name) for info in op_db if (name := _name(info)) is not None]


def call(fn: Callable[..., Any], sample: SampleInput, **more: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of casts and of resized outputs; torch warns as we do
        return fn(sample.input, *sample.args, **(sample.kwargs | more))


def outcome(fn: Callable[..., Any], sample: SampleInput, **more: Any) -> Any:
    """The result, or the exception."""
    try:
        return call(fn, sample, **more)
    except Exception as error:
        return error


def outputs(result: Any) -> tuple[torch.Tensor, ...]:
    return (result,) if isinstance(result, torch.Tensor) else tuple(result)


def tensors(sample: SampleInput) -> Iterator[torch.Tensor]:
    """The tensors among the arguments."""
    for value in (sample.input, *sample.args, *sample.kwargs.values()):
        if isinstance(value, torch.Tensor):
            yield value


def mapped(sample: SampleInput, fn: Callable[[torch.Tensor], Any]) -> SampleInput:
    """The sample with every tensor replaced."""

    def of(value: Any) -> Any:
        return fn(value) if isinstance(value, torch.Tensor) else value

    kwargs = {name: of(value) for name, value in sample.kwargs.items()}
    return SampleInput(of(sample.input), args=tuple(map(of, sample.args)), kwargs=kwargs)


def described(sample: SampleInput) -> str:
    def of(value: Any) -> str:
        if not isinstance(value, torch.Tensor):
            return repr(value)
        return f"{str(value.dtype)[6:]}{list(value.shape)}{value.stride()}"

    named = [f"{name}={of(value)}" for name, value in sample.kwargs.items()]
    return ", ".join([of(value) for value in (sample.input, *sample.args)] + named)
