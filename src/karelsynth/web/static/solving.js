// Solving: the search's progress, what it found, the choice among answers, and the question where they disagree.

import { stream } from "./api.js";
import { announce, button, byId, count, el, icon, prose } from "./dom.js";
import { showQuestion } from "./question.js";
import { pairs } from "./task.js";

const LONGEST_BUDGET = 10;
const OUTDATED = "The examples have changed since: solve again.";

export class Solving {
  #control = null; // of the search that is going on
  #asked = []; // the examples that it is about
  #answers = [];
  #chosen = 0;

  /** `task()` is the task to solve; `onAnswer(answer)` shows one; `onExample` is
   *  told the answer to the question which outcome is meant. */
  constructor({ task, onAnswer, onExample }) {
    Object.assign(this, { task, onAnswer, onExample });
    byId("solve").addEventListener("click", () => this.solve());
    byId("cancel").addEventListener("click", () => this.#control?.abort());
    byId("previous-answer").addEventListener("click", () => this.#choose(this.#chosen - 1));
    byId("next-answer").addEventListener("click", () => this.#choose(this.#chosen + 1));
  }

  async solve() {
    if (this.#control) return;
    const control = new AbortController();
    const budget = Number(byId("budget").value);
    this.clear();
    this.#control = control;
    this.#asked = this.task().examples;
    this.#busy(true);
    this.#progress({ seconds: 0, budget, checked: 0, best: null });
    let best = null;
    let solution = null;
    try {
      const body = { examples: pairs(this.#asked), budget };
      for await (const [event, data] of stream("/api/solve/stream", body, control.signal)) {
        if (this.#control !== control) return;
        if (event === "queued" && data.position > 0) this.#queued(data.position);
        if (event === "progress") {
          best = data.best;
          this.#progress(data);
        }
        if (event === "solution") solution = data;
        if (event === "error") throw new Error(data.message);
      }
      if (this.#control !== control) return;
      if (!solution) throw new Error("The server ended the search without an answer.");
      this.#solution(solution, budget);
    } catch (error) {
      if (this.#control !== control) return;
      if (control.signal.aborted) this.#stopped(best);
      else this.#say("problem", "Something went wrong.", error.message);
    } finally {
      if (this.#control === control) this.#end();
    }
  }

  /** Takes back what was said of the examples: they have changed. A search goes on unless none of its own are left. */
  retract() {
    byId("result").hidden = true;
    byId("ambiguity").hidden = true;
    const left = new Set(this.task().examples.map(({ id }) => id));
    if (this.#control && !this.#asked.some(({ id }) => left.has(id))) this.#drop();
  }

  /** Forgets what was found and what is being searched for: the task is another one now. */
  clear() {
    this.#drop();
    this.#answers = [];
    this.#updateChoice();
    this.retract();
  }

  /** Gives up the search, if there is one; nothing will be heard of it. */
  #drop() {
    if (!this.#control) return;
    const control = this.#control;
    this.#end();
    control.abort();
  }

  #end() {
    this.#control = null;
    this.#busy(false);
  }

  /** Whether the examples have been edited since the search began. */
  get #outdated() {
    return JSON.stringify(pairs(this.task().examples)) !== JSON.stringify(pairs(this.#asked));
  }

  #busy(busy) {
    const [from, to] = busy ? ["solve", "cancel"] : ["cancel", "solve"];
    const held = document.activeElement === byId(from); // focus must not get lost with the button that goes
    byId("solve").disabled = busy;
    byId("progress").hidden = !busy;
    if (held) byId(to).focus({ preventScroll: true });
    byId("solve-panel").setAttribute("aria-busy", String(busy));
  }

  #queued(position) {
    byId("progress-text").textContent = `Waiting: ${count(position, "search", "searches")} before this one`;
  }

  #progress({ seconds, budget, checked, best }) {
    byId("progress-bar").value = Math.min(1, seconds / budget);
    const found = best ? ` · best so far: right on ${rightOf(best)} of ${best.right.length}` : "";
    const tried = checked ? `${count(checked, "program")} tried` : "Looking at the examples…";
    byId("progress-text").textContent = tried + found;
  }

  #solution(solution, budget) {
    const { solved, ambiguity, seconds, checked } = solution;
    const answers = solution.answers.filter(rightOf);
    this.#answers = answers;
    const spent = `${seconds.toFixed(2)} s · ${count(checked, "program")} tried`;
    if (solved) {
      const number = answers[0].right.length;
      const where = ["", "the example", "both examples"][number] ?? `all ${number} examples`;
      const others = answers.length - 1;
      const too = others ? ` ${count(others, "other program fits", "other programs fit")}, too.` : "";
      this.#say("solved", "Solved.", `Right on ${where}.${too}`, `Checked by running it · ${spent}`);
    } else {
      this.#unsolved(answers[0] ?? null, "Not solved.", spent, budget);
    }
    if (answers.length) this.#choose(0);
    else this.#updateChoice();
    if (this.#outdated) this.#note(OUTDATED);
    else if (ambiguity) this.#ask(ambiguity);
  }

  #stopped(found) {
    const best = found && rightOf(found) ? found : null;
    this.#answers = best ? [best] : [];
    if (best?.right.every(Boolean)) {
      this.#say("solved", "Stopped early.", "The best program so far is right on every example.");
    } else {
      this.#unsolved(best, "Stopped.", "", LONGEST_BUDGET);
    }
    if (best) this.#choose(0);
    else this.#updateChoice();
    if (this.#outdated) this.#note(OUTDATED);
  }

  #unsolved(best, headline, spent, budget) {
    const found = best
      ? ` Below is the best one, right on ${rightOf(best)} of ${best.right.length}: a partial answer.`
      : "";
    this.#say("unsolved", headline, `No program was found that is right on every example.${found}`, spent);
    if (budget >= LONGEST_BUDGET) return;
    const longer = () => {
      byId("budget").value = String(LONGEST_BUDGET);
      this.solve();
    };
    byId("result").append(button("button small", longer, {}, `Search for ${LONGEST_BUDGET} s`));
  }

  #say(kind, headline, text, detail = "") {
    const box = byId("result");
    box.dataset.kind = kind;
    box.hidden = false;
    box.replaceChildren(
      icon({ solved: "check", unsolved: "half", problem: "warning" }[kind]),
      el("p", {}, el("strong", {}, headline), " ", ...prose(text)),
    );
    if (detail) this.#note(detail);
    announce(`${headline} ${text}`);
    box.scrollIntoView({ block: "nearest" });
  }

  #note(text) {
    byId("result").append(el("p", { class: "detail" }, text));
  }

  #ask(ambiguity) {
    showQuestion(ambiguity, this.onExample);
    const show = () => byId("ambiguity").scrollIntoView({ block: "nearest" });
    byId("result").append(button("button small", show, {}, "Which do you mean?"));
    announce(`${byId("result").textContent} Choose which outcome is meant.`);
  }

  #choose(index) {
    this.#chosen = index;
    this.#updateChoice();
    this.onAnswer(this.#answers[index]);
  }

  #updateChoice() {
    const total = this.#answers.length;
    byId("answers").hidden = total < 2;
    byId("previous-answer").disabled = this.#chosen === 0;
    byId("next-answer").disabled = this.#chosen >= total - 1;
    byId("answer-number").textContent = `${this.#chosen + 1} of ${total}`;
    const partial = total > 0 && !this.#answers[this.#chosen].right.every(Boolean);
    byId("partial").hidden = !partial;
  }
}

function rightOf(answer) {
  return answer.right.filter(Boolean).length;
}
