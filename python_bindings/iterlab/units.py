"""Quantities in words: bytes, times and shapes as people read them."""

from __future__ import annotations

from collections.abc import Iterable


def bytes_text(count: float) -> str:
    """Give a number of bytes in decimal units, three digits: 67108864 is "67.1 MB"."""
    for unit in ("B", "kB", "MB", "GB"):
        if abs(count) < 999.5:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def time_text(seconds: float) -> str:
    """Give a duration with three digits: 0.00123 is "1.23 ms"."""
    for scale, unit in ((1e9, "ns"), (1e6, "µs"), (1e3, "ms")):
        if seconds * scale < 999.5:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds:.3g} s"


def shape_text(sizes: Iterable[int]) -> str:
    """Give a shape as [2, 3]."""
    return f"[{', '.join(str(size) for size in sizes)}]"


def loop_text(sizes: Iterable[int]) -> str:
    """Give a loop nest as 4096 × 64."""
    return " × ".join(str(size) for size in sizes) or "1"
