"""The weights that come with the package. `README.md` beside them says what they are and how good."""

from __future__ import annotations

from pathlib import Path

SHIPPED = Path(__file__).parent.parent / "pretrained"
"""The folder of the default model, for `Synthesizer.from_pretrained`."""
