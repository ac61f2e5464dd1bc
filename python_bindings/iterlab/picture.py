"""Pictures of results: horizontal bars, a group for each case and a colour for each peer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Distinguishable with any colour vision (after Okabe and Ito); iterlab's own is the strongest.
COLOURS = {
    "iterlab": "#0072b2",
    "generic path": "#9ecae9",
    "torch": "#e69f00",
    "torch.compile": "#009e73",
    "NumPy": "#8c8c8c",
    "numexpr": "#cc79a7",
    "CuPy": "#d55e00",
    "jiterator": "#f0e442",
}


@dataclass(frozen=True)
class Bars:
    """One group of bars: a label, and for each peer its value and the text at the bar's end."""

    label: str
    values: Mapping[str, float]
    texts: Mapping[str, str]


def _draw(
    axes: Axes, groups: Sequence[Bars], peers: Sequence[str], limit: float, lines: float
) -> None:
    """Draw the groups from top to bottom; bars longer than `limit` get a gap."""
    position, ticks = 0.0, []
    for group in groups:
        shown = [peer for peer in peers if peer in group.values]
        ticks.append(position + (len(shown) - 1) / 2)
        for peer in shown:
            value = min(group.values[peer], limit)
            axes.barh(position, value, height=0.86, color=COLOURS[peer])
            if value < group.values[peer]:
                axes.barh(position, limit * 0.006, height=1, left=limit * 0.96, color="white")
            weight = "bold" if peer == "iterlab" else "normal"
            text = group.texts[peer]
            axes.text(value + limit * 0.01, position, text, va="center", fontsize=8, weight=weight)
            position += 1
        position += 0.9
    axes.set_yticks(ticks, [group.label for group in groups], fontsize=9)
    axes.set_ylim(lines - 0.9, -0.9)
    axes.set_xlim(0, limit * 1.17)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=8)


def save_bars(
    path: Path,
    title: str,
    subtitle: str,
    axis: str,
    columns: Sequence[Sequence[Bars]],
    reference: tuple[float, str] | None = None,
    cap: float | None = None,
) -> None:
    """Draw columns of groups of bars and save them.

    `reference` draws a line at a value, with a name. Bars longer than `cap` are cut off there with
    a gap; their text says the value all the same.
    """
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.patches import Patch

    groups = [group for column in columns for group in column]
    peers = [peer for peer in COLOURS if any(peer in group.values for group in groups)]
    longest = max(value for group in groups for value in group.values.values())
    if reference is not None:
        longest = max(longest, reference[0])
    limit = min(longest, cap or longest)
    lines = max(sum(len(group.values) + 0.9 for group in column) for column in columns)
    size = (max(10, 7.5 * len(columns)), max(3.2, 1.7 + 0.2 * lines))
    figure, grid = pyplot.subplots(
        1,
        len(columns),
        figsize=size,
        layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.1),
        squeeze=False,
    )
    for axes, column in zip(grid[0], columns, strict=True):
        _draw(axes, column, peers, limit, lines)
        axes.set_xlabel(axis, fontsize=9)
        if reference is not None:
            axes.axvline(reference[0], color="#444444", lw=0.8, ls=(0, (4, 3)), zorder=0)
            axes.text(reference[0], -1.0, reference[1], fontsize=8, color="#444444", ha="center")
    figure.suptitle(f"{title}\n", x=0.01, ha="left", fontsize=13, weight="bold")
    figure.text(0.01, 1 - 0.52 / size[1], subtitle, fontsize=9, color="#555555")
    handles = [Patch(color=COLOURS[peer], label=peer) for peer in peers]
    figure.legend(handles=handles, loc="outside lower left", ncols=9, frameon=False, fontsize=9)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
