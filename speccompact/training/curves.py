"""curves.png: the loss, and what has become of each kind's held-out text. Needs the `train` extra (matplotlib)."""

import importlib.util
from collections.abc import Mapping, Sequence
from pathlib import Path

from speccompact.errors import ArgumentError
from speccompact.modelstore.storefiles import commit, temporary
from speccompact.training.evaluation import Figure, changes, mean_change
from speccompact.training.metrics import Line

Rates = Mapping[str, Sequence[float]]

_SIZE = (12.0, 8.0)  # inches
_SMOOTH = 50  # points that are left of the loss


def require_plots() -> None:
    """Refuse to start where the curves could not be drawn in the end.

    Raises:
        ArgumentError: matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        raise ArgumentError("training draws its curves with matplotlib: install speccompact with the extra [train]")


def draw(
    path: Path, lines: Sequence[Line], loss_name: str, loss_label: str, figure: Figure, acceptance: Rates | None = None
) -> None:
    """Draw the curves of a run.

    Args:
        path: of the PNG.
        lines: see `metrics.MetricsFile`.
        loss_name: what the lines call the loss.
        loss_label: what the picture calls it.
        figure: what is measured of held-out text, whose change is drawn.
        acceptance: for each kind how often drafts are right at each position, in the end; None for what does not draft.
    """
    from matplotlib import colormaps  # an extra, and slow to load
    from matplotlib.figure import Figure as Picture

    steps = [line for line in lines if loss_name in line]
    measured = [line for line in lines if "held_out" in line]
    picture = Picture(_SIZE, layout="constrained")
    loss, kinds, *more = picture.subplots(2 if acceptance is None else 3, 1)
    kinds.sharex(loss)
    block = max(1, len(steps) // _SMOOTH)
    groups = [steps[start : start + block] for start in range(0, len(steps), block)]
    loss.plot(
        [group[-1]["tokens"] for group in groups],
        [sum(line[loss_name] for line in group) / len(group) for group in groups],
        color="tab:blue",
    )
    loss.set(ylabel=loss_label)
    rates = loss.twinx()
    rates.plot([line["tokens"] for line in steps], [line["learning_rate"] for line in steps], color="0.75")
    rates.set(ylabel="learning rate (grey)")
    if measured:
        start = measured[0]["held_out"]
        tokens = [line["tokens"] for line in measured]
        for number, kind in enumerate(changes(start, start)):
            percents = [changes(start, line["held_out"])[kind] for line in measured]
            style = {"color": colormaps["tab20"](number % 20), "linestyle": ("-", "--", ":")[number // 20 % 3]}
            kinds.plot(tokens, percents, marker=".", label=_label(kind, start[kind], figure.unit), **style)
            for reached in more:
                shares = (acceptance or {}).get(kind, ())
                reached.plot(range(1, len(shares) + 1), shares, marker=".", **style)
        if len(start) > 1:
            means = [mean_change(start, line["held_out"]) for line in measured]
            kinds.plot(tokens, means, color="black", linewidth=2.5, label="mean")
        picture.legend(fontsize="small", loc="outside right center")
    kinds.axhline(0, color="0.75")
    kinds.set(ylabel=f"held-out {figure.name} against the start, %\n({figure.better} is better)", xlabel="tokens")
    for reached in more:
        reached.set(ylabel="right where it was reached", xlabel="position in the draft", ylim=(0, 1))
    with temporary(path.parent) as place:
        picture.savefig(place, format="png", dpi=100, metadata={"Software": ""})
        commit(place, path)


def _label(kind: str, start: float, unit: str) -> str:
    """Return a kind as text of a legend, which takes no broken Unicode, reads formulas, and hides a leading "_"."""
    name = kind.encode("utf-8", "backslashreplace").decode().replace("$", r"\$")
    return f"{start:.3f} {unit} at first: {name}"
