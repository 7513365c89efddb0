"""The weights that come with the package. `README.md` beside them says what they are and how good."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SHIPPED: Final = "shipped"
"""The name of the default model, wherever the folder of a model is asked for."""
_FOLDER: Final = Path(__file__).parent.parent / "pretrained"


def model_folder(model: str | Path) -> Path:
    """The folder of a model, given as such or as `shipped`. Write `./shipped`, or a `Path`, for a folder called so."""
    return _FOLDER if isinstance(model, str) and model == SHIPPED else Path(model)
