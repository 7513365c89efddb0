// How far a search is: reports come seldom, so that the bar goes by a clock of its own from one to the next.

import { byId, count } from "./dom.js";

const TICK = 100; // milliseconds

export class Progress {
  #budget = 1;
  #since = null; // when the search began, by the page's clock; null while it waits for its turn
  #timer = 0;

  start(budget) {
    this.#budget = budget;
    byId("progress-bar").value = 0;
    this.report({ seconds: 0, checked: 0, best: null });
    this.#timer = setInterval(() => this.#draw(), TICK);
  }

  stop() {
    clearInterval(this.#timer);
  }

  /** The search has its turn, if it had to wait. */
  begin() {
    this.#since ??= performance.now();
  }

  wait(position) {
    this.#since = null;
    byId("progress-text").textContent = `Waiting: ${count(position, "search", "searches")} before this one`;
  }

  /** The search was requested to stop. */
  finish() {
    byId("progress-text").textContent = "Stopping…";
  }

  report({ seconds, checked, best }) {
    this.#since = performance.now() - 1000 * seconds;
    this.#draw();
    const right = best?.right.filter(Boolean).length;
    const found = best ? ` · best so far: right on ${right} of ${best.right.length}` : "";
    const tried = checked ? `${count(checked, "program")} tried` : "Looking at the examples…";
    byId("progress-text").textContent = tried + found;
  }

  /** Never backwards, even if a report was long on its way. */
  #draw() {
    if (this.#since === null) return;
    const bar = byId("progress-bar");
    const share = (performance.now() - this.#since) / 1000 / this.#budget;
    bar.value = Math.max(bar.value, Math.min(1, share));
  }
}
