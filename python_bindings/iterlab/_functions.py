"""Every operator as a function with torch's signature: `iterlab.add(x, y, alpha=2)`."""

from iterlab import _C, _dynamo

_made = _C.make_functions()
globals().update(_made)
_dynamo.register(_made)

__all__ = sorted(_made)
