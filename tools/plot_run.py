"""Plot a training run: its loss and, if its log has any, the share of validation tasks solved.

python tools/plot_run.py results/mle_stream/metrics.jsonl docs/pictures/mle_stream.svg

For a run that continued another, give both logs in order; steps are counted through.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from karelsynth.charts import AMBER, BLUE, line, panels, percent_axis, save_chart, second_axis
from karelsynth.files import read_text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("metrics", type=Path, nargs="+")
    parser.add_argument("picture", type=Path)
    arguments = parser.parse_args()
    curves: dict[str, list[tuple[float, float]]] = {"loss": [], "validation_generalization": []}
    before = 0
    for path in arguments.metrics:
        entries = [json.loads(line) for line in read_text(path).splitlines()]
        if not any("loss" in entry for entry in entries):
            sys.exit(f"{path} has no losses: is it the metrics.jsonl of a run?")
        for name, points in curves.items():
            points += [(before + entry["step"], entry[name]) for entry in entries if name in entry]
        before = int(curves["loss"][-1][0])
    plot(curves["loss"], curves["validation_generalization"], arguments.picture)


def plot(loss: list[tuple[float, float]], solved: list[tuple[float, float]], path: Path) -> None:
    """Both curves over steps: the loss with its axis on the left, the share with its axis on the right."""
    figure, (axes,) = panels(760, 340)
    line(axes, *zip(*loss, strict=True), colour=BLUE, markers=False)
    axes.set_ylim(0, 1.25)
    axes.set_ylabel("loss, nats", color=BLUE)
    axes.set_xlabel("steps")
    axes.xaxis.set_major_formatter("{x:,.0f}")
    description = f"After {loss[-1][0]:,.0f} steps the loss is {loss[-1][1]:.3f}."
    if solved:
        right = second_axis(axes)
        line(right, *zip(*solved, strict=True), colour=AMBER)
        percent_axis(right)
        right.set_ylabel("validation tasks solved", color=AMBER)
        description += f" The model solves {solved[-1][1]:.1f} % of the validation tasks."
    save_chart(figure, path, title="A training run", description=description)


if __name__ == "__main__":
    main()
