// The examples, side by side: one card each.

import { Card } from "./card.js";
import { announce, byId, notice } from "./dom.js";
import { MOST_EXAMPLES, example, isFull, withAdded } from "./task.js";
import { blank } from "./world.js";

export class Examples {
  #history;
  #cards = new Map();
  #tool;

  /** `history` holds the task; `tool()` is the chosen one; `onWatch(id)` asks to see the program run on an example. */
  constructor(history, tool, onWatch) {
    this.#history = history;
    this.#tool = tool;
    this.onWatch = onWatch;
    this.node = byId("examples");
    byId("add-example").addEventListener("click", () => this.add());
    history.onChange(() => this.update());
    this.update();
  }

  get #task() {
    return this.#history.value;
  }

  update() {
    const { examples } = this.#task;
    let held = null; // where the keyboard was, if its card goes
    for (const [id, card] of this.#cards) {
      if (examples.some((one) => one.id === id)) continue;
      if (card.node.contains(document.activeElement)) held = [...this.node.children].indexOf(card.node);
      card.node.remove();
      this.#cards.delete(id);
    }
    examples.forEach((one, index) => {
      if (!this.#cards.has(one.id)) this.#cards.set(one.id, new Card(this.#history, one.id, this.#tool, this));
      const card = this.#cards.get(one.id);
      if (this.node.children[index] !== card.node) this.node.insertBefore(card.node, this.node.children[index] ?? null);
      card.update(one, index, examples.length);
    });
    byId("add-example").hidden = isFull(this.#task);
    if (held !== null) this.#focus(examples[Math.min(held, examples.length - 1)].id);
  }

  /** A new example as large as the last one, for the next drawing. */
  add() {
    const last = this.#task.examples.at(-1);
    const added = example(last ? blank(last.input.rows, last.input.cols) : blank(4, 6));
    if (!this.insert(added)) return;
    this.reveal(added.id);
    announce(`Example ${this.#task.examples.length} added.`);
  }

  /** Every example that is added comes through here; says whether there was room for it. Those of one `stroke` are
   *  undone together. */
  insert(added, { index = this.#task.examples.length, stroke = null } = {}) {
    if (isFull(this.#task)) {
      notice(`A task has at most ${MOST_EXAMPLES} examples: remove one first.`, "problem");
      return false;
    }
    this.#history.change(withAdded(this.#task, added, index), stroke);
    return true;
  }

  reveal(id) {
    const card = this.#cards.get(id);
    card.node.scrollIntoView({ block: "nearest" });
    this.#focus(id);
  }

  #focus(id) {
    this.#cards.get(id).before.node.querySelector("[tabindex='0']").focus({ preventScroll: true });
  }

  /** One Karel is driven at a time: the keyboard is one. */
  stopDriving() {
    for (const card of this.#cards.values()) card.stopDriving();
  }

  /** Shows whether the program at hand does each example: `verdicts` maps ids to {kind: right|wrong, text}. `problems`
   *  maps ids to what is wrong with an example itself; null: that is not known anew. */
  judge(verdicts, problems) {
    for (const [id, card] of this.#cards) {
      card.judge(verdicts.get(id) ?? null);
      if (problems) card.warn(problems.get(id) ?? "");
    }
  }
}
