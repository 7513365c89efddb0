// One example: a world before, a world after, and what can be done with them.

import { post } from "./api.js";
import { announce, button, el, guarded, icon, iconButton, notice } from "./dom.js";
import { Grid } from "./grid.js";
import { sizeInputs } from "./size.js";
import {
  buriesOther, example, isFull, withInput, withMoved, withNothingChanged, withOutputReset, withSide, withSize, without,
} from "./task.js";
import { equal, parse } from "./world.js";

const PAD = {
  turnLeft: ["turn-left", "Turn left"],
  move: ["move", "Move"],
  turnRight: ["turn-right", "Turn right"],
  putMarker: ["put", "Put a marker"],
  pickMarker: ["pick", "Pick a marker"],
};
const DRIVING = "Driving: up moves, left and right turn, space puts a marker, backspace picks one, escape ends.";

export class Card {
  #history;
  #id;
  #title = el("h3", { class: "card-title" });
  #verdict = button("verdict", () => this.#list.onWatch(this.#id), { hidden: true });
  #size = sizeInputs((rows, cols) => this.#change(withSize(this.#task, this.#id, rows, cols)));
  #hint = el("p", { class: "hint" });
  #problem = el("p", { class: "example-problem", hidden: true });
  #bump = ""; // why Karel could not do what it was driven to do last
  #same = button("button small", () => this.#change(withNothingChanged(this.#task, this.#id)), {}, "Nothing changes");
  #list;

  /** `history` holds the task; `tool()` is the chosen one; `list` holds all cards. */
  constructor(history, id, tool, list) {
    this.#history = history;
    this.#id = id;
    this.#list = list;
    this.before = new Grid("Before", { tool, onEdit: (world, stroke) => this.#edit("input", world, stroke) });
    this.after = new Grid("After", { tool, onEdit: (world, stroke) => this.#edit("output", world, stroke) });
    this.after.onBump = (problem) => this.#bumped(problem);
    this.#build();
    for (const node of [this.after.node, this.pad]) node.addEventListener("keydown", (event) => this.#key(event));
    this.pad.addEventListener("keydown", (event) => {
      if (event.key !== " " && event.key !== "Enter") this.after.press(event); // these two press the button
    });
  }

  get #task() {
    return this.#history.value;
  }

  get #index() {
    return this.#task.examples.findIndex((one) => one.id === this.#id);
  }

  #build() {
    const driving = { "aria-pressed": "false", title: "Drive Karel with the arrow keys (D)" };
    this.driveButton = button("button small", () => this.#drive(!this.after.driving), driving, icon("drive"), "Drive");
    const startOver = () => this.#change(withOutputReset(this.#task, this.#id));
    this.reset = iconButton("reset", "Start over: make After a copy of Before", startOver, "button quiet square small");
    this.earlier = iconButton("earlier", "Move this example earlier", () => this.#move(-1));
    this.later = iconButton("later", "Move this example later", () => this.#move(1));
    this.copy = iconButton("copy", "Copy this example", () => this.#copy());
    this.remove = iconButton("remove", "Remove this example", () => this.#remove());
    this.pad = el("div", { class: "pad", role: "group", "aria-label": "Drive Karel", hidden: true });
    for (const [action, [name, label]] of Object.entries(PAD)) {
      // After a click the arrow keys drive Karel; after a key press the focus stays at the button.
      const press = (event) => this.after.perform(action, event.detail > 0);
      this.pad.append(iconButton(name, label, press, "button square"));
    }
    const enlarge = () => {
      this.node.classList.toggle("large");
      this.node.scrollIntoView({ block: "start" });
    };
    const head = el(
      "header",
      { class: "card-head" },
      this.#title,
      this.#verdict,
      el(
        "div",
        { class: "card-actions" },
        iconButton("dice", "A random world", () => this.#random()),
        this.copy,
        this.earlier,
        this.later,
        iconButton("enlarge", "Make this example larger or smaller", enlarge, "button quiet square enlarge"),
        this.remove,
      ),
    );
    const pair = el(
      "div",
      { class: "pair" },
      side("Before", this.#size.node, this.before.node),
      el("div", { class: "pair-arrow", "aria-hidden": "true" }, icon("arrow")),
      side("After", el("span", { class: "side-tools" }, this.reset, this.driveButton), this.after.node, this.pad),
    );
    this.node = el("li", { class: "card example" }, head, pair, this.#problem, this.#hint);
  }

  update(one, index, total) {
    this.#title.textContent = `Example ${index + 1}`;
    this.before.label = `Example ${index + 1}, before`;
    this.after.label = `Example ${index + 1}, after`;
    this.before.update(one.input);
    this.after.update(one.output);
    this.#size.update(one.input.rows, one.input.cols);
    const same = equal(one.input, one.output);
    this.reset.disabled = same;
    this.node.classList.toggle("open", !one.touched);
    this.#bump = "";
    this.#showHint(one, same);
    this.earlier.disabled = index === 0;
    this.later.disabled = index === total - 1;
    this.remove.disabled = total === 1;
    this.copy.disabled = isFull(this.#task);
  }

  /** What to do next with this example, or why Karel did not do what it was told. */
  #showHint(one, same) {
    const driving = "↑ move · ← → turn · Space put · Backspace pick · Esc done";
    const parts = [];
    if (this.#bump) parts.push(this.#bump);
    else if (this.after.driving) parts.push(driving);
    else if (!one.touched) parts.push("After is still the same as Before: draw it, or drive Karel there. ", this.#same);
    else if (same) parts.push("After is the same as Before: nothing changes in this example.");
    this.#hint.replaceChildren(...parts);
    this.#hint.classList.toggle("bumped", Boolean(this.#bump));
    this.#hint.hidden = !parts.length;
  }

  #bumped(problem) {
    this.#bump = `${problem[0].toUpperCase()}${problem.slice(1)}.`;
    const one = this.#task.examples[this.#index];
    this.#showHint(one, equal(one.input, one.output));
  }

  /** Shows what is wrong with the example itself, or nothing if the text is empty. */
  warn(text) {
    this.#problem.hidden = !text;
    this.#problem.replaceChildren(icon("warning"), el("span", {}, text));
  }

  judge(verdict) {
    this.#verdict.hidden = verdict === null;
    if (verdict === null) return;
    this.#verdict.dataset.kind = verdict.kind;
    this.#verdict.title = `${verdict.text}. Click to watch.`;
    const [picture, word] = verdict.kind === "right" ? ["check", "Right"] : ["cross", "Wrong"];
    this.#verdict.replaceChildren(icon(picture), word);
  }

  #change(task, stroke = null) {
    this.#history.change(task, stroke);
  }

  #edit(side, world, stroke) {
    if (buriesOther(this.#task, this.#id, side, world)) {
      notice(`Karel stands there in ${side === "input" ? "After" : "Before"}: walls belong to both worlds.`);
      return;
    }
    this.#change(withSide(this.#task, this.#id, side, world), stroke && `${stroke} ${this.#id}`);
  }

  #key(event) {
    if (event.key.toLowerCase() === "d" && !event.ctrlKey && !event.metaKey) this.#drive(!this.after.driving);
    if (event.key === "Escape") this.stopDriving();
  }

  stopDriving() {
    if (this.after.driving) this.#drive(false);
  }

  #drive(on) {
    if (on) this.#list.stopDriving();
    this.after.drive(on);
    this.driveButton.setAttribute("aria-pressed", String(on));
    this.pad.hidden = !on;
    const index = this.#index;
    this.update(this.#task.examples[index], index, this.#task.examples.length);
    if (on) this.#hint.scrollIntoView({ block: "nearest" }); // it is below the buttons
    announce(on ? DRIVING : "Driving ended.");
  }

  #copy() {
    const { input, output } = this.#task.examples[this.#index];
    const copied = example(input, output, this.#task.examples[this.#index].touched);
    if (this.#list.insert(copied, { index: this.#index + 1 })) this.#list.reveal(copied.id);
  }

  #move(by) {
    this.#change(withMoved(this.#task, this.#id, by));
    const [wanted, other] = by < 0 ? [this.earlier, this.later] : [this.later, this.earlier];
    (wanted.disabled ? other : wanted).focus();
    announce(`Now example ${this.#index + 1} of ${this.#task.examples.length}.`);
  }

  #remove() {
    const index = this.#index;
    this.#change(without(this.#task, this.#id));
    this.#list.reveal(this.#task.examples[Math.min(index, this.#task.examples.length - 1)].id);
    announce(`Example ${index + 1} removed. Undo brings it back.`);
  }

  async #random() {
    const { input } = this.#task.examples[this.#index];
    const made = await guarded(() => post("/api/random-world", { rows: input.rows, cols: input.cols, seed: null }));
    if (made && this.#index >= 0) this.#change(withInput(this.#task, this.#id, parse(made.world)));
  }
}

/** One of the two worlds, with its name and what belongs to it above. */
function side(name, more, ...content) {
  const head = el("div", { class: "side-head" }, el("span", { class: "side-name" }, name), more);
  return el("div", { class: "side" }, head, ...content);
}
