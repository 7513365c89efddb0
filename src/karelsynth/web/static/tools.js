// The painting tools: one choice for the whole page, shown wherever worlds are drawn.

import { button, el, icon } from "./dom.js";

const TOOLS = {
  karel: ["karel", "Karel", "Place Karel; click it again to turn it"],
  wall: ["wall", "Wall", "Build walls; start on a wall to take walls down"],
  add: ["marker", "Marker", "Put markers, one more with each click"],
  take: ["marker-less", "Take", "Take markers away, one with each click"],
  erase: ["eraser", "Erase", "Empty cells (also the right mouse button)"],
};

export class Tools {
  #current = "karel";
  #bars = [];

  get current() {
    return this.#current;
  }

  /** A bar of buttons, of which one is pressed; arrow keys go from one to the next. */
  bar() {
    const bar = el("div", { class: "tools", role: "radiogroup", "aria-label": "Drawing tool" });
    for (const [name, [picture, label, title]] of Object.entries(TOOLS)) {
      const attributes = { role: "radio", "aria-label": label, title, "data-tool": name };
      bar.append(button("tool", () => this.#choose(name), attributes, icon(picture), el("span", {}, label)));
    }
    bar.addEventListener("keydown", (event) => this.#key(event, bar));
    this.#bars.push(bar);
    this.#choose(this.#current);
    return bar;
  }

  #choose(name) {
    this.#current = name;
    document.documentElement.dataset.tool = name;
    for (const button of this.#bars.flatMap((bar) => [...bar.children])) {
      const chosen = button.dataset.tool === name;
      button.setAttribute("aria-checked", String(chosen));
      button.setAttribute("tabindex", chosen ? 0 : -1);
    }
  }

  #key(event, bar) {
    const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!by) return;
    event.preventDefault();
    const names = Object.keys(TOOLS);
    this.#choose(names[(names.indexOf(this.#current) + by + names.length) % names.length]);
    bar.querySelector("[aria-checked='true']").focus();
  }
}
