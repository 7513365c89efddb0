// The teacher's sheet: makes a challenge of the task on the page, and class sets of challenges.

import { post } from "./api.js";
import { picturePair } from "./board.js";
import { linkOf, openSet } from "./challenge.js";
import { MOST_CHALLENGES, challengeOf, challengeSet, setFromJson, setToJson } from "./classwork.js";
import { announce, button, byId, copy, count, download, el, guarded, icon, iconButton, notice, prose } from "./dom.js";
import { IS_LOCAL } from "./share.js";
import { recall, remember } from "./storage.js";
import { filled, slug, toJson, task as taskOf } from "./task.js";

const SET = "karelsynth.class"; // the set that is being made
const LONG = 8_000; // letters of a link that some programs cut
const LEVELS = ["No hints", "Where to look", "What kind of change", "The change itself"];
const WHAT_IT_IS =
  "Students see the task, but no Solve button. They write or build a program, and the page shows what is right and " +
  "what differs. Their work stays in their browser.";
const WHAT_A_SET_IS =
  "A set is several challenges in order. Add this one, then open another task and add that one. Or add a file, such " +
  "as the `tasks.jsonl` of `karelsynth pose`.";
const UNFILLED = "The task on the page has no example that is filled in yet. Draw one, then make a challenge of it.";
const SECRETS =
  "A link or a file holds the hidden tests, too: they are out of sight, not secret. A set that is handed out by " +
  "`karelsynth serve --set` keeps them at the server.";
const LOCAL =
  "This address works on this computer only. For a class, start the server with `karelsynth serve --host 0.0.0.0` " +
  "and open the address that it prints. Or give out the file.";
const NO_SET = "This file holds no challenges: expected one that was saved here, or the `tasks.jsonl` of `pose`.";

export class Teacher {
  #set = kept();
  #dialog = byId("class-sheet");
  #hidden = new Set(); // places of examples
  #starter = false;
  #hints = 3;

  /** `task()` is the task on the page, `program()` the text on it. */
  constructor({ task, program, onAbout }) {
    Object.assign(this, { task, program, onAbout });
    byId("class-button").addEventListener("click", () => this.show());
    byId("class-file").addEventListener("change", (event) => this.#opened(event));
  }

  show() {
    this.#hidden = new Set([...this.#hidden].filter((at) => at < this.#examples.length));
    this.#render();
    this.#dialog.showModal();
  }

  /** Puts exercises that were posed into the set. */
  collect(exercises) {
    const made = exercises.map(({ name, about, examples }) =>
      challengeOf({ name: name.replace(/^\d+\. /, ""), about, examples }),
    );
    this.#change([...this.#set.challenges, ...made]);
    const total = this.#set.challenges.length;
    notice(`${count(made.length, "challenge")} added. The class set has ${total} now: see Class.`);
  }

  /** Reads a file of challenges, if it is one: {set}, else null. */
  static async read(text) {
    if (!text.trimStart().startsWith("{")) return null;
    return setFromJson(await post("/api/challenges/parse", { text }));
  }

  get #examples() {
    return filled(this.task().examples);
  }

  /** The challenge that the sheet describes. */
  #made() {
    const { name, about } = this.task();
    const starter = this.#starter ? this.program() : "";
    const rules = { hidden: [...this.#hidden], starter, hints: this.#hints };
    return challengeOf(toJson(taskOf(this.#examples, name, about)), rules);
  }

  #render() {
    const focused = document.activeElement?.dataset.key;
    this.#dialog.querySelector(".class-form").replaceChildren(...this.#challengeParts(), ...this.#setParts());
    if (focused) this.#dialog.querySelector(`[data-key="${focused}"]`)?.focus();
  }

  #challengeParts() {
    const examples = this.#examples;
    if (!examples.length) {
      return [el("p", { class: "class-warning" }, UNFILLED)];
    }
    const about = el("textarea", { rows: 2, "data-key": "about", maxlength: 4000 });
    about.value = this.task().about;
    about.addEventListener("change", () => this.onAbout(about.value.trim()));
    const starter = el("input", { type: "checkbox", "data-key": "starter" });
    starter.checked = this.#starter;
    starter.disabled = !this.program();
    starter.addEventListener("change", () => (this.#starter = starter.checked));
    const levels = LEVELS.map((name, level) => el("option", { value: level }, name));
    const hints = el("select", { "data-key": "hints" }, ...levels);
    hints.value = this.#hints;
    hints.addEventListener("change", () => (this.#hints = Number(hints.value)));
    const one = () => challengeSet([this.#made()], "");
    return [
      el("p", {}, WHAT_IT_IS),
      el("label", { class: "field" }, el("span", {}, "What they should do"), about),
      el(
        "fieldset",
        {},
        el("legend", {}, "Examples that students see; the others are hidden tests"),
        el("div", { class: "class-examples" }, ...examples.map((pair, at) => this.#exampleChoice(pair, at))),
      ),
      el("label", {}, starter, ` They begin with the program on the page${this.program() ? "" : " (there is none)"}`),
      el("label", {}, "Hints up to: ", hints),
      el(
        "div",
        { class: "class-actions" },
        button("button primary", () => this.#copyLink(one), { "data-key": "link" }, icon("link"), "Copy the link"),
        button("button", () => this.#save(one), { "data-key": "save" }, icon("save"), "Save as a file"),
        button("button", () => this.#try(one), { "data-key": "try" }, icon("play"), "Try it"),
        button("button", () => this.#addToSet(), { "data-key": "add" }, icon("plus"), "Add to the class set"),
      ),
      el("p", { class: "detail" }, ...prose(SECRETS)),
      IS_LOCAL ? el("p", { class: "class-warning" }, ...prose(LOCAL)) : null,
    ].filter(Boolean);
  }

  #exampleChoice(pair, at) {
    const shown = el("input", { type: "checkbox", "data-key": `example ${at}` });
    shown.checked = !this.#hidden.has(at);
    shown.addEventListener("change", () => {
      if (shown.checked) this.#hidden.delete(at);
      else this.#hidden.add(at);
    });
    return el("label", {}, shown, el("span", {}, `Example ${at + 1}`), picturePair(pair));
  }

  #setParts() {
    const { title, challenges } = this.#set;
    const name = el("input", { type: "text", maxlength: 200, "data-key": "title", placeholder: "Week 1" });
    name.value = title;
    name.addEventListener("input", () => {
      this.#set = { ...this.#set, title: name.value };
      keep(this.#set);
    });
    const whole = () => this.#set;
    const none = challenges.length === 0;
    return [
      el("h3", {}, `Class set: ${count(challenges.length, "challenge")}`),
      none ? el("p", { class: "detail" }, ...prose(WHAT_A_SET_IS)) : null,
      el("label", { class: "field" }, el("span", {}, "Title of the set"), name),
      el("ol", { class: "class-list" }, ...challenges.map((challenge, at) => this.#setItem(challenge, at))),
      el(
        "div",
        { class: "class-actions" },
        button("button", () => this.#copyLink(whole), { disabled: none }, icon("link"), "Copy the set's link"),
        button("button", () => this.#save(whole), { disabled: none }, icon("save"), "Save the set"),
        button("button", () => this.#try(whole), { disabled: none }, icon("play"), "Try the set"),
        button("button", () => byId("class-file").click(), { "data-key": "open" }, icon("open"), "Add from a file"),
      ),
    ].filter(Boolean);
  }

  #setItem({ name, hidden, examples }, at) {
    const { challenges } = this.#set;
    const label = name || `Challenge ${at + 1}`;
    const move = (by) => {
      const other = challenges.toSpliced(at, 1).toSpliced(at + by, 0, challenges[at]);
      this.#change(other);
      this.#render();
      announce(`${label} is number ${at + by + 1} now.`);
    };
    const remove = () => {
      this.#change(challenges.toSpliced(at, 1));
      this.#render();
      this.#dialog.querySelector("[data-key='open']").focus();
      announce(`${label} removed.`);
    };
    const look = "button quiet square small";
    const earlier = iconButton("earlier", `Move ${label} up`, () => move(-1), look);
    const later = iconButton("later", `Move ${label} down`, () => move(1), look);
    earlier.disabled = at === 0;
    later.disabled = at === challenges.length - 1;
    const facts = `${count(examples.length, "example")}${hidden.length ? `, ${hidden.length} hidden` : ""}`;
    const words = el("span", {}, `${at + 1}. ${label} `, el("span", { class: "detail" }, facts));
    return el("li", {}, words, earlier, later, iconButton("remove", `Remove ${label}`, remove, look));
  }

  #change(challenges) {
    this.#set = { ...this.#set, challenges: challenges.slice(0, MOST_CHALLENGES) };
    keep(this.#set);
  }

  async #addToSet() {
    await guarded(async () => {
      this.#change([...this.#set.challenges, this.#made()]);
      this.#render();
      announce(`Added. The set has ${count(this.#set.challenges.length, "challenge")}.`);
    });
  }

  async #copyLink(made) {
    await guarded(async () => {
      const address = `${location.origin}${location.pathname}${await linkOf(made())}`;
      const copied = await copy(address, this.#dialog);
      const letters = count(address.length, "letter");
      const warning = ` It is long (${letters}): some programs cut such links. A file is safer.`;
      if (copied) notice(`Link copied.${address.length > LONG ? warning : ""}`);
      else download("link.txt", `${address}\n`);
      this.#dialog.close();
    });
  }

  async #save(made) {
    await guarded(async () => {
      const set = made();
      const name = slug(set.title || set.challenges[0].name || "challenge");
      download(`${name}.json`, `${JSON.stringify(setToJson(set), null, 1)}\n`);
      notice("Saved. Students open it with Open; `karelsynth serve --set FILE` opens the page with it.");
      this.#dialog.close();
    });
  }

  async #try(made) {
    await guarded(async () => openSet(made()));
  }

  async #opened(event) {
    const [file] = event.target.files;
    event.target.value = "";
    if (!file) return;
    await guarded(async () => {
      const set = await Teacher.read(await file.text());
      if (!set) throw new Error(NO_SET);
      this.#set = { ...this.#set, title: this.#set.title || set.title };
      this.#change([...this.#set.challenges, ...set.challenges]);
      this.#render();
    });
  }
}

function kept() {
  try {
    return setFromJson(JSON.parse(recall(SET)));
  } catch {
    return challengeSet([]);
  }
}

function keep(set) {
  remember(SET, JSON.stringify(setToJson(set)));
}
