// Whether the current program is right on each example. Checked again whenever the program or an example changes.

import { post } from "./api.js";
import { debounced, guarded } from "./dom.js";
import { equal, parse, render } from "./world.js";

export class Verdicts {
  #running = null;
  #soon = debounced((program, examples) => this.#run(program, examples), 120);

  /** `onResult(verdicts)` gets a Map from an example's id to {kind, text}. */
  constructor(onResult) {
    this.onResult = onResult;
  }

  /** `program` is a text, or null where there is none to judge. */
  update(program, examples) {
    this.#running?.abort();
    if (program === null) this.onResult(new Map());
    this.#soon(program, examples);
  }

  async #run(program, examples) {
    if (program === null) return;
    const control = new AbortController();
    this.#running = control;
    const verdicts = new Map();
    await guarded(async () => {
      for (const { id, input, output } of examples) {
        const run = await post("/api/run", { program, world: render(input) }, control.signal);
        verdicts.set(id, verdictOf(run, output));
      }
    });
    if (!control.signal.aborted) this.onResult(verdicts);
  }
}

function verdictOf(run, output) {
  if (run.status !== "ok") return { kind: "wrong", text: `The program ${run.explanation}` };
  if (equal(parse(run.world), output)) return { kind: "right", text: "The program does exactly this" };
  return { kind: "wrong", text: "The program leaves another world" };
}
