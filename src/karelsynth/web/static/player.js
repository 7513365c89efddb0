// Watching a program: the world and the running line move together, forwards and backwards.

import { post } from "./api.js";
import { Board } from "./board.js";
import { announce, button, byId, el, guarded, icon } from "./dom.js";
import { Grid } from "./grid.js";
import { History } from "./history.js";
import { ending, framesOf, isStop, nextOf, stepOut, stepOver } from "./run.js";
import { sizeInputs } from "./size.js";
import { equal, parse, render, resized } from "./world.js";

const DELAYS = [1000, 600, 350, 180, 70];
const OWN = "own";
const UNKNOWN = 1000; // the slider's end before the run is here: how long it will be is not known

export class Player {
  #tasks;
  #program = null;
  #source = null; // an example's id, or OWN
  #start = null; // the world that is shown, or whose run is
  #board = new Board("The world while the program runs", { axes: true });
  #grid;
  #run = null; // {frames, steps, calls, explanation, failed, crash}
  #index = 0;
  #timer = 0;
  #loading = 0;
  #pending = null; // the run that is loading: its number and a promise

  /** `tasks` is the history of the task; `program()` is the panel of the text that runs: it marks places, and knows its
   *  words and its breakpoints. */
  constructor(tasks, tools, program) {
    this.#tasks = tasks;
    this.program = program;
    this.own = new History(tasks.value.examples[0].input);
    this.#grid = new Grid("A world to try the program on", {
      tool: () => tools.current,
      onEdit: (world, stroke) => this.own.change(world, stroke),
    });
    this.size = sizeInputs((rows, cols) => this.own.change(resized(this.own.value, rows, cols)));
    const random = button("button small", () => this.#random(), {}, icon("dice"), "Random");
    byId("own-tools").append(tools.bar(), el("span", { class: "own-more" }, this.size.node, random));
    byId("stage").append(this.#board.node, this.#grid.node);
    tasks.onChange(() => this.#tasksChanged());
    this.own.onChange(() => this.#restart());
    this.#wire();
    this.#tasksChanged();
  }

  /** Whether the keyboard is in the world of one's own, which has an undo of its own. */
  get editing() {
    return this.#source === OWN && byId("player").contains(document.activeElement);
  }

  /** The world that the program starts from. */
  get world() {
    if (this.#source === OWN) return this.own.value;
    return this.#tasks.value.examples.find((one) => one.id === this.#source).input;
  }

  /** Another program, or null if there is none that can run; if it is the `same` in other words, the run goes on. */
  load(program, same = false) {
    this.#program = program;
    if (same && this.#run) this.#reword();
    else this.#restart();
  }

  watch(id) {
    this.#source = id;
    byId("player-source").value = String(id);
    this.#restart();
    this.play();
  }

  /** Shows a run on an example at the place that `choose(steps)` gives; null is the end. */
  async jump(id, choose) {
    this.#source = id;
    byId("player-source").value = String(id);
    this.#restart();
    await this.#go(() => choose(this.#run.steps) ?? this.#last);
    byId("player").scrollIntoView({ block: "nearest" });
  }

  async play() {
    if (!(await this.#ready())) return;
    if (this.#index === this.#last || this.#index === 0) this.#show(0);
    byId("player").scrollIntoView({ block: "nearest" });
    this.#setPlaying(true);
    this.#next(true);
  }

  pause() {
    this.#setPlaying(false);
  }

  get #last() {
    return this.#run ? this.#run.frames.length - 1 : 0;
  }

  #wire() {
    byId("player-source").addEventListener("change", (event) => {
      this.#source = event.target.value === OWN ? OWN : Number(event.target.value);
      this.#restart();
    });
    byId("player-play").addEventListener("click", () => (this.#timer ? this.pause() : this.play()));
    byId("player-first").addEventListener("click", () => this.#go(() => 0));
    byId("player-back").addEventListener("click", () => this.#go(() => this.#index - 1));
    byId("player-forth").addEventListener("click", () => this.#go(() => this.#index + 1));
    byId("player-last").addEventListener("click", () => this.#go(() => this.#last));
    byId("player-over").addEventListener("click", () => this.#go(() => this.#far(stepOver)));
    byId("player-out").addEventListener("click", () => this.#go(() => this.#far(stepOut)));
    byId("player-place").addEventListener("input", ({ target }) => {
      const share = Number(target.value) / Number(target.max);
      this.#go(() => Math.ceil(share * this.#last - 1e-6)); // upwards: an arrow key is one step from the start, too
    });
    this.#board.node.addEventListener("pointerdown", () => {
      if (this.#source === OWN) this.#go(() => 0); // who clicks here wants to draw
    });
  }

  #tasksChanged() {
    const { examples } = this.#tasks.value;
    if (this.#source !== OWN && !examples.some((one) => one.id === this.#source)) this.#source = examples[0].id;
    const options = examples.map((one, index) => el("option", { value: one.id }, `Example ${index + 1}`));
    byId("player-source").replaceChildren(...options, el("option", { value: OWN }, "A world of your own"));
    byId("player-source").value = String(this.#source);
    if (!this.#start || !equal(this.world, this.#start)) this.#restart();
  }

  /** The same program in another dialect does the same steps, but their places in the text are others. */
  async #reword() {
    const playing = this.#timer !== 0;
    this.pause();
    this.#loading += 1;
    this.#run = null;
    if (!(await this.#ready())) return;
    this.#show(Math.min(this.#index, this.#last));
    if (playing) this.play();
  }

  /** Back to the start, without a run: program or world have changed. */
  #restart() {
    this.pause();
    this.#loading += 1;
    this.#run = null;
    this.#index = 0;
    this.#start = this.world;
    byId("own-tools").hidden = this.#source !== OWN;
    this.#grid.update(this.own.value);
    this.size.update(this.own.value.rows, this.own.value.cols);
    for (const name of ["play", "first", "back", "forth", "last", "over", "out", "place"]) {
      byId(`player-${name}`).disabled = this.#program === null;
    }
    this.#stage(this.#source !== OWN);
    this.#board.update(this.world);
    if (this.#program === null) this.#label("There is no program to watch yet.");
    else this.#label(this.#source === OWN ? "Draw here, then press play." : "Press play to watch the program here.");
    document.documentElement.toggleAttribute("data-watching", false);
    if (this.#program !== null) this.program().mark([]);
    byId("player-place").max = UNKNOWN;
    byId("player-place").value = 0;
  }

  /** The moving picture, or the one that is drawn on. */
  #stage(moving) {
    this.#board.node.toggleAttribute("hidden", !moving);
    this.#grid.node.toggleAttribute("hidden", moving);
  }

  /** Asks the server for the run, unless it is here already; false if there is nothing to show. */
  async #ready() {
    if (this.#run) return true;
    if (this.#program === null) return false;
    if (this.#pending?.loading !== this.#loading) {
      this.#loading += 1;
      this.#pending = { loading: this.#loading, done: this.#load(this.#loading) };
    }
    return this.#pending.done; // clicks while the run loads wait for the same one
  }

  async #load(loading) {
    const start = this.world;
    const run = await guarded(() => post("/api/run", { program: this.#program, world: render(start) }));
    if (!run || loading !== this.#loading) return false;
    const failed = run.status !== "ok";
    const crash = failed && run.line ? [{ kind: "crashed", line: run.line, column: run.column }] : [];
    const { steps, calls, explanation } = run;
    this.#run = { frames: framesOf(start, steps), steps, calls, explanation, failed, crash };
    if (failed) this.#run.frames.push(parse(run.world)); // one more, for the sign that it failed there
    byId("player-place").max = this.#last;
    return true;
  }

  async #go(place) {
    if (!(await this.#ready())) return;
    this.pause();
    this.#show(Math.max(0, Math.min(this.#last, place())));
    byId("player").scrollIntoView({ block: "nearest" });
    announce(byId("player-caption").textContent);
  }

  /** Where a way through the steps ends; if that is the last step, at the end of the run, with its sign if it failed. */
  #far(way) {
    const to = way(this.#run, this.#index, this.program().breakpoints);
    return to === this.#run.steps.length ? this.#last : to;
  }

  #next(started = false) {
    const { breakpoints } = this.program();
    if (!started && isStop(this.#run, this.#index, breakpoints)) {
      this.pause();
      const { line } = nextOf(this.#run, this.#index, breakpoints);
      this.#label(`Stopped before line ${line} · ${byId("player-caption").textContent}`);
      announce(byId("player-caption").textContent);
      return;
    }
    if (this.#index >= this.#last) {
      this.pause();
      announce(byId("player-caption").textContent);
      return;
    }
    this.#show(this.#index + 1);
    const delay = DELAYS[Number(byId("player-speed").value) - 1];
    this.#board.node.style.setProperty("--glide", `${Math.min(250, 0.8 * delay)}ms`);
    this.#timer = setTimeout(() => this.#next(), delay);
  }

  #setPlaying(playing) {
    clearTimeout(this.#timer);
    this.#timer = playing ? -1 : 0;
    const button = byId("player-play");
    button.setAttribute("aria-label", playing ? "Pause" : "Play");
    button.replaceChildren(icon(playing ? "pause" : "play"));
  }

  /** Frame 0 is the start; frame n is the world after step n. */
  #show(index) {
    this.#index = index;
    const { frames, steps, explanation, failed, crash } = this.#run;
    const over = index === this.#last;
    this.#stage(index > 0 || this.#source !== OWN);
    this.#board.update(frames[index], { alarm: over && failed });
    byId("player-place").value = index;
    document.documentElement.toggleAttribute("data-watching", true);
    const step = steps[index - 1];
    const next = nextOf(this.#run, index, this.program().breakpoints)?.line ?? null;
    if (step) this.program().mark([{ kind: "running", line: step.line, column: step.column, width: step.width }], next);
    else this.program().mark(index > 0 ? crash : [], next);
    const start = this.#source === OWN ? "At the start: draw here" : "At the start";
    const place = index === 0 ? start : step ? this.#describe(step, index, steps.length) : "";
    this.#label([place, over ? `The program ${ending(explanation)}.` : ""].filter(Boolean).join(" · "));
  }

  /** A step in the words of the text that runs. */
  #describe(step, index, total) {
    const [at, code] = [`Step ${index} of ${total}`, this.program().excerpt(step).trim()];
    return byId("program-frame").dataset.dialect === "tokens" ? `${at}: ${code}` : `${at}, line ${step.line}: ${code}`;
  }

  #label(text) {
    byId("player-caption").textContent = text;
    byId("player-place").setAttribute("aria-valuetext", text);
  }

  async #random() {
    const { rows, cols } = this.own.value;
    const made = await guarded(() => post("/api/random-world", { rows, cols, seed: null }));
    if (made) this.own.change(parse(made.world));
  }
}
