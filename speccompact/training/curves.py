"""curves.png: the loss, and what has become of each kind's held-out text. Needs the `train` extra (matplotlib)."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from speccompact.errors import ArgumentError
from speccompact.modelstore.storefiles import commit, temporary
from speccompact.training.evaluation import changes, mean_change
from speccompact.training.metrics import Line

_SIZE = (12.0, 8.0)  # inches
_SMOOTH = 50  # points that are left of the loss


def require_plots() -> None:
    """Refuse to start where the curves could not be drawn in the end.

    Raises:
        ArgumentError: matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ArgumentError("training draws its curves with matplotlib: install speccompact with the extra [train]")


def draw(path: Path, lines: Sequence[Line]) -> None:
    """Draw the curves of a run.

    Args:
        path: of the PNG.
        lines: see `metrics.MetricsFile`.
    """
    from matplotlib import colormaps  # an extra, and slow to load
    from matplotlib.figure import Figure

    steps = [line for line in lines if "bits" in line]
    measured = [line for line in lines if "held_out" in line]
    figure = Figure(_SIZE, layout="constrained")
    loss, kinds = figure.subplots(2, 1, sharex=True)
    block = max(1, len(steps) // _SMOOTH)
    groups = [steps[start : start + block] for start in range(0, len(steps), block)]
    loss.plot(
        [group[-1]["tokens"] for group in groups],
        [sum(line["bits"] for line in group) / len(group) for group in groups],
        color="tab:blue",
    )
    loss.set(ylabel="bits per token, training")
    rates = loss.twinx()
    rates.plot([line["tokens"] for line in steps], [line["learning_rate"] for line in steps], color="0.75")
    rates.set(ylabel="learning rate (grey)")
    if measured:
        start = measured[0]["held_out"]
        tokens = [line["tokens"] for line in measured]
        for number, kind in enumerate(changes(start, start)):
            percents = [changes(start, line["held_out"])[kind] for line in measured]
            style = {"color": colormaps["tab20"](number % 20), "linestyle": ("-", "--", ":")[number // 20 % 3]}
            kinds.plot(tokens, percents, marker=".", label=_label(kind, start[kind]), **style)
        if len(start) > 1:
            means = [mean_change(start, line["held_out"]) for line in measured]
            kinds.plot(tokens, means, color="black", linewidth=2.5, label="mean")
        figure.legend(fontsize="small", loc="outside right center")
    kinds.axhline(0, color="0.75")
    kinds.set(ylabel="held-out bits against the start, %", xlabel="tokens")
    with temporary(path.parent) as place:
        figure.savefig(place, format="png", dpi=100, metadata={"Software": ""})
        commit(place, path)


def _label(kind: str, bits: float) -> str:
    """Return a kind as text of a legend, which takes no broken Unicode, reads formulas, and hides a leading "_"."""
    name = kind.encode("utf-8", "backslashreplace").decode().replace("$", r"\$")
    return f"{bits:.3f} bpb at first: {name}"
