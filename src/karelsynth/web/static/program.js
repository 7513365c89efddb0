// The program at hand: an answer of the search or one typed by hand, in one of three dialects.

import { post } from "./api.js";
import { announce, button, byId, copy, debounced, download, el, guarded, notice, prose } from "./dom.js";
import { Editor } from "./editor.js";

export class ProgramPanel {
  #editor = new Editor(() => this.#typed());
  #programs = null; // the answer that is shown, in all dialects; null once it has been edited
  #dialect = "paper";
  #valid = false;
  #revision = 0; // answers of the server to an older text are dropped
  #checkSoon = debounced(() => this.#check(), 250);

  /** `onReady(text)`: there is a program to run; `onBroken()`: there is none any more. */
  constructor({ onReady, onBroken, fileName, world }) {
    Object.assign(this, { onReady, onBroken, fileName, world });
    for (const button of byId("dialects").children) {
      button.addEventListener("click", () => this.#switchTo(button.dataset.dialect));
    }
    byId("copy-program").addEventListener("click", () => this.#copy());
    byId("download-program").addEventListener("click", () => this.#download());
    this.#update();
  }

  /** The text, if it is a program; else null. */
  get text() {
    return this.#valid ? this.#editor.text : null;
  }

  /** Shows an answer of the search. */
  show(answer) {
    this.#revision += 1;
    this.#programs = answer.programs;
    this.#editor.text = answer.programs[this.#dialect];
    this.#accept();
  }

  /** Takes an answer away that belongs to another task; what somebody typed stays. */
  clear() {
    if (!this.#programs) return;
    this.#editor.text = "";
    this.#typed();
  }

  mark(marks) {
    this.#editor.mark(marks);
  }

  #accept() {
    this.#valid = true;
    this.#update();
    this.#showProblem(null);
    this.onReady(this.#editor.text);
  }

  #typed() {
    this.#revision += 1;
    this.#programs = null;
    this.#valid = false;
    this.#update();
    this.onBroken();
    this.#checkSoon();
  }

  async #check() {
    const revision = this.#revision;
    if (!this.#editor.text.trim()) {
      this.#showProblem(null);
      return;
    }
    const result = await guarded(() => post("/api/check", { program: this.#editor.text }));
    if (!result || revision !== this.#revision) return;
    if (result.dialect) this.#dialect = result.dialect;
    if (result.ok) {
      this.#accept();
      return;
    }
    this.#update();
    this.#showProblem(result.problem);
  }

  async #switchTo(dialect) {
    if (dialect === this.#dialect) return;
    if (this.#programs) {
      this.#dialect = dialect;
      this.#editor.text = this.#programs[dialect];
      this.#accept();
      return;
    }
    if (this.#editor.text.trim()) {
      const revision = this.#revision;
      const converted = await guarded(() => post("/api/convert", { program: this.#editor.text, to: dialect }));
      if (!converted || revision !== this.#revision) return; // what was typed meanwhile stays
      this.#revision += 1;
      this.#dialect = dialect;
      this.#editor.text = converted.program;
      this.#accept();
      return;
    }
    this.#dialect = dialect;
    this.#update();
  }

  #update() {
    for (const button of byId("dialects").children) {
      button.setAttribute("aria-pressed", String(button.dataset.dialect === this.#dialect));
    }
    byId("program-frame").dataset.dialect = this.#dialect;
    byId("copy-program").disabled = !this.#editor.text;
    byId("download-program").disabled = !this.#valid;
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
    const asked = { program: this.#editor.text, world: this.world(), name };
    const files = await guarded(() => post("/api/stanford", asked));
    if (!files) return;
    download(`${name}.py`, files.py);
    download(`${name}.w`, files.w);
    notice(`Saved ${name}.py and ${name}.w for Stanford Karel.`);
  }
}
