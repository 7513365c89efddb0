"""Charts: what they show, that they are the same on every run, and what is said without matplotlib."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from karelsynth import charts
from karelsynth.charts import AMBER, BLUE, chart_svg, line, panels, save_chart
from karelsynth.errors import KarelsynthError
from tests.drawn import chart_description


def drawn() -> str:
    figure, (lines, groups, cells) = panels(600, 200, columns=3, title="Three kinds")
    line(lines, [1, 2], [70, 80], colour=BLUE, label="top 1", low=[68, 78], high=[72, 82])
    charts.percent_axis(lines, 60)
    charts.bars(groups, ["one", "two"], {"ours": ([1, 2], BLUE), "theirs": ([2, 1], [AMBER, BLUE])})
    charts.heatmap(cells, np.zeros((2, 3, 3)), ["a", "b"], ["c", "d", "e"])
    charts.legend(figure, loc="outside lower center")
    return chart_svg(figure, title="A <chart>", description="one & two: 70 %")


def test_a_chart_is_the_same_on_every_run() -> None:
    assert drawn() == drawn()


def test_a_chart_has_its_labels_as_text_and_a_description() -> None:
    svg = drawn()
    assert svg.startswith("<svg ")
    assert 'width="600" height="200"' in svg
    for text in ("Three kinds", "70 %", "top 1", "ours", "theirs", "two", ">e<", "A &lt;chart&gt;"):
        assert text in svg
    assert chart_description(svg) == "one & two: 70 %"
    assert "date" not in svg


@pytest.mark.parametrize(("name", "start"), [("a.svg", b"<svg "), ("a.png", b"\x89PNG")])
def test_a_chart_is_saved_by_its_suffix(name: str, start: bytes, tmp_path: Path) -> None:
    figure, (axes,) = panels(100, 80)
    line(axes, [1, 2], [1, 2], colour=BLUE)
    save_chart(figure, tmp_path / name, title="t", description="d")
    assert (tmp_path / name).read_bytes().startswith(start)
    with pytest.raises(KarelsynthError, match=r"cannot save a chart as .*a\.pdf: the name must end in `\.svg` or"):
        save_chart(figure, tmp_path / "a.pdf", title="t", description="d")


def test_without_matplotlib_the_message_says_what_to_install() -> None:
    code = "import sys; sys.modules['matplotlib'] = None\nfrom karelsynth.charts import panels\npanels(9, 9)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "needs matplotlib, which is not installed: pip install 'karelsynth[train]'" in found.stderr
