// How far a search is. Reports are rare; between two of them, the bar and the seconds go by the page's own clock.

import { byId, count } from "./dom.js";

const TICK = 100; // milliseconds

export class Progress {
  #budget = 1;
  #since = null; // when the search began, by the page's clock; null while it waits for its turn
  #shown = 0; // the seconds that were shown last
  #said = ""; // what the last report said
  #timer = 0;

  start(budget) {
    this.#budget = budget;
    this.#shown = 0;
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
    this.stop();
    byId("progress-text").textContent = "Stopping…";
  }

  report({ seconds, checked, best }) {
    this.#since = performance.now() - 1000 * seconds;
    const right = best?.right.filter(Boolean).length;
    const found = best ? ` · closest so far: right on ${right} of ${best.right.length}` : "";
    this.#said = checked ? `${count(checked, "program")} tried${found}` : "Looking at the examples…";
    this.#draw();
  }

  /** Never backwards, even if a report was long on its way, or the search waited between two rounds. */
  #draw() {
    if (this.#since === null) return;
    const seconds = Math.min((performance.now() - this.#since) / 1000, this.#budget);
    this.#shown = Math.max(this.#shown, seconds);
    byId("progress-bar").value = this.#shown / this.#budget;
    byId("progress-text").textContent = `${this.#shown.toFixed(1)} of ${this.#budget} s · ${this.#said}`;
  }
}
