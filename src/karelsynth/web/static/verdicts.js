// Whether the current program does each example, and which examples no program can do. Asked again, for all examples at
// once, whenever the program or an example changes.

import { post } from "./api.js";
import { debounced, guarded } from "./dom.js";
import { ending } from "./run.js";
import { renumbered } from "./sure.js";
import { pairs } from "./task.js";

export class Verdicts {
  #running = null;
  #known = null; // the examples whose problems are known
  #soon = debounced((program, examples) => this.#run(program, examples), 120);

  /** `onResult(verdicts, problems)` gets Maps from an example's id to {kind, text} and to a message. */
  constructor(onResult) {
    this.onResult = onResult;
  }

  /** `program` is a text, or null where there is none to judge. Examples that are not filled in are not judged. */
  update(program, examples) {
    this.#running?.abort();
    if (program === null) this.onResult(new Map(), null);
    this.#soon(program, examples);
  }

  async #run(program, examples) {
    const control = new AbortController();
    this.#running = control;
    const numbered = examples.map((one, index) => ({ ...one, number: index + 1 })).filter(({ touched }) => touched);
    if (!numbered.length) {
      this.#known = null;
      this.onResult(new Map(), new Map());
      return;
    }
    const body = { program, examples: pairs(numbered) };
    const asked = JSON.stringify(body.examples);
    if (program === null && asked === this.#known) return;
    const judged = await guarded(() => post("/api/judge", body, control.signal));
    if (!judged || control.signal.aborted) return;
    this.#known = asked;
    const numbers = numbered.map(({ number }) => number);
    const idOf = (place) => numbered[place].id;
    this.onResult(
      new Map(judged.verdicts.map((verdict, place) => [idOf(place), wordsFor(verdict)])),
      new Map(judged.problems.map(({ example, message }) => [idOf(example - 1), renumbered(message, numbers)])),
    );
  }
}

function wordsFor({ right, status, explanation }) {
  if (right) return { kind: "right", text: "The program does exactly this" };
  if (status !== "ok") return { kind: "wrong", text: `The program ${ending(explanation)}` };
  return { kind: "wrong", text: "The program leaves another world" };
}
