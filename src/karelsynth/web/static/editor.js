// The program's text: typed in a plain text field, coloured by a copy that lies exactly under it. In the gutter beside
// it, lines have numbers; a number is a button that sets a breakpoint.

import { announce, button, byId, el } from "./dom.js";
import { offsetOf, pieces } from "./highlight.js";

export const LONGEST = 20_000; // characters that the server reads

export class Editor {
  #field = byId("program-text");
  #paint = byId("program-paint");
  #gutter = byId("program-gutter");
  #frame = byId("program-frame");
  #marks = [];
  #breakpoints = new Set();
  #next = null; // the line that runs next
  #numbered = null; // the text that the gutter has numbers for

  /** `onInput(text)` is called when somebody types; `onBreakpoints(lines)` when a breakpoint is set or taken away. */
  constructor(onInput, onBreakpoints) {
    this.onBreakpoints = onBreakpoints;
    this.#field.addEventListener("input", () => {
      if (this.text === this.#numbered) return; // the browser had nothing to undo
      this.#marks = [];
      this.#next = null;
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
    this.#next = null;
    this.#draw();
  }

  /** The lines with breakpoints, from 1. */
  get breakpoints() {
    return this.#breakpoints;
  }

  /** The line of the cursor, from 1. */
  get line() {
    return this.text.slice(0, this.#field.selectionStart).split("\n").length;
  }

  focus() {
    this.#field.focus();
  }

  /** What stands in a place of the text. */
  excerpt({ line, column, width }) {
    const start = offsetOf(this.text, line, column);
    return this.text.slice(start, start + width).split("\n")[0];
  }

  /** Marks places: [{kind: "running" | "crashed" | "problem", line, column, width}], counted from 1. `next` is the line
   *  that will run next, or null. */
  mark(marks, next = null) {
    this.#marks = marks.map(({ kind, line, column, width }) => {
      const start = offsetOf(this.text, line, column);
      const length = width ?? /^\w*/.exec(this.text.slice(start))[0].length; // the word there, if nothing else is said
      return { kind, line, start, end: Math.max(start + 1, Math.min(this.text.length, start + length)) };
    });
    this.#next = next;
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

  toggleBreakpoint(line) {
    const set = !this.#breakpoints.delete(line);
    if (set) this.#breakpoints.add(line);
    this.#drawGutter();
    announce(set ? `Breakpoint at line ${line}.` : `No breakpoint at line ${line} any more.`);
    this.onBreakpoints?.(this.#breakpoints);
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
    const lines = text.split("\n");
    this.#frame.style.setProperty("--lines", lines.length); // sizes of the projector go by these
    this.#frame.style.setProperty("--columns", Math.max(...lines.map((line) => line.length)));
    this.#number(text, lines);
    this.#drawGutter();
    if (text.length > LONGEST) { // no colours: they would take the browser seconds
      this.#paint.replaceChildren(text.slice(0, LONGEST), el("span", { class: "problem" }, text.slice(LONGEST)), "\n");
      return;
    }
    const nodes = [el("span", { class: "code-line" })];
    const write = (part, classes) => {
      part.split("\n").forEach((piece, index) => {
        if (index) nodes.push(el("span", { class: "code-line" }));
        if (piece) nodes.at(-1).append(classes ? el("span", { class: classes }, piece) : piece);
      });
    };
    for (const { start, end, kind } of pieces(text)) {
      let from = start;
      const cuts = this.#marks.flatMap((mark) => [mark.start, mark.end]).filter((cut) => cut > start && cut < end);
      for (const cut of [...new Set(cuts), end].sort((a, b) => a - b)) {
        const marks = this.#marks.filter((mark) => mark.start <= from && cut <= mark.end).map((mark) => mark.kind);
        write(text.slice(from, cut), [kind && `code-${kind}`, ...marks].filter(Boolean).join(" "));
        from = cut;
      }
    }
    if (this.#marks.some((mark) => mark.start >= text.length)) write(" ", "problem");
    for (const { line, kind } of this.#marks) if (kind !== "problem") nodes[line - 1]?.classList.add(`line-${kind}`);
    for (const node of nodes) node.append("\n"); // an empty line is as high as any other
    this.#paint.replaceChildren(...nodes);
  }

  /** A number for each line. Beside it is the line's own text, unseen, so that it wraps as the line does. */
  #number(text, lines) {
    if (text === this.#numbered) return;
    this.#numbered = text;
    for (const line of this.#breakpoints) if (line > lines.length) this.#breakpoints.delete(line);
    if (!text || text.length > LONGEST) {
      this.#gutter.replaceChildren();
      return;
    }
    this.#gutter.replaceChildren(
      ...lines.map((line, index) => {
        const toggle = button("line-number", () => this.toggleBreakpoint(index + 1), { tabindex: -1 }, `${index + 1}`);
        return el("div", { class: "gutter-line" }, toggle, el("span", { "aria-hidden": "true" }, `${line}\n`));
      }),
    );
  }

  #drawGutter() {
    [...this.#gutter.children].forEach((row, index) => {
      const line = index + 1;
      const set = this.#breakpoints.has(line);
      row.classList.toggle("next", line === this.#next);
      const toggle = row.firstChild;
      toggle.setAttribute("aria-pressed", String(set));
      toggle.setAttribute("aria-label", `Breakpoint at line ${line}`);
      toggle.title = set ? "Do not stop here any more (F9)" : "Stop here (F9)";
    });
  }

  /** Enter keeps the indentation and deepens it after a colon. Tab stays the page's, for those without a mouse. */
  #key(event) {
    if (event.key === "F9" && this.text) {
      event.preventDefault();
      this.toggleBreakpoint(this.line);
    }
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
