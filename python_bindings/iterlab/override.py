"""The drop-in: run ATen's own operators on iterlab's kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Sequence
from contextlib import ContextDecorator
from functools import cache
from pathlib import Path
from types import TracebackType

from iterlab.table import find, op_table


@cache
def _library() -> ctypes.CDLL:
    from iterlab import _build_info

    library = ctypes.CDLL(str(Path(_build_info.__file__).parent / "libiterlab_override.so"))
    for function in (library.iterlab_override_enable, library.iterlab_override_names):
        function.restype = ctypes.c_char_p
        function.argtypes = [ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]
    library.iterlab_override_disable.restype = None
    return library


# What is on, from the outermost to the innermost: the operators' names, None for all of them.
_active: list[tuple[str, ...] | None] = []
_overloads: tuple[str, ...] = ()


def _operator(name: str) -> str:
    """The operator of that name, or else the one of that name in torch, or the one that takes its
    arguments in another order.
    """
    names = {entry.name for entry in op_table()}
    twins = {entry.torch_name: entry.name for entry in op_table()}
    reordered = f"_{name}" if f"_{name}" in names else name
    return find(name if name in names else twins.get(name, reordered)).name


def _names(function: Callable[..., bytes | None], only: Sequence[str]) -> tuple[str, ...]:
    """Call a function of the library with operators. Gives the overloads of ATen that it does."""
    error = ctypes.c_char_p()
    names = function(",".join(only).encode(), ctypes.byref(error))
    if names is None:
        raise RuntimeError(f"iterlab: cannot override ATen: {(error.value or b'').decode()}")
    return tuple(names.decode().split(",")) if names else ()


def _apply() -> None:
    global _overloads
    only = _active[-1] if _active else ()
    if only == ():
        _library().iterlab_override_disable()
        _overloads = ()
    else:
        _overloads = _names(_library().iterlab_override_enable, only or ())


@cache
def _replaced(only: tuple[str, ...]) -> set[str]:
    """The names of what these operators replace in ATen."""
    overloads = _names(_library().iterlab_override_names, only)
    return {name.removeprefix("aten::").split(".")[0].removesuffix("_") for name in overloads}


def _check(given: Sequence[str], only: tuple[str, ...]) -> None:
    """Raise ValueError where one of these operators, each by the name given, replaces nothing."""
    for name, operator in zip(given, only, strict=True):
        names = {operator, operator.removeprefix("_"), find(operator).torch_name}
        if names.isdisjoint(_replaced(only)):
            raise ValueError(
                f"iterlab: override_aten(only=['{name}']) would override nothing: ATen has no "
                "kernel of its own for it, but computes it from other operators or lacks it; call "
                f"iterlab.{operator}"
            )


class override_aten(ContextDecorator):
    """Make the ATen operators that iterlab implements run on iterlab's CPU kernels.

    A context manager, a decorator of functions, or `enable()` and `disable()`: `torch.add`,
    `x * y`, a model's own code and what autograd calls in backward then use iterlab without a
    change. Calls that iterlab does not take run ATen's kernel as before, and so does everything
    once it is undone. Process-wide: other threads see it too.

    `only` names operators, by iterlab's or torch's name ("add"); the default is all. Raises
    ValueError for a name that iterlab does not have, and for one that would override nothing, as
    ATen has no kernel of its own for it ("square" calls `pow` there).

    >>> with iterlab.override_aten(only=["add"]):
    ...     model(x)
    """

    def __init__(self, only: Iterable[str] | None = None) -> None:
        if isinstance(only, str) or callable(only):
            raise TypeError(f"iterlab: expected a list of operators' names, got {only!r}")
        given = None if only is None else tuple(only)
        self.only = None if given is None else tuple(_operator(name) for name in given)
        if given and self.only:
            _check(given, self.only)

    def enable(self) -> None:
        """Turn it on, until `disable()`."""
        _active.append(self.only)
        try:
            _apply()
        except RuntimeError:
            _active.pop()
            raise

    def disable(self) -> None:
        """Turn it off. Nothing happens where it is not on."""
        if self.only in _active:
            _active.reverse()
            _active.remove(self.only)
            _active.reverse()
            _apply()

    def __enter__(self) -> override_aten:
        self.enable()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.disable()


def overridden() -> Sequence[str]:
    """Give the ATen overloads that run on iterlab now, such as "aten::add.Tensor"."""
    return _overloads
