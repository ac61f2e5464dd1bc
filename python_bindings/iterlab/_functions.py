"""Every operator as a function with torch's signature: `iterlab.add(x, y, alpha=2)`."""

import torch

from iterlab import _C, _dynamo


def _shorten(name: str) -> None:
    """Give the operator's default overload in `torch.ops` a shorter way to the dispatcher.

    What an OpOverload calls is an attribute of torch's own; where this torch has no such, calls
    take the way they always took.
    """
    overload = getattr(getattr(torch.ops.iterlab, name), "default", None)
    original = getattr(overload, "__dict__", {}).get("_op")
    quick = None if original is None else _C.quick_overload(name, original)
    if quick is not None:
        overload._op = quick  # type: ignore[union-attr]


_made = _C.make_functions()
globals().update(_made)
_dynamo.register(_made.values())
for _name in _made:
    _shorten(_name)

__all__ = sorted(_made)
