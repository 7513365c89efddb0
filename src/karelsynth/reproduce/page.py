"""docs/results.md and its pictures, rendered from results and recipes.

    render(results, load_recipes(folder), root)        # the command `karelsynth reproduce --render`

`rendered` returns the same files as text, for the test that compares them with those of the repository.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from karelsynth.errors import listed
from karelsynth.files import is_file, write_atomically
from karelsynth.karel.draw.scene import scene_svg
from karelsynth.reproduce import tables
from karelsynth.reproduce.aliasing import PROGRAM_A, PROGRAM_B, aliasing_scene, both_right
from karelsynth.reproduce.claims import CLAIMS, claims, count_verdicts
from karelsynth.reproduce.learned_syntax import MaskTable, masks_chart
from karelsynth.reproduce.results import Recipes, Result, Results, read_results, row_recipe, with_staleness
from karelsynth.reproduce.rows import ROWS, SHORT, TABLES, Budget
from karelsynth.train.recipe import RECIPES

PAGE: Final = "docs/results.md"
_ALL: Final = "all"
_TEMPLATE: Final = Path(__file__).parent / "results_page.md"
_MASKS: Final = "docs/pictures/masks.svg"
_MASKS_OVER: Final = "docs/pictures/masks_test.svg"
_ALIASING: Final = "docs/pictures/aliasing.svg"
_STALE_NOTE: Final = f"{tables.STALE}: by another recipe than today's."
CHARTS: Final = (_MASKS, _MASKS_OVER)
"""The pictures that matplotlib draws."""


def load_recipes(
    folder: Path, train_data: Path | None = None, val_data: Path | None = None, budget: Budget = SHORT
) -> Recipes:
    """Every row's recipe with a budget, and with other training or validation tasks if given.

    A row without a recipe in the folder has the package's: a folder of your own need not hold all recipes.
    """
    own = {name: folder if is_file(folder / f"{name}.toml") else RECIPES for name in ROWS}
    return {name: row_recipe(own[name], name, train_data, val_data, budget=budget) for name in ROWS}


def render(results: Path, recipes: Recipes, root: Path, long: tuple[Path, Recipes] | None = None) -> list[Path]:
    """Write all files below a folder; returns their paths. `long` has results and recipes of the long budget."""
    written = []
    for name, text in rendered(results, recipes, long).items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
        written.append(path)
    return written


def rendered(results: Path, recipes: Recipes, long: tuple[Path, Recipes] | None = None) -> dict[str, str]:
    """The text of every file, by its name below the repository's root."""
    found = read_results(results)
    found_long = None if long is None else (read_results(long[0]), long[1])
    return {PAGE: page(found, recipes, found_long), _ALIASING: scene_svg(aliasing_scene()), **_mask_pictures(found)}


def table_text(name: str, results: Results, recipes: Recipes) -> str:
    """One table, or all, as Markdown. Tables and rows that are not the paper's have a plain form."""
    results = with_staleness(results, recipes)
    found = _tables(results)
    others = {each: rows for each, rows in TABLES.items() if each not in (*found, _ALL)}
    shown = {row for each, rows in TABLES.items() if each != _ALL for row in rows}
    others[_ALL] = tuple(row for row in ROWS if row not in shown)
    found |= {each: tables.plain(rows, results) for each, rows in others.items() if rows}
    return "\n\n".join(found.values()) if name == _ALL else found[name]


def page(results: Results, recipes: Recipes, long: tuple[Results, Recipes] | None = None) -> str:
    """docs/results.md, from the results and recipes of the short budget and of the long one."""
    long_results, long_recipes = ({}, recipes) if long is None else long
    results, long_results = with_staleness(results, recipes), with_staleness(long_results, long_recipes)
    data = next((result.record["data"] for result in results.values()), None)
    stale = any(result.stale for result in results.values())
    measured = f"Measured on {data}." if data else "Nothing is measured yet."
    measured += f" {_STALE_NOTE}" * stale
    right = "Both programs are run on all six examples whenever this page is rendered: both are right."
    return _TEMPLATE.read_text(encoding="utf-8").format(
        measured=measured,
        both_right=right if both_right() else "They are NOT both right; something is broken.",
        program_a=PROGRAM_A.to("paper").rstrip(),
        program_b=PROGRAM_B.to("paper").rstrip(),
        protocols=tables.protocols(results),
        along_training=tables.along_training(results),
        every_run=tables.every_run(results),
        budgets=tables.budgets(recipes),
        claims=f"{claims(results)}\n\n{count_verdicts(results)}",
        long=_long(long_results),
        controls=_controls(results, long_results),
        cost=tables.cost(("short", results), ("long", long_results)),
        long_budgets=tables.budgets(long_recipes),
        **_tables(results),
    )


def _long(results: Results) -> str:
    """The claims and scores of the long budget: of the rows that have been measured."""
    if not results:
        return f"All rows: {tables.NOT_YET}."
    measured = {job.row.recipe for job in results}
    if any({claim.better, claim.worse} <= measured for claim in CLAIMS):
        parts = [claims(results), count_verdicts(results)]
    else:
        rows = listed(sorted(measured), "and")
        parts = [f"No claim can be decided: each needs two rows, and only {rows} was measured."]
    if any(result.stale for result in results.values()):
        parts.append(_STALE_NOTE)
    return "\n\n".join([*parts, tables.claim_scores(results), tables.every_run(results)])


def _controls(*budgets: Results) -> str:
    """The rows that are not in the paper, by budget."""
    tables_by_budget = [tables.plain(TABLES["controls"], results) for results in budgets]
    return "Short budget:\n\n{}\n\nLong budget:\n\n{}".format(*tables_by_budget)


def _tables(results: Results) -> dict[str, str]:
    return {
        "objectives": tables.objectives(results),
        "ranks": tables.ranks(results),
        "syntax": tables.syntax(results),
        "validity": tables.validity(results),
        "masks": _masks_text(results),
        "aliasing": tables.aliasing(results),
    }


def _masks_text(results: Results) -> str:
    found = _masks_result(results)
    if found is None:
        return f"The picture: {tables.NOT_YET}."
    over = found.record["masks"]["tasks"]
    refused, passed, reference = (
        f"{over[name]:.2f} % ({over['confidence_95'][name][0]:.2f} to {over['confidence_95'][name][1]:.2f})"
        for name in ("valid_refused", "invalid_passed", "reference_refused")
    )
    return (
        f"Of {found.job.row.label}, seed {found.job.seed}{tables.mark(found)}:\n\n"
        "![masks along Program A](pictures/masks.svg)\n\n"
        f"The same over all {over['positions']:,} positions of the test set's programs, by the token read last: on\n"
        f"average the learned mask takes {refused} off valid tokens,\nlets {passed} of invalid ones pass,\n"
        f"and takes {reference} off the tokens that actually come next.\n\n"
        "![masks over the test set](pictures/masks_test.svg)"
    )


def _mask_pictures(results: Results) -> dict[str, str]:
    found = _masks_result(results)
    if found is None:
        return {}
    masks = found.record["masks"]
    along, over = MaskTable.from_json(masks["program"]), MaskTable.from_json(masks["tasks"]["table"])
    return {
        _MASKS: masks_chart(along, "Handwritten and learned syntax along Program A"),
        _MASKS_OVER: masks_chart(over, "Handwritten and learned syntax over the test set"),
    }


def _masks_result(results: Results) -> Result | None:
    row = next(row for row in ROWS.values() if row.draws_masks)
    return tables.shown_of(results, row)
