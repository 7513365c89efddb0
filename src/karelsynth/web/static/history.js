// One value and its past: undo, redo, and who wants to know of changes. No page in here.

const LONGEST = 500;

export class History {
  #past = [];
  #future = [];
  #value;
  #stroke = null;
  #listeners = [];

  constructor(value) {
    this.#value = value;
  }

  get value() {
    return this.#value;
  }

  get canUndo() {
    return this.#past.length > 0;
  }

  get canRedo() {
    return this.#future.length > 0;
  }

  onChange(listener) {
    this.#listeners.push(listener);
  }

  /** A new value. Changes with the same stroke in a row (a painted line, typed letters) are undone together. */
  change(value, stroke = null) {
    if (value === this.#value) return;
    if (stroke === null || stroke !== this.#stroke) {
      this.#past.push(this.#value);
      if (this.#past.length > LONGEST) this.#past.shift();
    }
    this.#stroke = stroke;
    this.#future = [];
    this.#set(value);
  }

  /** A new value without a past. */
  restart(value) {
    this.#past = [];
    this.#future = [];
    this.#stroke = null;
    this.#set(value);
  }

  undo() {
    this.#step(this.#past, this.#future);
  }

  redo() {
    this.#step(this.#future, this.#past);
  }

  #step(from, to) {
    if (!from.length) return;
    to.push(this.#value);
    this.#stroke = null;
    this.#set(from.pop());
  }

  #set(value) {
    this.#value = value;
    for (const listener of this.#listeners) listener(value);
  }
}
