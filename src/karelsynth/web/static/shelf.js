// Programs that somebody typed and that another text has replaced, so that none is lost. No page in here.

const MOST = 20;

export class Shelf {
  #texts = []; // the last one is the next to come back

  get all() {
    return [...this.#texts];
  }

  get isEmpty() {
    return this.#texts.length === 0;
  }

  /** `text` comes back next. */
  put(text) {
    this.#texts = [...this.#without(text), text].slice(-MOST);
  }

  /** `text` comes back after all others, so that a person who looks for an older one finds that first. */
  putBehind(text) {
    this.#texts = [text, ...this.#without(text).slice(1 - MOST)];
  }

  take() {
    return this.#texts.pop();
  }

  #without(text) {
    return this.#texts.filter((other) => other !== text);
  }
}
