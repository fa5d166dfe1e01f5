import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from speccompact.errors import ArgumentError
from speccompact.training.curves import draw, require_plots
from speccompact.training.evaluation import BITS, SETTLED

LINES = [
    {"step": step, "tokens": step * 100, "bits": 5 - step / 100, "learning_rate": 0.1, "held_out": {"a": 2.0, "b": 1.0}}
    for step in range(200)
]


@pytest.mark.parametrize("lines", [LINES, LINES[:1], []])
def test_a_png_is_drawn(tmp_path: Path, lines: list[dict[str, object]]) -> None:
    draw(tmp_path / "x.png", lines, "bits", "bits per token", BITS)
    data = (tmp_path / "x.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["x.png"]
    draw(tmp_path / "x.png", lines, "bits", "bits per token", BITS)
    assert (tmp_path / "x.png").read_bytes() == data


def test_acceptance_is_drawn_where_there_are_drafts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    pictures: list[Figure] = []
    save = Figure.savefig

    def noted(self: Figure, *arguments: Any, **settings: Any) -> Any:
        pictures.append(self)
        return save(self, *arguments, **settings)

    monkeypatch.setattr(Figure, "savefig", noted)
    draw(tmp_path / "x.png", LINES, "bits", "loss", SETTLED, {"a": [0.5, 0.25], "b": [0.75, 0.5]})
    draw(tmp_path / "y.png", LINES, "bits", "loss", BITS)
    assert [len(picture.axes) for picture in pictures] == [4, 3]  # the learning rate has one of its own
    reached = pictures[0].axes[2]
    assert [np.asarray(line.get_ydata()).tolist() for line in reached.get_lines()] == [[0.5, 0.25], [0.75, 0.5]]
    labels = [picture.axes[1].get_ylabel() for picture in pictures]
    assert labels == [
        "held-out tokens per pass against the start, %\n(more is better)",
        "held-out bits against the start, %\n(less is better)",
    ]


def test_kinds_of_any_name_are_in_the_legend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.figure import Figure

    figures = []
    legend = Figure.legend

    def noted(self: Figure, *arguments: Any, **settings: Any) -> Any:
        figures.append(legend(self, *arguments, **settings))
        return figures[-1]

    monkeypatch.setattr(Figure, "legend", noted)
    kinds = {r"$\nonsense$": 1.0, "_hidden": 2.0, "\udcff": 3.0}
    draw(tmp_path / "x.png", [{"step": 0, "tokens": 0, "held_out": kinds}], "bits", "bits per token", BITS)
    texts = [text.get_text() for text in figures[0].get_texts()]
    assert texts == [
        r"1.000 bpb at first: \$\nonsense\$",
        "2.000 bpb at first: _hidden",
        r"3.000 bpb at first: \udcff",
        "mean",
    ]


def test_one_kind_is_its_own_mean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib.axes import Axes

    labels: list[str] = []
    plot = Axes.plot

    def noted(self: Axes, *arguments: Any, **settings: Any) -> Any:
        labels.append(settings.get("label", ""))
        return plot(self, *arguments, **settings)

    monkeypatch.setattr(Axes, "plot", noted)
    draw(tmp_path / "x.png", [{"step": 0, "tokens": 0, "held_out": {"text": 2.0}}], "bits", "bits per token", BITS)
    assert [label for label in labels if label] == ["2.000 bpb at first: text"]


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    require_plots()
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ArgumentError, match=r"\[train\]"):
        require_plots()
