"""Draw the layers of the package, docs/pictures/layers.svg, from the list that the test of imports has.

python tools/draw_layers.py
"""

from __future__ import annotations

import ast
from html import escape
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PICTURE: Final = ROOT / "docs" / "pictures" / "layers.svg"
ABOUT: Final = {
    "errors": "messages, files, text for terminals, charts, the hub",
    "karel": "the language: grammar, programs, worlds, interpreters, drawings",
    "generator": "drawing programs and worlds, and their log-probabilities",
    "tasks": "tasks, sets and files of tasks; simplified programs",
    "posterior": "MCMC over the programs that fit a task's examples; environments",
    "model": "the networks: encoder, decoder, syntax, prefix runners",
    "search": "beam search, rollouts, pruning, repair, running candidates",
    "objectives": "MLE, RL, RL_beam, RL_beam_div, MML, and rewards",
    "evaluate": "all measures, both protocols",
    "train": "recipes, batches, checkpoints and the loop; the solver",
    "tutor": "grading, hints, probing and posing for a class",
    "reproduce": "the paper's tables; curves; anyone's predictions; language models",
    "cli": "the command line; the playground and its HTTP service",
}
WIDTH: Final = 880
ROW: Final = 44
NAMES: Final = 300


def layers() -> list[tuple[str, ...]]:
    """The layers, the lowest first: each may import itself and those before it."""
    tree = ast.parse((ROOT / "tests" / "test_package.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "LAYERS":
            found: tuple[tuple[str, ...], ...] = ast.literal_eval(node.value)
            return list(found)
    raise ValueError("tests/test_package.py has no LAYERS")


def picture() -> str:
    """The picture, as SVG: a row for each layer, the highest at the top."""
    rows = layers()[::-1]
    height = ROW * len(rows) + 40
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    torch = layers().index(("model",))
    for number, names in enumerate(rows):
        top = 8 + number * ROW
        shown = [name for name in names if not name.startswith("_")]
        fill = "#e8eaf6" if len(rows) - number > torch else "#e0f2f1"
        text = next((ABOUT[name] for name in shown if name in ABOUT), "")
        parts += [
            f'<rect x="8" y="{top}" width="{WIDTH - 16}" height="{ROW - 8}" rx="6" fill="{fill}" stroke="#9fa8da"/>',
            f'<text x="24" y="{top + 23}" font-size="15" font-weight="bold" fill="#1a237e">'
            f"{escape(', '.join(shown))}</text>",
            f'<text x="{NAMES + 24}" y="{top + 23}" font-size="14" fill="#263238">{escape(text)}</text>',
        ]
    foot = "A layer imports itself and the layers below it. Green layers never import torch."
    parts += [f'<text x="24" y="{height - 12}" font-size="13" fill="#455a64">{foot}</text>', "</svg>"]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")
    print(f"wrote {PICTURE.relative_to(ROOT)}")
