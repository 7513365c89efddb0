// A challenge as a student sees it: the task, what is right so far, and the way through a class set. There is no Solve.
// A set comes from a link, a file, or the server; opening and closing one loads the page anew.

import { get } from "./api.js";
import { Board } from "./board.js";
import { Work, keyOf, setFromJson, setToJson, workKey } from "./classwork.js";
import { announce, button, byId, count, download, el, icon, iconButton, notice } from "./dom.js";
import { packed, unpacked } from "./link.js";
import { recall, remember } from "./storage.js";
import { slug } from "./task.js";
import { WorldError, parse } from "./world.js";

const KEY = "#challenge=";
const LONGEST = 200_000; // letters of a link
const OPEN = "karelsynth.set"; // the set that was opened last, and the place in it
const NOT_KEPT = "This browser keeps nothing. Save your work before you close or reload the page.";
const TWICE = "This challenge is open in another tab, too. Close one of them: only what is typed last is kept.";
const STUDENT = "karelsynth.student"; // the name that was typed when work was saved

/** The part of an address that holds a set. */
export async function linkOf(set) {
  return KEY + (await packed(setToJson(set)));
}

export function isChallengeLink(fragment) {
  return fragment.startsWith(KEY);
}

function stored() {
  try {
    const { set, at, name, title, isClosed } = JSON.parse(recall(OPEN));
    const place = { at: Number(at) || 0, name, title: String(title), isClosed: Boolean(isClosed) };
    return { set: set && setFromJson(set), ...place };
  } catch {
    return null;
  }
}

/** Keeps which set is open, and where; the set itself unless it is in the address or at the server. Says whether the
 *  browser keeps it. */
function store(set, at, { isKept, isClosed = false }) {
  const title = set.title || set.challenges[0].name;
  return remember(OPEN, JSON.stringify({ set: isKept ? setToJson(set) : null, at, name: nameOf(set), title, isClosed }));
}

function nameOf(set) {
  return set.challenges.map(keyOf).join(" ");
}

async function linkedSet(fragment) {
  try {
    if (fragment.length > LONGEST) throw new WorldError("it is too long");
    return setFromJson(await unpacked(fragment.slice(KEY.length)));
  } catch (error) {
    const why = error instanceof WorldError ? ` (${error.message})` : "";
    throw new Error(`This link does not hold a whole challenge${why}. Was it cut off when it was copied?`);
  }
}

/** The set that the page opens with, {set, at}, or null. */
export async function openedSet() {
  const known = stored();
  const placed = (set) => {
    const isKnown = known?.name === nameOf(set);
    return { set, at: isKnown ? Math.min(known.at, set.challenges.length - 1) : 0 };
  };
  if (isChallengeLink(location.hash)) return placed(await linkedSet(location.hash));
  if (location.hash) return null; // of a task
  if (known?.set && !known.isClosed) return placed(known.set);
  const served = await get("/api/challenges");
  if (!served.challenges.length) return null;
  const set = setFromJson(served);
  return known?.isClosed && known.name === nameOf(set) ? null : placed(set);
}

/** A button that leads back to the set that was closed last, or null. */
export function wayBack() {
  const known = stored();
  if (!known?.isClosed) return null;
  const open = () => {
    remember(OPEN, JSON.stringify({ ...JSON.parse(recall(OPEN)), isClosed: false }));
    window.history.replaceState(null, "", location.pathname);
    location.reload();
  };
  return button("chip", open, {}, icon("class"), `Back to ${known.title || "the challenge"}`);
}

/** Opens a set: the page is loaded anew with it. A browser that keeps nothing has it in the address. */
export async function openSet(set) {
  const isStored = store(set, 0, { isKept: true });
  window.history.replaceState(null, "", isStored ? location.pathname : await linkOf(set));
  location.reload();
}

export class Challenge {
  #set;
  #given; // the set without what was added to practise
  #at;
  #isKept; // the set itself is in the storage: it is neither in the address nor at the server
  #work = new Work({ getItem: recall, setItem: remember });
  #grade = null;
  #before = null; // the text that Start over has taken away
  #nodes = [];

  /** `onLeave()`: another one will be opened; `onOpen(challenge, work)`: show its task and the student's text;
   *  `onWatch(place)`: run it on an example; `onText(text)`: put another text in. */
  constructor({ set, at }, { onLeave, onOpen, onWatch, onText }) {
    Object.assign(this, { onLeave, onOpen, onWatch, onText });
    this.#set = set;
    this.#given = set;
    this.#at = at;
    this.#isKept = !isChallengeLink(location.hash) && set.challenges.every(({ served }) => served === null);
    document.documentElement.dataset.challenge = "";
    byId("challenge").hidden = false;
    byId("task-name").readOnly = true;
    document.querySelector(".skip").hidden = true; // to Solve, which is not there
    addEventListener("storage", ({ key }) => { // another tab has kept something
      if (key === workKey(this.current)) notice(TWICE, "problem");
    });
    byId("work-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#hand();
    });
    this.open(at);
  }

  get current() {
    return this.#set.challenges[this.#at];
  }

  /** What counts for the tutor. */
  get rules() {
    const { hidden, hiddenCount, hints, served } = this.current;
    return { hidden, hiddenCount, hints, served };
  }

  /** Goes to a challenge of the set. */
  open(at) {
    this.onLeave();
    this.#at = at;
    this.#grade = null;
    this.#before = null;
    if (!store(this.#given, at, { isKept: this.#isKept })) notice(NOT_KEPT, "problem");
    this.#render();
    this.onOpen(this.current, this.#work.of(this.current));
  }

  /** Further challenges at the end, to practise; they are not kept. */
  add(challenges) {
    this.#set = { ...this.#set, challenges: [...this.#set.challenges, ...challenges] };
    this.open(this.#set.challenges.length - challenges.length);
    scrollTo({ top: 0 });
  }

  /** Keeps what the student has written. */
  keep({ text, dialect }) {
    this.#work.update(this.current, { text, dialect });
  }

  sawHint(level) {
    const { hints } = this.#work.of(this.current);
    this.#work.update(this.current, { hints: Math.max(hints, level) });
  }

  /** The program was graded; null: there is none to grade. */
  judge(grade) {
    const first = grade?.passed && !this.#grade?.passed;
    this.#grade = grade;
    if (grade?.passed) this.#work.update(this.current, { passed: true });
    this.#renderState();
    if (first) notice(`Solved: ${this.current.name || "this challenge"}.`);
  }

  #render() {
    const { challenges, title } = this.#set;
    const { name, about, examples, hiddenCount } = this.current;
    const many = challenges.length > 1;
    this.#nodes = examples.map((pair, place) => exampleNode(pair, place, () => this.onWatch(place)));
    this.state = el("div", { class: "challenge-state" });
    this.steps = el("ol", { class: "challenge-steps" });
    this.tests = el("p", { class: "challenge-tests", hidden: hiddenCount === 0 });
    this.again = button("button small", () => this.#startOver(), {}, icon("reset"), el("span", {}, "Start over"));
    const file = { title: "A file with your programs, for your teacher" };
    const save = button("button small", () => this.#askName(), file, icon("save"), "Save my work");
    const kept = { title: "Back to the playground; your work is kept" };
    const leave = button("button small", () => this.#leave(), kept, "Close the challenge");
    const nav = many ? el("nav", { "aria-label": "Challenges of the set" }, this.steps) : null;
    const wanted = examples.length === 1 ? "a program that does this" : "one program that does all of these";
    const label = many ? title || "Class set" : title || "Challenge";
    byId("challenge").replaceChildren(
      el(
        "section",
        { class: "card challenge-card", "aria-labelledby": "challenge-title" },
        el("div", { class: "challenge-set" }, el("span", { class: "detail" }, label), nav),
        el("h2", { id: "challenge-title", tabindex: -1 }, name || `Challenge ${this.#at + 1}`),
        about ? el("p", { class: "about" }, about) : null,
        el("p", { class: "detail" }, `Write ${wanted}:`),
        this.state,
        el("ol", { class: "challenge-examples" }, ...this.#nodes.map(({ node }) => node)),
        this.tests,
        el("footer", { class: "card-foot" }, save, this.again, leave),
      ),
    );
    this.#renderState();
  }

  #renderState() {
    const { challenges } = this.#set;
    const steps = challenges.map((challenge, place) => {
      const { passed } = this.#work.of(challenge);
      const label = `${place + 1}. ${challenge.name.replace(/^\d+\. /, "") || "Challenge"}${passed ? ", solved" : ""}`;
      const current = place === this.#at ? { "aria-current": "step" } : {};
      const face = passed ? icon("check") : String(place + 1);
      const press = () => {
        this.open(place);
        this.steps.querySelector("[aria-current]")?.focus();
      };
      const named = { "aria-label": label, title: label, ...current };
      return el("li", {}, button(passed ? "step passed" : "step", press, named, face));
    });
    const held = this.steps.contains(document.activeElement);
    this.steps.replaceChildren(...steps);
    if (held) this.steps.querySelector("[aria-current]")?.focus();
    this.#nodes.forEach(({ verdict }, place) => {
      const right = this.#grade && !this.#grade.problem ? this.#grade.right[place] : null;
      verdict.hidden = right === null;
      verdict.dataset.kind = right ? "right" : "wrong";
      verdict.replaceChildren(icon(right ? "check" : "cross"), right ? "Right" : "Wrong");
    });
    this.#renderTests();
    const passed = Boolean(this.#grade?.passed);
    this.state.hidden = !passed;
    if (!passed) return;
    const next = this.#at + 1 < challenges.length;
    const done = this.#work.passed(this.#set);
    const more = next
      ? button("button primary", () => this.#next(), {}, "Next challenge", icon("arrow"))
      : el("span", { class: "detail" }, challenges.length > 1 ? `${done} of ${challenges.length} solved` : "");
    this.state.replaceChildren(el("strong", {}, icon("check"), "Solved"), more);
  }

  #renderTests() {
    const { hiddenCount } = this.current;
    const right = this.#grade?.hidden_right.filter(Boolean).length;
    const tests = count(hiddenCount, "hidden test");
    const isGraded = this.#grade && !this.#grade.problem;
    this.tests.textContent = isGraded
      ? `${right} of ${tests} right.`
      : hiddenCount === 1
        ? "There is also 1 hidden test: a world that you do not see."
        : `There are also ${tests}: worlds that you do not see.`;
    this.tests.dataset.kind = !isGraded ? "" : right === hiddenCount ? "right" : "wrong";
  }

  #next() {
    this.open(this.#at + 1);
    byId("challenge-title").focus(); // the button is gone, and the keyboard was on it
  }

  #askName() {
    byId("work-name").value = recall(STUDENT) ?? "";
    byId("work-sheet").showModal();
  }

  /** Saves a file with all programs of the set: `karelsynth grade` reads it. */
  #hand() {
    const student = byId("work-name").value.trim();
    if (!student) {
      byId("work-name").focus();
      return;
    }
    remember(STUDENT, student);
    this.onLeave(); // what was typed last is kept first
    const work = this.#work.toJson(this.#given, student);
    byId("work-sheet").close();
    if (!work.programs.length) {
      notice("There is nothing to save yet: write a program first.");
      return;
    }
    const title = this.#given.title || this.#given.challenges[0].name;
    const named = (student.match(/[\p{L}\p{N}]+/gu) ?? ["work"]).join("-"); // letters of any language
    download(`${named}-${slug(title)}.json`, `${JSON.stringify(work, null, 1)}\n`);
    notice(`Saved ${count(work.programs.length, "program")}. Give the file to your teacher.`);
  }

  #startOver() {
    const { text } = this.#work.of(this.current);
    const back = this.#before;
    this.#before = back === null ? text : null;
    this.onText(back ?? this.current.starter);
    this.again.lastChild.textContent = back === null ? "Bring my program back" : "Start over";
    notice(back === null ? "Started over. Your program can be brought back." : "Your program is back.");
  }

  #leave() {
    const isServed = this.#given.challenges.some(({ served }) => served !== null);
    store(this.#given, this.#at, { isKept: !isServed, isClosed: true });
    window.history.replaceState(null, "", location.pathname);
    location.reload();
  }
}

function exampleNode({ input, output }, place, onWatch) {
  const board = (side) => new Board(`Example ${place + 1}, ${side}`, { axes: true });
  const [before, after] = [board("before"), board("after")];
  before.update(parse(input));
  after.update(parse(output));
  const verdict = button("verdict", onWatch, { hidden: true, title: "Watch the program here" });
  const watch = iconButton("play", `Watch the program on example ${place + 1}`, onWatch, "button quiet square small");
  const node = el(
    "li",
    {},
    el("div", { class: "challenge-head" }, el("h3", { class: "card-title" }, `Example ${place + 1}`), verdict, watch),
    el(
      "div",
      { class: "challenge-pair" },
      el("figure", {}, el("figcaption", {}, "Before"), before.node),
      el("span", { class: "pair-arrow", "aria-hidden": "true" }, icon("arrow")),
      el("figure", {}, el("figcaption", {}, "After"), after.node),
    ),
  );
  return { node, verdict };
}
