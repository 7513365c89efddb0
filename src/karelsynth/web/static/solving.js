// Solving: the search's progress, what it found, the choice among answers, and the question where they disagree.

import { post, stream } from "./api.js";
import { announce, button, byId, count, el, enablePair, icon, prose } from "./dom.js";
import { Progress } from "./progress.js";
import { showQuestion } from "./question.js";
import { advice, listed, renumbered, sureness } from "./sure.js";
import { filled, pairs } from "./task.js";

const LONGEST_BUDGET = 10;
const PATIENCE = 2000; // milliseconds that a cancelled search may take to say what it has found
const OUTDATED = "The examples have changed since: solve again.";
const BELOW = matchMedia("(max-width: 76rem)"); // the answer is below the examples, as in layout.css

export class Solving {
  #control = null; // of the search that is going on
  #id = null; // by which the server knows it, once it has said so
  #stopping = 0; // the timer that runs after a request to stop
  #solved = []; // the examples of the last search: those that were filled in
  #numbers = []; // their numbers on the page
  #answers = [];
  #chosen = 0;
  #progress = new Progress();

  /** `task()` is the task to solve; `onAnswer(answer)` shows one, or none where it is null; `onExample`
   *  gets the outcome that the person has chosen. */
  constructor({ task, onAnswer, onExample }) {
    Object.assign(this, { task, onAnswer, onExample });
    byId("solve").addEventListener("click", () => this.solve());
    byId("cancel").addEventListener("click", () => this.#cancel());
    byId("previous-answer").addEventListener("click", () => this.#choose(this.#chosen - 1));
    byId("next-answer").addEventListener("click", () => this.#choose(this.#chosen + 1));
  }

  async solve() {
    if (this.#control) return;
    const control = new AbortController();
    const budget = Number(byId("budget").value);
    this.clear();
    const { examples } = this.task();
    this.#solved = filled(examples);
    this.#numbers = this.#solved.map((one) => examples.indexOf(one) + 1);
    if (!this.#solved.length) {
      const how = "Draw what After looks like, or drive Karel there, and then solve.";
      this.#say("problem", "No example is filled in yet.", how);
      return;
    }
    this.#control = control;
    this.#busy(true);
    this.#progress.start(budget);
    let best = null;
    let solution = null;
    try {
      const body = { examples: pairs(this.#solved), budget };
      const { problems } = await post("/api/judge", { examples: body.examples }, control.signal);
      if (this.#control !== control) return;
      if (problems.length) { // no search would find anything
        this.#impossible(problems);
        return;
      }
      for await (const [event, data] of stream("/api/solve/stream", body, control.signal)) {
        if (this.#control !== control) return;
        if (event === "accepted") this.#id = data.id;
        if (event === "progress") best = data.best;
        if (event === "solution") solution = data;
        if (!this.#stopping) this.#report(event, data);
      }
      if (this.#control !== control) return;
      if (!solution) throw new Error("The server ended the search without an answer.");
      this.#solution(solution, budget);
    } catch (error) {
      if (this.#control !== control) return;
      if (solution) this.#solution(solution, budget); // it was all there; only the end of the stream was not
      else if (control.signal.aborted) this.#stopped(best);
      else this.#problem(error);
    } finally {
      if (this.#control === control) this.#end();
    }
  }

  #report(event, data) {
    if (event === "queued" && data.position > 0) this.#progress.wait(data.position);
    if (event === "queued" && data.position === 0) this.#progress.begin();
    if (event === "progress") this.#progress.report(data);
  }

  /** Requests the server to stop the search; it then sends everything that it has found. If it does not do so soon, or
   *  cannot be reached, the best program reported so far is shown. */
  #cancel() {
    const control = this.#control;
    if (!control || this.#stopping) return;
    const giveUp = () => control.abort();
    if (!this.#id) {
      giveUp();
      return;
    }
    this.#progress.finish();
    this.#stopping = setTimeout(giveUp, PATIENCE);
    // A refusal means that the search has just ended: its answer is on its way.
    post("/api/solve/stop", { id: this.#id }, control.signal).catch((error) => error.isRefusal || giveUp());
  }

  /** Hides the result: the examples have changed. If none of the search's examples is left, the task is another one:
   *  the search is cancelled and its answers are removed. */
  retract() {
    byId("result").hidden = true;
    byId("ambiguity").hidden = true;
    const left = new Set(this.task().examples.map(({ id }) => id));
    if (!this.#solved.length || this.#solved.some(({ id }) => left.has(id))) return;
    this.#solved = [];
    this.#drop();
    this.#show([]);
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
    clearTimeout(this.#stopping);
    this.#control = null;
    this.#id = null;
    this.#stopping = 0;
    this.#progress.stop();
    this.#busy(false);
  }

  /** Whether the examples have been edited since the search began. */
  get #outdated() {
    return JSON.stringify(pairs(filled(this.task().examples))) !== JSON.stringify(pairs(this.#solved));
  }

  #busy(busy) {
    const [from, to] = busy ? ["solve", "cancel"] : ["cancel", "solve"];
    const held = document.activeElement === byId(from); // focus must not get lost with the button that goes
    byId("solve").disabled = busy;
    byId("progress").hidden = !busy;
    if (held) byId(to).focus({ preventScroll: true });
    byId("solve-panel").setAttribute("aria-busy", String(busy));
  }

  #solution(solution, budget) {
    const { solved, ambiguity, support, seconds, checked, stopped } = solution;
    const answers = solution.answers.filter(rightOf);
    const spent = `${seconds.toFixed(2)} s · ${count(checked, "program")} tried`;
    if (!solved) {
      const [headline, longest] = stopped ? ["Stopped.", LONGEST_BUDGET] : ["Not solved.", budget];
      this.#unsolved(answers[0] ?? null, headline, spent, longest);
      if (this.#outdated) this.#note(OUTDATED);
      return;
    }
    const [number, others] = [answers[0].right.length, answers.length - 1];
    const where = ["", "the example", "both examples"][number] ?? `all ${number} examples`;
    const [{ probability }, asks] = [answers[0], Boolean(ambiguity) && !this.#outdated];
    const sure = sureness({ support, probability, examples: number, others, asks });
    const too = others && !sure ? ` ${count(others, "other program fits", "other programs fit")}, too.` : "";
    this.#say("solved", stopped ? "Stopped early." : "Solved.", `Right on ${where}.${too}`);
    if (sure) this.#sure(sure, support);
    this.#note(`Checked by running it · ${spent}`);
    this.#show(answers);
    if (this.#outdated) this.#note(OUTDATED);
    else if (ambiguity) this.#ask(ambiguity);
    this.#reveal();
  }

  /** How sure the answer is, why, and what would help. */
  #sure({ word, reason, help }, support) {
    const text = [` ${reason}`, help].filter(Boolean).join(" ");
    const bars = el("span", { class: "sure-bars", "aria-hidden": "true" }, el("i"), el("i"), el("i"));
    byId("result").append(el("p", { class: "sure", "data-support": support }, bars, el("strong", {}, word), text));
    announce(`${byId("result").textContent}`);
  }

  /** A task that cannot be solved, such as one that contradicts itself, is nobody's failure. */
  #problem(error) {
    const text = renumbered(error.message, this.#numbers);
    this.#say("problem", error.isRefusal ? "Look at the examples again." : "Something went wrong.", text);
    this.#reveal();
  }

  #impossible(problems) {
    const told = problems.map(({ example, message }) => {
      return `Example ${this.#numbers[example - 1]}: ${renumbered(message, this.#numbers)}`;
    });
    this.#say("problem", "Look at the examples again.", told.join(" "));
    this.#reveal();
  }

  /** What can be said of a search that was given up: only what it had reported. */
  #stopped(found) {
    const best = found && rightOf(found) ? found : null;
    if (best?.right.every(Boolean)) {
      this.#say("solved", "Stopped early.", "The best program so far is right on every example.");
      this.#show([best]);
    } else {
      this.#unsolved(best, "Stopped.", "", LONGEST_BUDGET);
    }
    if (this.#outdated) this.#note(OUTDATED);
    this.#reveal();
  }

  /** What was tried, and what would help. The closest program is one click away: it is not what was asked for. */
  #unsolved(best, headline, spent, budget) {
    const right = best ? this.#numbers.filter((_, index) => best.right[index]) : [];
    const which = right.length === 1 ? `example ${right[0]}` : `examples ${listed(right)}`;
    const closest = best ? ` The closest one is right on ${which}, and wrong on the others.` : "";
    const none = "No program was found that is right on every example.";
    this.#say("unsolved", headline, `${none}${closest}`, spent);
    this.#show([]);
    const cells = Math.max(...this.#solved.map(({ input }) => input.rows * input.cols));
    const canSearchLonger = budget < LONGEST_BUDGET;
    const tips = advice({ right: best?.right ?? [], numbers: this.#numbers, cells, canSearchLonger });
    byId("result").append(
      el("p", {}, el("strong", {}, "What would help")),
      el("ul", { class: "tips" }, ...tips.map((tip) => el("li", {}, tip))),
    );
    const row = el("p", { class: "result-actions" });
    if (canSearchLonger) row.append(button("button small", () => this.#longer(), {}, `Search for ${LONGEST_BUDGET} s`));
    if (best) row.append(button("button small", () => this.#showPartial(best), {}, "Show the closest program"));
    if (row.children.length) byId("result").append(row);
    this.#reveal();
  }

  #longer() {
    byId("budget").value = String(LONGEST_BUDGET);
    this.solve();
  }

  #showPartial(best) {
    this.#show([best]);
    byId("program-card").scrollIntoView({ block: "nearest" });
    byId("program-text").focus({ preventScroll: true });
  }

  /** On a small screen, the result and what follows come into view; nothing of it is behind the bar with Solve. */
  #reveal() {
    const block = BELOW.matches ? "start" : "nearest";
    byId(BELOW.matches ? "bench" : "result").scrollIntoView({ block });
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
  }

  #note(text) {
    byId("result").append(el("p", { class: "detail" }, text));
  }

  #ask(ambiguity) {
    showQuestion({ ...ambiguity, change: renumbered(ambiguity.change, this.#numbers) }, this.onExample);
    announce(`${byId("result").textContent} Which do you mean? ${byId("ambiguity-change").textContent}`);
  }

  /** The answers of a search; where there are none, no older one may be taken for its answer. */
  #show(answers) {
    this.#answers = answers;
    if (answers.length) {
      this.#choose(0);
      return;
    }
    this.#updateChoice();
    this.onAnswer(null);
  }

  #choose(index) {
    this.#chosen = index;
    this.#updateChoice();
    this.onAnswer(this.#answers[index]);
  }

  #updateChoice() {
    const total = this.#answers.length;
    const [previous, next] = [byId("previous-answer"), byId("next-answer")];
    byId("answers").hidden = total < 2;
    enablePair(previous, this.#chosen > 0, next, this.#chosen < total - 1);
    byId("answer-number").textContent = `${this.#chosen + 1} of ${total}`;
  }
}

function rightOf(answer) {
  return answer.right.filter(Boolean).length;
}
