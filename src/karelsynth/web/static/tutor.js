// The tutor: what a program does instead of what it should, hints by level, a repair that is accepted line by line,
// whether a task is clear, and more tasks of its kind.

import { post } from "./api.js";
import { ACTIONS } from "./blocktree.js";
import { Board, picturePair } from "./board.js";
import { applied, changesOf, wordsOf } from "./changes.js";
import { MOST_HINTS } from "./classwork.js";
import { announce, button, byId, count, debounced, el, guarded, icon, notice, prose, whileBusy } from "./dom.js";
import { ending } from "./run.js";
import { contradict, filled, fromJson, pairs } from "./task.js";
import { differences, parse } from "./world.js";

const MORE = 4; // exercises that are asked for at once
const CONTEXT = 1; // lines around a change
const NOT_ALL_TESTS =
  "The program is right on every example that you see, but not on every hidden test. What other worlds could there be?";
const PROVES_NOTHING = "Wrong programs that were not tried may still pass.";
const HEAD = /^(from stanfordkarel import \*|def (run|main)\(\):?)$/;
const NO_PROGRAM = "No program yet";
const ASK = ["Where should I look?", "What kind of change?", "Show me the change"];

/** After how many steps of a run its n-th action is done; null if there are fewer, as it failed there. */
export function placeOfAction(steps, number) {
  let actions = 0;
  const place = steps.findIndex(({ token }) => ACTIONS.includes(token) && ++actions === number);
  return place < 0 ? null : place + 1;
}

/** Whether there is no statement in a text yet. */
export function isUnwritten(text) {
  const lines = text.split("\n").map((line) => line.trim());
  return lines.every((line) => !line || line.startsWith("#") || HEAD.test(line));
}

export class Tutor {
  #text = null; // the program that is graded
  #source = ""; // the text as it was typed
  #examples = [];
  #asked = ""; // the examples and rules, to tell whether they are others
  #rules = null; // of the challenge: {hidden, hiddenCount, hints, served}; null where somebody poses a task
  #grade = null;
  #chosen = 0; // the place of the wrong example that is shown
  #hint = null; // {level, answer, parts, accepted}
  #running = null;
  #gradeSoon = debounced(() => this.#ask(), 150);

  /** `source()` is the text that a person works on; `edit(text)` puts another in its place; `isPending()`: it was
   *  edited and is being read; `jump(id, choose)` shows a run; `number(id)` is that of an example; `onGrade(grade)`: a
   *  program was graded, or null; `onExamples(list)` gets further examples, and says how many there was room for;
   *  `onTasks(list)` opens exercises; `onCollect(list)` puts them into a class set; `onHint(level)`: one was seen. */
  constructor(callbacks) {
    Object.assign(this, callbacks);
    this.title = el("h3", { class: "card-title", id: "tutor-title" }, "Tutor");
    this.status = el("span", { class: "verdict", role: "status", hidden: true });
    this.ask = button("button small", () => this.#askHint(), {}, icon("help-icon"), el("span", {}, ASK[0]));
    this.clear = button("button small", () => this.#probe(false), {}, "Is my task clear?");
    this.more = button("button small", () => this.#pose(), {}, "More like this");
    const head = el("header", { class: "card-head" }, this.title, this.status, this.ask, this.clear, this.more);
    this.wrong = el("div", { class: "tutor-wrong", hidden: true });
    this.help = el("div", { class: "tutor-help", hidden: true, tabindex: -1, role: "region", "aria-label": "Hint" });
    this.found = el("div", { class: "tutor-found", hidden: true, role: "region", "aria-label": "Answer of the tutor" });
    const named = { class: "card", "aria-labelledby": "tutor-title" };
    byId("tutor").append(el("section", named, head, this.wrong, this.help, this.found));
  }

  /** The program to judge, or null; the examples; in a challenge, its rules. */
  update(text, examples, rules = null) {
    if (text === null && this.isPending()) return; // what is here stays: most of it will be needed again
    const counted = filled(examples);
    const source = this.source().text;
    const posed = JSON.stringify([pairs(counted), rules]);
    const same = this.#text === text && posed === this.#asked;
    this.#asked = posed;
    this.#rules = rules;
    this.#examples = counted;
    this.#text = text;
    if (same && source === this.#source) return;
    this.#source = source;
    if (this.#hint && source !== this.#hint.shown) this.#forgetHint();
    this.found.hidden = true;
    this.#running?.abort();
    this.#gradeSoon();
  }

  async #ask() {
    const text = this.#text;
    if (text === null && this.#canBegin) {
      this.#showBeginning();
      return;
    }
    if (text === null || !this.#examples.length || contradict(this.#examples)) { // the examples say so themselves
      this.#show(null);
      return;
    }
    this.#running = new AbortController();
    const { signal } = this.#running;
    const body = { ...this.#posed(), programs: [{ name: "", program: text }] };
    const answer = await guarded(() => post("/api/grade", body, signal));
    if (!answer || signal.aborted) return;
    this.#show(answer.grades[0]);
  }

  /** The examples as a request has them, with the hidden ones of a challenge. */
  #posed() {
    const examples = pairs(this.#examples);
    if (!this.#rules) return { examples };
    const { hidden, served } = this.#rules;
    return { examples, hidden, ...(served === null ? {} : { challenge: served }) };
  }

  /** A student who has written nothing yet may ask how to begin. */
  get #canBegin() {
    const hasTask = this.#examples.length > 0 && !contradict(this.#examples);
    const { text, dialect } = this.source();
    return (this.#rules?.hints ?? 0) > 0 && hasTask && dialect !== "tokens" && isUnwritten(text);
  }

  #showBeginning() {
    this.#show(null);
    byId("tutor").hidden = false;
    this.ask.hidden = (this.#hint?.level ?? 0) >= this.#rules.hints;
    for (const part of [this.clear, this.more, this.wrong]) part.hidden = true;
    this.status.hidden = false;
    this.status.dataset.kind = "none";
    if (this.status.textContent !== NO_PROGRAM) this.status.replaceChildren(NO_PROGRAM);
  }

  get #passed() {
    return Boolean(this.#grade?.passed);
  }

  #show(grade) {
    this.#grade = grade;
    byId("tutor").hidden = grade === null;
    this.onGrade(grade);
    if (!grade) return;
    const right = grade.right.filter(Boolean).length;
    const total = grade.right.length;
    const tests = grade.hidden_right.length;
    const kept = grade.hidden_right.filter(Boolean).length;
    this.status.hidden = false;
    this.status.dataset.kind = this.#passed ? "right" : "wrong";
    const everywhere = total === 1 ? "the example" : total === 2 ? "both examples" : `all ${total} examples`;
    const words = `Right on ${this.#passed ? everywhere : `${right} of ${total}`}`;
    const more = tests ? ` · ${kept} of ${count(tests, "hidden test")} right` : "";
    if (this.status.textContent !== words + more) { // screen readers say it when it changes
      this.status.replaceChildren(icon(this.#passed ? "check" : "cross"), words + more);
    }
    const levels = this.#rules?.hints ?? MOST_HINTS;
    this.ask.hidden = this.#passed || levels === 0 || (this.#hint?.level ?? 0) >= levels;
    this.clear.hidden = !this.#passed || Boolean(this.#rules);
    this.more.hidden = !this.#passed;
    if (this.#passed) this.#forgetHint(true);
    const wrong = grade.right.map((one, at) => (one ? -1 : at)).filter((at) => at >= 0);
    if (!wrong.includes(this.#chosen)) this.#chosen = wrong[0] ?? 0;
    this.wrong.hidden = !wrong.length && (this.#passed || !tests);
    if (wrong.length) this.#showWrong(wrong);
    else if (!this.#passed) {
      this.wrong.replaceChildren(el("p", {}, NOT_ALL_TESTS));
    }
  }

  // Expected against actual.

  async #showWrong(wrong) {
    const at = this.#chosen;
    const [text, one] = [this.#text, this.#examples[at]];
    let report = this.#grade.reports.find(({ example }) => example === at + 1);
    if (!report) {
      const body = { examples: pairs([one]), programs: [{ name: "", program: text }] };
      report = (await guarded(() => post("/api/grade", body)))?.grades[0].reports[0];
      if (!report || text !== this.#text || at !== this.#chosen) return;
    }
    const choose = wrong.map((place) => {
      const pressed = { "aria-pressed": String(place === at) };
      const show = () => {
        this.#chosen = place;
        this.#showWrong(wrong).then(() => this.wrong.querySelector("[aria-pressed='true']")?.focus());
      };
      return button("chip", show, pressed, `Example ${this.#numberOf(place)}`);
    });
    const marked = report.cells;
    const failed = report.status !== "ok";
    const worlds = el(
      "div",
      { class: "tutor-worlds" },
      picture("Before", one.input),
      picture("Expected", one.output, marked),
      picture(failed ? "Actual, when it stopped" : "Actual", parse(report.actual), marked, failed),
    );
    const { step } = report;
    const place = (steps) => (step ? placeOfAction(steps, step.number) : null);
    const where = step ? `Show me that moment, at line ${step.line}` : "Watch how it ends";
    const go = button("button small", () => this.jump(one.id, place), {}, icon("arrow"), where);
    const list =
      wrong.length > 1
        ? el("div", { class: "strip", role: "group", "aria-label": "Wrong examples" }, ...choose)
        : el("p", { class: "detail" }, `Example ${this.#numberOf(at)}`);
    const says = el("p", { class: "tutor-says" }, ...prose(withoutStep(report.explanation)));
    this.wrong.replaceChildren(list, worlds, says, go);
  }

  /** The number that an example has on the page: those that are not filled in count there. */
  #numberOf(place) {
    return this.number(this.#examples[place].id);
  }

  // Hints.

  async #askHint() {
    const level = Math.min(MOST_HINTS, (this.#hint?.level ?? 0) + 1);
    const { text, dialect } = this.source();
    const ask = () => guarded(() => post("/api/hint", { ...this.#posed(), program: text, dialect, level }));
    const answer = await whileBusy(this.ask, ask);
    if (!answer || text !== this.source().text) return;
    const fresh = () => [{ id: 0, old: [], next: answer.text.split("\n"), line: 1 }]; // where there was no text
    const parts = answer.text === null ? [] : text.trim() ? changesOf(text, answer.text) : fresh();
    this.#hint = { level, answer, parts, accepted: new Set(), shown: text };
    this.onHint(level);
    this.#showHint();
    this.help.scrollIntoView({ block: "nearest" });
    announce([...this.help.querySelectorAll("p")].map((each) => each.textContent).join(" "));
  }

  #forgetHint(keep = false) {
    if (keep && this.#hint?.accepted.size) return; // what was accepted can still be taken back
    this.#hint = null;
    this.help.hidden = true;
    this.ask.lastChild.textContent = ASK[0];
  }

  #showHint() {
    const { level, answer } = this.#hint;
    const levels = this.#rules?.hints ?? MOST_HINTS;
    const none = answer.kind === "none" || answer.kind === "right";
    const lead = {
      right: "Nothing needs to change: the program is right.",
      none: "No hint was found. Watch the run step by step, or try the program on a smaller world.",
      begin: "This is how to begin:",
      step: "You are still some way off. This is a next step:",
      repair: answer.edits === 1 ? "One change is enough:" : `${answer.edits} changes are enough:`,
    }[answer.kind];
    const steps = answer.steps.map(({ where, kind, change }) =>
      el("li", {}, ...[where, kind, change].filter(Boolean).map((words) => el("p", {}, ...prose(words)))),
    );
    this.help.replaceChildren(el("p", {}, lead), el("ol", { class: "tutor-steps" }, ...steps));
    if (this.#hint.parts.length) this.help.append(this.#changeNode());
    this.help.hidden = false;
    const held = document.activeElement === this.ask;
    this.ask.hidden = none || level >= levels || this.#passed;
    if (held && this.ask.hidden) this.help.focus({ preventScroll: true });
    this.ask.lastChild.textContent = ASK[level] ?? ASK.at(-1);
  }

  /** The change, with a button at each part of it. */
  #changeNode() {
    const { parts, accepted } = this.#hint;
    const rows = parts.flatMap((part, index) => {
      if (!part.same) return this.#partRows(part);
      const isLast = index === parts.length - 1;
      const shown = part.same.map((text, at) => [text, part.line + at]);
      const [head, tail] = [index ? shown.slice(0, CONTEXT) : [], isLast ? [] : shown.slice(-CONTEXT)];
      const lines = head.length + tail.length >= shown.length ? shown : [...head, [null], ...tail];
      return lines
        .filter(([text], at) => text !== null || (at > 0 && at < lines.length - 1))
        .map(([text, line]) => row("same", "", [text ?? "⋯"], line));
    });
    const all = parts.filter((part) => !part.same);
    const toggleAll = () => {
      const done = all.every(({ id }) => accepted.has(id));
      for (const { id } of all) if (done) accepted.delete(id);
      else accepted.add(id);
      this.#applyChange();
    };
    const done = all.every(({ id }) => accepted.has(id));
    const table = el("table", { "aria-label": "The change, line by line" }, el("tbody", {}, ...rows));
    const every = button("button small", toggleAll, {}, done ? "Take all back" : "Accept all");
    return el("div", { class: "tutor-change" }, table, all.length > 1 ? every : null);
  }

  #partRows(part) {
    const { accepted } = this.#hint;
    const taken = accepted.has(part.id);
    const toggle = () => {
      if (taken) accepted.delete(part.id);
      else accepted.add(part.id);
      this.#applyChange(part.id);
    };
    const what = taken ? "Take back" : "Accept";
    const named = { "aria-label": `${what} the change at line ${part.line}`, "data-part": part.id };
    const press = button("button small", toggle, named, what);
    const isOne = part.old.length === 1 && part.next.length === 1;
    const lines = isOne ? wordsOf(part.old[0], part.next[0]).map((line) => [line]) : whole(part.old, part.next);
    const [old, next] = lines.map((side) => side.map(emphasised));
    const gone = old.map((words, at) => row("gone", "−", words, part.line + at));
    const rows = [...gone, ...next.map((words) => row("come", "+", words))];
    rows[0].append(el("td", { rowspan: rows.length }, press));
    return rows;
  }

  #applyChange(id) {
    const hint = this.#hint;
    hint.shown = applied(hint.parts, (one) => hint.accepted.has(one));
    this.edit(hint.shown);
    this.#hint = hint;
    this.#showHint();
    (this.help.querySelector(`[data-part="${id}"]`) ?? this.help.querySelector(".tutor-change > .button"))?.focus();
  }

  // For those who pose a task.

  async #probe(add) {
    const body = { examples: pairs(this.#examples), reference: this.#text, add, budget: add ? 10 : 3 };
    const doing = "Looking for wrong programs that pass all examples …";
    const report = await this.#search(this.clear, doing, () => post("/api/probe", body));
    if (!report) return;
    if (add && report.added.length) {
      const left = report.well_posed ? "No wrong program that was found passes any more." : "Some wrong programs still pass.";
      this.#addExamples(report.added.map(({ input, output }) => [parse(input), parse(output)]), ` ${left}`);
      return;
    }
    const tried = `${count(report.tried, "program")} tried`;
    if (report.well_posed) {
      const none = `No wrong program was found that passes all examples (${tried}). ${PROVES_NOTHING}`;
      this.#tell(el("p", {}, el("strong", {}, "Clear. "), none));
      return;
    }
    const found = report.passing;
    const passes = found === 1 ? "1 wrong program passes" : `${found} wrong programs pass`;
    const words = `${passes} all your examples (${tried}). An example on which one fails makes the task clearer.`;
    this.#tell(
      el("p", {}, el("strong", {}, "Not quite clear. "), words),
      el("ul", { class: "impostors" }, ...report.impostors.slice(0, 3).map((one, index) => this.#impostor(one, index))),
      button("button small", () => this.#probe(true), {}, icon("plus"), "Add as many examples as are needed"),
    );
  }

  #addExamples(list, left = "") {
    const added = this.onExamples(list);
    this.clear.focus({ preventScroll: true }); // the button that was pressed goes
    const them = added === 1 ? "it" : "them";
    if (added) notice(`${count(added, "example")} added, below the others.${left} Undo takes ${them} back.`);
  }

  #impostor({ program, world, expected, actual, explanation }, index) {
    const [before, right, wrong] = [parse(world), parse(expected), parse(actual)];
    const add = () => this.#addExamples([[before, right]]);
    const cells = differences(right, wrong);
    const failed = explanation.startsWith("It ");
    const worlds = [
      picture("Before", before),
      picture("Yours", right, failed ? [] : cells),
      picture("The wrong one", wrong, failed ? [] : cells, failed),
    ];
    const words = ending(explanation).replace(/^It /, "The wrong one ");
    const named = { class: "tutor-code", tabindex: 0, role: "group", "aria-label": `Wrong program ${index + 1}` };
    return el(
      "li",
      {},
      el("pre", named, inner(program)),
      el(
        "div",
        {},
        el("div", { class: "tutor-worlds" }, ...worlds),
        el("p", { class: "tutor-says" }, ...prose(words)),
        button("button small", add, {}, icon("plus"), "Add this as an example"),
      ),
    );
  }

  async #pose() {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const body = { like: this.#text, count: MORE, seed, budget: 6 };
    const doing = "Looking for tasks with the same ideas …";
    const posed = await this.#search(this.more, doing, () => post("/api/pose", body));
    if (!posed) return;
    const { exercises } = posed;
    if (!exercises.length) {
      this.#tell(el("p", {}, "None was found in time. Try again: each search looks at other tasks."));
      return;
    }
    const cards = exercises.map((exercise) => el("li", {}, this.#exercise(exercise)));
    const collect = () => this.onCollect(exercises);
    this.#tell(
      el("p", {}, `${count(exercises.length, "task")} with the same ideas, from easy to hard:`),
      el("ul", { class: "gallery-list" }, ...cards),
      this.#rules ? null : button("button small", collect, {}, icon("plus"), "Add all to the class set"),
    );
  }

  #exercise(exercise) {
    return button(
      "gallery-card",
      () => this.onTasks([exercise]),
      {},
      picturePair(fromJson(exercise).examples[0]),
      el("strong", {}, exercise.name.replace(/^\d+\. /, "")),
      el("span", { class: "detail" }, `${exercise.level} · ${count(exercise.examples.length, "example")}`),
    );
  }

  /** What a search of the server finds for the program that is there; undefined if nothing, or if it is another now.
   *  The keyboard stays at the button that starts such searches. */
  async #search(pressed, words, action) {
    const text = this.#text;
    pressed.focus({ preventScroll: true });
    return whileBusy(pressed, async () => {
      this.#tell(el("p", { class: "detail" }, words));
      byId("tutor").setAttribute("aria-busy", "true");
      const found = await guarded(action);
      byId("tutor").removeAttribute("aria-busy");
      const isKnown = found && text === this.#text;
      if (!isKnown) this.found.hidden = true;
      return isKnown ? found : undefined;
    });
  }

  #tell(...nodes) {
    this.found.replaceChildren(...nodes.filter(Boolean));
    this.found.hidden = false;
    this.found.scrollIntoView({ block: "nearest" });
    announce(this.found.firstChild.textContent);
  }
}

/** A line of a change; `words` are parts of it. */
function row(kind, sign, words, line = "") {
  const [number, mark] = [String(line), sign].map((text) => el("td", { class: "change-line" }, text));
  return el("tr", { class: `change-${kind}` }, number, mark, el("td", {}, el("code", {}, ...words)));
}

/** Lines in one piece each, as `wordsOf` gives them. */
function whole(...sides) {
  return sides.map((lines) => lines.map((text) => [[text, false]]));
}

function emphasised(pieces) {
  return pieces.map(([text, isOther]) => (isOther && text.trim() ? el("mark", {}, text) : text));
}

/** A program without the lines that each Python program for Karel has. */
function inner(program) {
  return program.replace(/^from stanfordkarel import \*\n+/, "").replace(/\n+if __name__[^]*$/, "");
}

/** An explanation without the number of the step: it counts actions, but a run on the page shows tests, too. */
function withoutStep(explanation) {
  return explanation.replace(/^Step \d+, line/, "Line");
}

/** A world with its name below; `marked` cells differ. */
function picture(name, world, marked = [], alarm = false) {
  const differs = marked.length ? `; ${count(marked.length, "cell differs", "cells differ")}` : "";
  const board = new Board(name + differs, { axes: true });
  board.update(world, { marked, alarm });
  return el("figure", { class: "tutor-picture" }, el("figcaption", {}, name), board.node);
}
