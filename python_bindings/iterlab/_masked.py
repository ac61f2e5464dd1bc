"""iterlab's operators on masked tensors. This imports torch.masked.maskedtensor._ops_refs."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch.masked.maskedtensor._ops_refs import _MASKEDTENSOR_DISPATCH_TABLE
from torch.masked.maskedtensor.core import MaskedTensor

from iterlab._subclasses import overloads


def _elementwise(packet: Any, *args: Any, **kwargs: Any) -> Any:
    """As torch does it for its own: the call on the data, of which all have the same mask."""
    masks = [one._masked_mask for one in args if isinstance(one, MaskedTensor)]
    if not masks or "out" in kwargs or not all(torch.equal(one, masks[0]) for one in masks):
        reason = "expected masked tensors of one mask, none of them out="
        raise NotImplementedError(f"iterlab::{packet.__name__}: {reason}")
    data = [one._masked_data if isinstance(one, MaskedTensor) else one for one in args]
    result = packet(*data, **kwargs)
    if result is data[0]:  # in place
        return args[0]
    return MaskedTensor(result, masks[0].expand_as(result))  # type: ignore[no-untyped-call]


def _reduction(packet: Any, *args: Any, **kwargs: Any) -> Any:
    instead = "fill what is masked before, as by to_tensor(0)"
    raise NotImplementedError(
        f"iterlab::{packet.__name__}: cannot reduce masked tensors; {instead}"
    )


def register() -> None:
    """Enter the operators in the table that masked tensors look theirs up in."""
    for op in overloads():
        handler = _reduction if torch.Tag.reduction in op.tags else _elementwise
        _MASKEDTENSOR_DISPATCH_TABLE[op.overloadpacket] = partial(handler, op.overloadpacket)
