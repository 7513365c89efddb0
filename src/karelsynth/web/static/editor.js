// The program's text: typed in a plain text field, coloured by a copy that lies exactly under it.

import { byId, el } from "./dom.js";
import { offsetOf, pieces } from "./highlight.js";

export const LONGEST = 20_000; // characters that the server reads

export class Editor {
  #field = byId("program-text");
  #paint = byId("program-paint");
  #frame = byId("program-frame");
  #marks = [];

  /** `onInput(text)` is called when somebody types. */
  constructor(onInput) {
    this.#field.addEventListener("input", () => {
      this.#marks = [];
      this.#draw();
      onInput(this.text);
    });
    this.#field.addEventListener("keydown", (event) => this.#key(event));
    this.#draw();
  }

  get text() {
    return this.#field.value;
  }

  set text(text) {
    if (text === this.text) return;
    this.#field.value = text;
    this.#marks = [];
    this.#draw();
  }

  focus() {
    this.#field.focus();
  }

  /** Marks places: [{kind: "running" | "crashed" | "problem", line, column, width}], counted from 1. */
  mark(marks) {
    this.#marks = marks.map(({ kind, line, column, width }) => {
      const start = offsetOf(this.text, line, column);
      const length = width ?? /^\w*/.exec(this.text.slice(start))[0].length; // the word there, if nothing else is said
      return { kind, start, end: Math.max(start + 1, Math.min(this.text.length, start + length)) };
    });
    this.#field.setAttribute("aria-invalid", String(marks.some((mark) => mark.kind === "problem")));
    this.#draw();
    this.#reveal(this.#paint.querySelector(".running, .crashed"));
  }

  /** Scrolls the text, never the page, until a marked piece can be seen. */
  #reveal(piece) {
    if (!piece) return;
    const box = this.#frame.getBoundingClientRect();
    const { top, bottom } = piece.getBoundingClientRect();
    if (top < box.top) this.#frame.scrollTop -= box.top - top + 24;
    if (bottom > box.bottom) this.#frame.scrollTop += bottom - box.bottom + 24;
  }

  /** Puts the cursor at a place. */
  select({ line, column, width }) {
    const start = offsetOf(this.text, line, column);
    this.#field.focus();
    this.#field.setSelectionRange(start, start + (width || 0));
  }

  replace({ line, column, width }, replacement) {
    const start = offsetOf(this.text, line, column);
    this.#field.focus();
    this.#insert(replacement, start, start + width);
  }

  /** As if it were typed, so that the browser's own undo knows of it. */
  #insert(text, start, end) {
    this.#field.setSelectionRange(start, end);
    if (document.execCommand("insertText", false, text)) return; // the browser then sends the input event
    this.#field.setRangeText(text, start, end, "end");
    this.#field.dispatchEvent(new Event("input"));
  }

  #draw() {
    const text = this.text;
    const nodes = [];
    if (text.length > LONGEST) { // no colours: they would take the browser seconds
      this.#paint.replaceChildren(text.slice(0, LONGEST), el("span", { class: "problem" }, text.slice(LONGEST)), "\n");
      return;
    }
    for (const { start, end, kind } of pieces(text)) {
      let from = start;
      const cuts = this.#marks.flatMap((mark) => [mark.start, mark.end]).filter((cut) => cut > start && cut < end);
      for (const cut of [...new Set(cuts), end].sort((a, b) => a - b)) {
        const marks = this.#marks.filter((mark) => mark.start <= from && cut <= mark.end).map((mark) => mark.kind);
        const classes = [kind && `code-${kind}`, ...marks].filter(Boolean).join(" ");
        const piece = text.slice(from, cut);
        nodes.push(classes ? el("span", { class: classes }, piece) : piece);
        from = cut;
      }
    }
    if (this.#marks.some((mark) => mark.start >= text.length)) nodes.push(el("span", { class: "problem" }, " "));
    this.#paint.replaceChildren(...nodes, "\n");
  }

  /** Enter keeps the indentation and deepens it after a colon. Tab stays the page's, for those without a mouse. */
  #key(event) {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    const before = this.text.slice(0, this.#field.selectionStart);
    const line = before.slice(before.lastIndexOf("\n") + 1);
    const margin = /^\s*/.exec(line)[0];
    const unit = /\bdef main\b/.test(this.text) ? "    " : "  ";
    const deeper = /:\s*$/.test(line) ? unit : "";
    this.#insert(`\n${margin}${deeper}`, this.#field.selectionStart, this.#field.selectionEnd);
  }
}
