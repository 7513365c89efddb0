"""Changing the recipe of one row."""

from __future__ import annotations

import re

from karelsynth.reproduce.rows import Job
from karelsynth.reproduce.running import Paths


def change(places: Paths, job: Job, **changes: object) -> None:
    """Other settings for the recipe of one row."""
    path = places.recipes / f"{job.row.recipe}.toml"
    text = path.read_text()
    for name, value in changes.items():
        text = re.sub(rf"^{name} = .*$", f"{name} = {value}", text, flags=re.MULTILINE)
    path.write_text(text)
