// The program at hand: an answer of the search or one typed by hand, in one of three dialects. What somebody typed is
// never rewritten: in another dialect, a view of it is shown.

import { post } from "./api.js";
import { announce, button, byId, copy, count, debounced, download, el, guarded, notice, prose } from "./dom.js";
import { Editor, LONGEST } from "./editor.js";
import { Shelf } from "./shelf.js";

const AGAIN = 3000; // milliseconds
const BEGINNINGS = { paper: "def run():\n  move()", stanford: "def main():\n    move()", tokens: "DEF run m( move m)" };
export const DIALECTS = { paper: "Karel", stanford: "Python", tokens: "One line" };

export class ProgramPanel {
  #editor = new Editor(() => this.#typed());
  #shelf = new Shelf(); // what was typed, while an answer is shown
  #programs = null; // the answer that is shown, in all dialects; null once it has been edited
  #answer = null; // the answer that was shown last, edited or not
  #viewed = null; // {text, dialect} that somebody typed, while it is shown in another dialect
  #notes = []; // what the view does not show of it
  #dialect = "paper";
  #valid = false;
  #pending = false; // the text is not checked yet
  #revision = 0; // answers of the server to an older text are dropped
  #checkSoon = debounced(() => this.#check(), 250);

  /** `onReady(text, same)`: there is a program to run, perhaps the same in other words; `onBroken()`: there is none
   *  any more; `onDraft()`: `draft` or `source` has changed; `onMark(marks)`: these places of `source` are marked. */
  constructor({ onReady, onBroken, onDraft, onMark, fileName, world }) {
    Object.assign(this, { onReady, onBroken, onDraft, onMark, fileName, world });
    for (const button of byId("dialects").children) {
      button.addEventListener("click", () => this.#switchTo(button.dataset.dialect));
    }
    byId("other-program").addEventListener("click", () => this.#exchange());
    byId("copy-program").addEventListener("click", () => this.#copy());
    byId("download-program").addEventListener("click", () => this.#download());
    this.#update();
  }

  /** The text, if it is a program; else null. */
  get text() {
    return this.#valid ? this.#editor.text : null;
  }

  /** Whether the text was edited, and it is not known yet whether it is a program. */
  get isPending() {
    return this.#pending;
  }

  /** Whether this is an answer of the search, as it was found. */
  get isAnswer() {
    return this.#programs !== null;
  }

  /** The program as it would be sent to somebody else: what was typed, as it was typed, or the answer. */
  get shared() {
    return this.#ownText || (this.#valid ? this.#editor.text : "");
  }

  /** The lines with breakpoints. */
  get breakpoints() {
    return this.#editor.breakpoints;
  }

  /** What stands at {line, column, width} of the text. */
  excerpt(place) {
    return this.#editor.excerpt(place);
  }

  /** A text that came with the task, as if it had been typed; what was typed before can be had back. */
  open(text) {
    if (this.#ownText) this.#shelf.put(this.#ownText);
    this.#answer = null;
    this.#use(text);
  }

  /** The text that a person works on, as it was typed, and its dialect. */
  get source() {
    return this.#viewed ?? { text: this.#editor.text, dialect: this.#dialect };
  }

  /** Another text in place of that one, as if it had been typed. */
  edit(text) {
    this.#dialect = this.source.dialect;
    this.#use(text);
  }

  /** Begins anew with a text, and forgets all others. */
  start(text, dialect) {
    this.#shelf = new Shelf();
    this.#answer = null;
    this.#dialect = dialect ?? this.#dialect;
    this.#use(text);
  }

  /** What is worth keeping when the page goes: all that was typed, the latest last, and the dialect. */
  get draft() {
    const own = this.#ownText;
    const dialect = this.#viewed?.dialect ?? this.#dialect;
    return { typed: own ? [...this.#shelf.all, own] : this.#shelf.all, isShown: Boolean(own), dialect };
  }

  /** Takes up a draft; `aside` if the task is another one: then what was typed waits behind the button. */
  restore({ typed, dialect }, aside) {
    for (const text of typed) this.#shelf.put(text);
    this.#dialect = dialect ?? this.#dialect;
    if (aside || this.#shelf.isEmpty) this.#update();
    else this.#use(this.#shelf.take());
  }

  /** Shows an answer of the search. What was typed can be had back. */
  show({ programs }) {
    if (this.#ownText) this.#shelf.put(this.#ownText);
    this.#showPrograms(programs);
  }

  /** Takes an answer away that belongs to another task; what somebody typed stays. */
  clear() {
    this.#answer = null;
    if (this.#programs) this.#use("");
    else this.#update();
  }

  mark(marks, next) {
    this.#editor.mark(marks, next);
    this.onMark(this.#viewed ? [] : marks);
  }

  /** The text that is here, if somebody typed it: it differs from the answer. */
  get #ownText() {
    if (this.#viewed) return this.#viewed.text;
    const { text } = this.#editor;
    const answered = this.#programs !== null || this.#answer?.[this.#dialect] === text;
    return !answered && text.trim() ? text : "";
  }

  /** What the button leads back to: "answer", "typed", or null if there is nothing else. */
  get #other() {
    if (this.#ownText && this.#answer) return "answer";
    if (!this.#shelf.isEmpty) return "typed";
    return this.#answer && !this.#programs ? "answer" : null;
  }

  /** From an answer to what was typed, or back: nothing gets lost on the way. */
  #exchange() {
    const other = this.#other;
    const left = this.#ownText;
    const taken = other === "typed" ? this.#shelf.take() : null;
    if (left) this.#shelf.putBehind(left);
    if (other === "answer") this.#showPrograms(this.#answer);
    else this.#use(taken);
    if (byId("other-program").hidden) this.#editor.focus();
  }

  #showPrograms(programs) {
    this.#revision += 1;
    this.#viewed = null;
    this.#programs = programs;
    this.#answer = programs;
    this.#editor.text = programs[this.#dialect];
    this.#accept();
  }

  /** A text in place of the one that is here, as if it had been typed. */
  #use(text) {
    this.#viewed = null;
    this.#editor.text = text;
    this.#typed();
  }

  #accept(same = false) {
    this.#pending = false;
    this.#valid = true;
    this.#update();
    this.#showProblem(null);
    this.onReady(this.#editor.text, same);
  }

  #typed() {
    this.#revision += 1;
    if (this.#viewed) this.#shelf.put(this.#viewed.text); // the view has become a text of its own
    this.#viewed = null;
    this.#programs = null;
    this.#valid = false;
    this.#pending = this.#editor.text.trim() !== "";
    this.#update();
    this.onBroken();
    this.#checkSoon();
  }

  /** Reads the text. If the server does not answer, it is asked again, without a further notice. */
  async #check(read = guarded) {
    const revision = this.#revision;
    const { text } = this.#editor;
    if (!text.trim()) {
      this.#showProblem(null);
      return;
    }
    const isLong = text.length > LONGEST;
    const result = isLong ? { problem: tooLong(text) } : await read(() => post("/api/check", { program: text }));
    if (revision !== this.#revision) return;
    if (result?.dialect) this.#dialect = result.dialect;
    if (result?.ok) {
      this.#accept();
      return;
    }
    this.#pending = false;
    this.#update();
    if (result) this.#showProblem(result.problem);
    else setTimeout(() => revision === this.#revision && this.#check(quietly), AGAIN);
    this.onBroken();
  }

  async #switchTo(dialect) {
    if (dialect === this.#dialect) return;
    if (this.#programs) {
      this.#dialect = dialect;
      this.#editor.text = this.#programs[dialect];
      this.#accept(true);
      return;
    }
    if (this.#editor.text.trim()) {
      await this.#view(dialect);
      return;
    }
    this.#dialect = dialect;
    this.#update();
  }

  /** Shows what was typed in another dialect, or again as it was typed. */
  async #view(dialect) {
    const typed = this.#viewed ?? { text: this.#editor.text, dialect: this.#dialect };
    if (dialect === typed.dialect) {
      this.#showView(typed.text, dialect, null, []);
      return;
    }
    if (!byId("program-problem").hidden) {
      notice(`This is no program yet. Without the mistake, it can be shown as ${DIALECTS[dialect]}.`);
      return;
    }
    const revision = this.#revision;
    const converted = await guarded(() => post("/api/convert", { program: typed.text, to: dialect }));
    if (!converted || revision !== this.#revision) return; // what was typed meanwhile stays
    this.#showView(converted.program, dialect, typed, converted.notes);
  }

  #showView(text, dialect, viewed, notes) {
    this.#revision += 1;
    this.#viewed = viewed;
    this.#notes = notes;
    this.#dialect = dialect;
    this.#editor.text = text;
    this.#accept(true);
  }

  #update() {
    for (const button of byId("dialects").children) {
      button.setAttribute("aria-pressed", String(button.dataset.dialect === this.#dialect));
    }
    byId("program-frame").dataset.dialect = this.#dialect;
    if ("challenge" in document.documentElement.dataset) {
      byId("program-text").placeholder = `Write your program here.\nIt may begin like this:\n\n${BEGINNINGS[this.#dialect]}`;
    }
    byId("program-view").hidden = this.#viewed === null;
    if (this.#viewed) {
      const typed = DIALECTS[this.#viewed.dialect];
      const kept = `A view of your text, which is kept as you typed it (${typed}).`;
      byId("program-view").replaceChildren(...prose([kept, ...this.#notes.map(sentence)].join(" ")));
    }
    byId("copy-program").disabled = !this.#editor.text;
    byId("download-program").disabled = !this.#valid;
    byId("other-program").hidden = this.#other === null;
    byId("other-program").textContent = this.#other === "answer" ? "Back to the answer" : "Back to what you typed";
    this.onDraft();
  }

  #showProblem(problem) {
    const box = byId("program-problem");
    box.hidden = problem === null;
    this.#editor.mark(problem ? [{ kind: "problem", ...problem }] : []);
    if (problem === null) return;
    const place = `Line ${problem.line}, column ${problem.column}`;
    box.replaceChildren(
      button("place", () => this.#editor.select(problem), { title: "Go there" }, place),
      el("span", {}, ...prose(problem.message)),
    );
    if (problem.suggestion) {
      const use = button("button small", () => this.#editor.replace(problem, problem.suggestion), {}, "Use it");
      box.append(el("span", { class: "suggestion" }, ...prose(`Did you mean \`${problem.suggestion}\`? `), use));
    }
    announce(`${place}: ${problem.message}`);
  }

  async #copy() {
    const done = await copy(this.#editor.text);
    notice(done ? "Program copied." : "The browser does not allow that here: select the text and copy it yourself.");
  }

  /** The pair of files that Stanford Karel runs: the program, and the world that is being watched. */
  async #download() {
    const name = this.fileName().replaceAll("-", "_");
    const body = { program: this.#editor.text, world: this.world(), name };
    const files = await guarded(() => post("/api/stanford", body));
    if (!files) return;
    download(`${name}.py`, files.py);
    download(`${name}.w`, files.w);
    notice(`Saved ${name}.py and ${name}.w for Stanford Karel.`);
  }
}

async function quietly(action) {
  return action().catch(() => undefined);
}

/** A note of the server, in the words of the page. */
function sentence(note) {
  const text = note.replace(/^tokens have/, `${DIALECTS.tokens} has`);
  return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

/** The problem of a text that the server would refuse: all that is beyond the limit. */
function tooLong(text) {
  const lines = text.slice(0, LONGEST).split("\n");
  const place = { line: lines.length, column: lines.at(-1).length + 1, width: text.length - LONGEST };
  const [most, much] = [count(LONGEST, "character"), count(text.length, "character")];
  return { ...place, message: `From here on it is too long: a program has at most ${most}, this text has ${much}.` };
}
