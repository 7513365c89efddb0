// Two number fields for the size of a world.

import { el } from "./dom.js";
import { LARGEST_SIDE, SMALLEST_SIDE } from "./world.js";

/** {node, update(rows, cols)}; `onChange(rows, cols)` gets whole numbers within the limits. */
export function sizeInputs(onChange) {
  const limits = { type: "number", min: SMALLEST_SIDE, max: LARGEST_SIDE, inputmode: "numeric" };
  const field = (label) => el("input", { ...limits, "aria-label": label, title: label });
  const [rows, cols] = [field("Rows"), field("Columns")];
  let known = [0, 0];
  const changed = () => {
    const sides = [rows, cols].map((input, index) => {
      const side = Math.round(Number(input.value)) || known[index];
      return Math.max(SMALLEST_SIDE, Math.min(LARGEST_SIDE, side));
    });
    [rows.value, cols.value] = sides;
    if (sides[0] !== known[0] || sides[1] !== known[1]) onChange(...sides);
  };
  for (const input of [rows, cols]) {
    input.addEventListener("change", changed);
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") changed(); // Ctrl+Enter solves, with the new size
    });
  }
  return {
    node: el("span", { class: "size" }, rows, el("span", { "aria-hidden": "true" }, "×"), cols),
    update(newRows, newCols) {
      known = [newRows, newCols];
      [rows.value, cols.value] = known;
    },
  };
}
