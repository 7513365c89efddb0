// The question where the examples fit programs that disagree: on this world, which outcome is meant?

import { Board } from "./board.js";
import { button, byId, el } from "./dom.js";
import { differences, parse } from "./world.js";
import { ending } from "./run.js";

const MOST_NAMES = 4;

/** `onExample(input, output, solveAgain)` gets the pair that was chosen, or one that is still to be shown. It is one line
 *  until somebody unfolds it. */
export function showQuestion({ world, outcomes, change }, onExample) {
  const input = parse(world);
  const worlds = outcomes.map((outcome) => parse(outcome.world));
  byId("ambiguity").open = false;
  byId("ambiguity-change").textContent = change;
  byId("ambiguity-world").replaceChildren(picture("A world on which the programs differ", input));
  byId("outcomes").replaceChildren(
    ...outcomes.map((outcome, index) => {
      const output = worlds[index];
      const marked = worlds.flatMap((other) => differences(output, other)); // what makes the choice
      const failed = outcome.status !== "ok"; // no example can ask for a crash
      const attributes = { "aria-label": `Outcome ${index + 1} is meant` };
      return el(
        "li",
        { class: "outcome" },
        picture(`Outcome ${index + 1}`, output, { alarm: failed, marked }),
        el("span", { class: "detail" }, failed ? `${owners(outcome)}: ${ending(outcome.explanation)}` : owners(outcome)),
        failed ? null : button("button primary", () => onExample(input, output, true), attributes, "This one"),
      );
    }),
  );
  byId("ambiguity-other").onclick = () => onExample(input, input, false);
  byId("ambiguity").hidden = false;
}

function picture(label, world, signs) {
  const board = new Board(label);
  board.update(world, signs);
  return board.node;
}

/** Whose outcome it is, by their numbers among the answers. */
function owners({ answers }) {
  const numbers = answers.map((place) => place + 1);
  if (numbers.length === 1) return `Program ${numbers[0]}`;
  return `Programs ${numbers.slice(0, MOST_NAMES).join(", ")}${numbers.length > MOST_NAMES ? " …" : ""}`;
}
