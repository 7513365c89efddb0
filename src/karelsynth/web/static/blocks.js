// The program as blocks, beside its text: dragged with a pointer, moved by keyboard. The server writes the text, and an
// edit changes only what it must; what is typed comes back as blocks.

import { post } from "./api.js";
import {
  ACTIONS, CALL, CONTROL, LARGEST_COUNT, SENSORS, blockAt, changed, conditionText, copied, flat, freshName, headText,
  inserted, keywordText, moved, newBlock, nudged, parentOf, removed, samePath, slotAfter, slots, spoken, spokenSlot,
} from "./blocktree.js";
import { announce, button, byId, debounced, el, guarded, iconButton, prose } from "./dom.js";
import { LONGEST } from "./editor.js";
import { recall, remember } from "./storage.js";

const MODE = "karelsynth.view";
const MODES = { text: "Text", blocks: "Blocks", both: "Both" };
const NEAR = 6; // pixels that a pointer moves before it drags
const EDGE = 32; // pixels at the rim of the tree where it scrolls

export class Blocks {
  #functions = [];
  #dialect = "paper";
  #text = null; // the text that the blocks are of
  #cursor = null; // the path of the block or the empty place that is selected
  #held = null; // a block that the keyboard has picked up: {functions, path} as they were
  #main = "run"; // the function that the program begins with
  #writing = false;
  #naming = false; // a helper is being defined, renamed or deleted
  #written = null; // settles when the edit that is being written is in the text
  #past = []; // texts before edits by blocks
  #future = [];
  #marks = [];
  #drag = null;
  #palette = el("div", { class: "palette", role: "toolbar", "aria-label": "Blocks to add" });
  #tree = el("div", { class: "block-tree", role: "tree", "aria-label": "Program as blocks" });
  #note = el("p", { class: "block-note", hidden: true });
  #readSoon = debounced(() => this.#read(), 200);

  /** `source()` is the text that a person works on, {text, dialect}; `edit(text)` puts another in its place. */
  constructor({ source, edit }) {
    Object.assign(this, { source, edit });
    this.#buildModes();
    const tool = "button quiet square small";
    this.undo = iconButton("undo", "Undo the last edit of blocks", () => this.#step(this.#past, this.#future), tool);
    this.redo = iconButton("redo", "Redo", () => this.#step(this.#future, this.#past), tool);
    this.copy = iconButton("copy", "Copy the selected block", () => this.#copy(), tool);
    this.remove = iconButton("remove", "Remove the selected block", () => this.#remove(), tool);
    const tools = el("div", { class: "block-tools" }, this.undo, this.redo, this.copy, this.remove);
    byId("blocks").append(el("div", { class: "block-bar" }, this.#palette, tools), this.#note, this.#tree);
    byId("blocks").addEventListener("keydown", (event) => this.#key(event));
    byId("blocks").addEventListener("pointerdown", (event) => this.#press(event));
    this.#palette.addEventListener("focusin", ({ target }) => this.#setPaletteStop(target));
    this.#tree.addEventListener("focusin", (event) => this.#focused(event));
    this.#tree.addEventListener("change", (event) => this.#chosen(event));
    this.mode = recall(MODE) in MODES ? recall(MODE) : "text";
  }

  get mode() {
    return byId("program-card").dataset.mode;
  }

  set mode(mode) {
    byId("program-card").dataset.mode = mode;
    byId("blocks").hidden = mode === "text";
    for (const one of byId("program-modes").children) {
      one.setAttribute("aria-pressed", String(one.dataset.mode === mode));
    }
    this.follow();
  }

  /** The text has changed, or may have. */
  follow() {
    const { text, dialect } = this.source();
    const isSame = text === this.#text && (text.trim() || dialect === this.#dialect);
    if (this.mode === "text" || this.#writing || isSame) return;
    if (this.#text === null) this.#read();
    else this.#readSoon();
  }

  /** Marks the blocks that run: [{kind, line, column}], as in the text. */
  mark(marks) {
    this.#marks = marks.filter(({ kind }) => kind !== "problem");
    for (const node of this.#tree.querySelectorAll(".block")) {
      const { block } = this.#entry(node);
      const mark = this.#marks.find(({ line, column }) => line === block.line && column === block.column);
      node.classList.toggle("block-running", mark?.kind === "running");
      node.classList.toggle("block-crashed", mark?.kind === "crashed");
    }
    this.#tree.querySelector(".block-running > .block-head")?.scrollIntoView?.({ block: "nearest" });
  }

  #buildModes() {
    const choose = (mode) => {
      this.mode = mode;
      remember(MODE, mode);
    };
    const one = ([mode, name]) => button("", () => choose(mode), { "data-mode": mode }, name);
    const modes = Object.entries(MODES).map(one);
    byId("program-modes").classList.add("segments");
    byId("program-modes").setAttribute("role", "group");
    byId("program-modes").setAttribute("aria-label", "Show the program as");
    byId("program-modes").append(...modes);
  }

  // From text to blocks and back.

  async #read() {
    const { text, dialect } = this.source();
    if (text.length > LONGEST) return;
    const read = await guarded(() => post("/api/blocks/read", { program: text, dialect }));
    if (!read || text !== this.source().text || this.#writing) return;
    const { problem } = read;
    this.#note.hidden = !problem;
    this.#tree.classList.toggle("outdated", Boolean(problem));
    this.#tree.toggleAttribute("inert", Boolean(problem));
    this.#palette.toggleAttribute("inert", Boolean(problem));
    if (problem) {
      const where = `line ${problem.line}, column ${problem.column}`;
      const words = `The text is not a program at the moment. The blocks wait for ${where}: ${problem.message}.`;
      this.#note.replaceChildren(...prose(words));
      this.#text = null;
      return;
    }
    this.#take(read);
  }

  #take({ program, dialect, main, functions }) {
    this.#text = program;
    this.#main = main;
    this.#functions = functions;
    this.#dialect = dialect;
    this.#render();
  }

  /** Shows an edit at once and writes it into the text. Edits while one is being written go along with the next. */
  #commit(functions, cursor) {
    if (this.#naming) return; // these functions are of the text before
    this.#functions = functions;
    this.#cursor = cursor;
    this.#held = null;
    this.#render();
    if (!this.#writing) this.#written = this.#write();
  }

  async #write() {
    this.#writing = true;
    const base = this.source();
    let sent;
    let written;
    do {
      sent = this.#functions;
      const body = { program: base.text, dialect: base.dialect, functions: sent };
      written = await guarded(() => post("/api/blocks/write", body));
    } while (written && sent !== this.#functions);
    this.#writing = false;
    if (!written || base.text !== this.source().text) {
      this.#text = null;
      this.follow();
      return;
    }
    this.#past.push(base.text);
    this.#future = [];
    this.#take(written);
    this.edit(written.program);
  }

  /** Defines, renames or deletes a helper in the text; whether that was possible. */
  #changeHelper(change, name, newName = "") {
    const work = async () => {
      await this.#written; // an edit that is on its way comes first
      this.#naming = this.#writing = true;
      const base = this.source();
      const body = { program: base.text, dialect: base.dialect, change, name, new_name: newName };
      const written = await guarded(() => post("/api/blocks/helper", body));
      this.#naming = this.#writing = false;
      if (!written || base.text !== this.source().text) {
        if (base.text !== this.source().text) this.#text = null;
        this.#render(); // with the name as it was
        this.follow();
        return false;
      }
      this.#past.push(base.text);
      this.#future = [];
      this.#take(written);
      this.edit(written.program);
      return true;
    };
    const done = work();
    this.#written = done;
    return done;
  }

  async #define() {
    const name = freshName(this.#functions);
    if (!(await this.#changeHelper("define", name))) return;
    this.#editName(this.#functions.findIndex((one) => one.name === name));
    announce(`A new helper. Type its name.`);
  }

  async #rename(index, newName) {
    const { name } = this.#functions[index];
    if (newName === name) return;
    if (await this.#changeHelper("rename", name, newName)) announce(`${name} is now called ${newName}.`);
    else this.#editName(index);
  }

  async #delete(index) {
    const { name } = this.#functions[index];
    if (!(await this.#changeHelper("delete", name))) return;
    announce(`The helper ${name} was deleted.`);
    this.#all()[0]?.focus();
  }

  #editName(index) {
    const field = this.#nodeAt([index])?.querySelector("input");
    field?.focus();
    field?.select();
  }

  /** Whether the head of a helper is selected. */
  get #atHead() {
    return this.#cursor?.length === 1;
  }

  async #step(from, to) {
    await this.#written; // an edit that is on its way is the last one
    if (!from.length) return;
    to.push(this.source().text);
    this.edit(from.pop());
    this.#text = null;
    this.follow();
    announce("Done.");
  }

  // What is seen.

  #entry(node) {
    const path = node.dataset.path.split(",").map(Number);
    return { path, block: blockAt(this.#functions, path) };
  }

  #nodeAt(path) {
    return path && this.#tree.querySelector(`[data-path="${path.join(",")}"]`);
  }

  #render() {
    const focused = document.activeElement;
    const held = this.#tree.contains(focused);
    const part = held && focused.matches("select, input") ? focused.dataset.part : null;
    const places = new Map(flat(this.#functions).map((entry) => [entry.path.join(","), entry]));
    this.#tree.replaceChildren(...this.#functions.map((one, index) => this.#functionNode(one, index, places)));
    if (!this.#nodeAt(this.#cursor)) this.#cursor = null;
    const first = this.#tree.querySelector("[data-path]");
    const current = this.#nodeAt(this.#cursor) ?? first;
    if (current) current.tabIndex = 0;
    if (this.#cursor) current.setAttribute("aria-selected", "true");
    if (held && current) {
      const control = current.querySelector(`:scope > :is(.block-head, .helper-name) [data-part="${part}"]`);
      (control ?? current).focus({ preventScroll: true });
      current.scrollIntoView({ block: "nearest" });
    }
    this.#renderPalette();
    this.mark(this.#marks);
    this.undo.disabled = !this.#past.length;
    this.redo.disabled = !this.#future.length;
    this.#allow();
  }

  /** What can be done with what is selected. */
  #allow() {
    this.copy.disabled = !blockAt(this.#functions, this.#cursor ?? [-1, 0]);
    this.remove.disabled = this.copy.disabled && !this.#atHead;
  }

  /** The head of a function. A helper's is part of the tree: its name can be changed. */
  #functionHead(name, index) {
    const [word, end] = this.#dialect === "tokens" ? ["DEF", ""] : ["def", "()"];
    const def = el("span", { class: "block-word" }, word);
    if (name === this.#main) return el("div", { class: "function-head" }, def, ` ${name}${end}`);
    const limits = { type: "text", maxlength: 40, autocomplete: "off", autocapitalize: "off", spellcheck: "false" };
    const field = el("input", { ...limits, "data-part": "name", "aria-label": "Name of the helper" });
    field.value = name;
    const looks = { class: "function-head helper-head", role: "treeitem", tabindex: -1, "data-path": index };
    const position = { "aria-level": 1, "aria-selected": "false", "aria-label": `helper ${name}` };
    return el("div", { ...looks, ...position }, def, el("span", { class: "helper-name" }, field, "()"));
  }

  #functionNode({ name, body }, index, places) {
    const head = this.#functionHead(name, index);
    const inside = el("div", { class: "function-body", role: "group", "aria-label": `${name}` });
    inside.append(...this.#listNodes(body, [index], places));
    return el("div", { class: "block-function" }, head, inside);
  }

  #listNodes(list, prefix, places) {
    if (!list.length) {
      const path = [...prefix, 0].join(",");
      const looks = { class: "hole", role: "treeitem", tabindex: -1, "data-path": path, "data-slot": path };
      const level = { "aria-level": (prefix.length + 1) / 2, "aria-selected": "false" };
      return [el("div", { ...looks, ...level, "aria-label": "Empty: add a block here" }, "Add a block here")];
    }
    const nodes = list.flatMap((block, at) => {
      const path = [...prefix, at];
      return [slotNode(path), this.#blockNode(block, path, places)];
    });
    return [...nodes, slotNode([...prefix, list.length])];
  }

  #blockNode(block, path, places) {
    const { level, place, total } = places.get(path.join(","));
    const kind = block.blocks.length ? "control" : block.keyword === CALL ? "call" : "action";
    const looks = { class: `block ${kind}`, role: "treeitem", tabindex: -1, "data-path": path.join(",") };
    const position = { "aria-level": level, "aria-posinset": place, "aria-setsize": total, "aria-selected": "false" };
    const node = el("div", { ...looks, ...position, "aria-label": spoken(block) }, this.#head(block));
    block.blocks.forEach((inner, which) => {
      if (which) node.append(el("div", { class: "block-else" }, keywordText("ELSE", this.#dialect)));
      const nodes = this.#listNodes(inner, [...path, which], places);
      node.append(el("div", { class: "block-inside", role: "group" }, ...nodes));
    });
    if (block.blocks.length) node.append(el("div", { class: "block-foot" }));
    return node;
  }

  #head(block) {
    const [before, after] = headText(block, this.#dialect);
    const head = el("div", { class: "block-head" }, el("span", { class: "grip", "aria-hidden": "true" }));
    if (["WHILE", "IF"].includes(block.keyword)) {
      const kinds = ["WHILE", "IF"].map((keyword) => [keyword, keywordText(keyword, this.#dialect)]);
      head.append(select("keyword", "Kind of block", kinds, block.keyword));
    } else {
      head.append(el("span", { class: "block-word" }, before));
    }
    if (block.keyword === "REPEAT") {
      const limits = { type: "number", min: 0, max: LARGEST_COUNT };
      const field = el("input", { ...limits, "data-part": "count", "aria-label": "How many times" });
      field.value = block.detail;
      head.append(field, el("span", { class: "block-word" }, after));
    } else if (block.blocks.length) {
      const known = SENSORS.flatMap((sensor) => [sensor, `not ${sensor}`]);
      const options = known.includes(block.detail) ? known : [...known, block.detail];
      const seen = new Map(options.map((detail) => [conditionText(detail, this.#dialect), detail]));
      seen.set(conditionText(block.detail, this.#dialect), block.detail); // two details may read the same
      head.append(select("condition", "Condition", [...seen].map(([word, detail]) => [detail, word]), block.detail));
    }
    return head;
  }

  #renderPalette() {
    const helpers = this.#functions.map(({ name }) => name).filter((name) => name !== this.#main);
    const wanted = [...[...ACTIONS, ...CONTROL].map((one) => [one]), ...helpers.map((one) => [CALL, one])];
    const signature = JSON.stringify([wanted, this.#dialect]);
    if (this.#palette.dataset.shown === signature) return;
    this.#palette.dataset.shown = signature;
    this.#palette.replaceChildren(
      ...wanted.map(([keyword, detail]) => {
        const block = newBlock(keyword, detail);
        const kind = block.blocks.length ? "control" : keyword === CALL ? "call" : "action";
        const more = keyword === "IFELSE" && this.#dialect !== "tokens" ? " else" : "";
        const [action] = headText(block, this.#dialect);
        const label = kind === "control" ? keywordText(keyword, this.#dialect) + more : action;
        const data = { "data-keyword": keyword, "data-detail": detail };
        const looks = { ...data, title: "Drag it into the program, or click to add it" };
        return button(`palette-block ${kind}`, () => this.#add(block), looks, label);
      }),
    );
    if (this.#dialect !== "tokens") { // a program on one line has no helpers
      const looks = { title: "Make a helper: a function of your own, which blocks can call" };
      this.#palette.append(button("palette-new", () => this.#define(), looks, "New helper"));
    }
    this.#setPaletteStop(this.#palette.firstChild);
  }

  /** The shelf is one stop of the Tab key; arrow keys go on from there. */
  #setPaletteStop(stop) {
    for (const one of this.#palette.children) one.tabIndex = one === stop ? 0 : -1;
  }

  // Edits.

  async #add(block) {
    if (this.#dropped) return; // the click at the end of a drag
    if (this.#naming) await this.#written; // a name was typed just before
    const slot = slotAfter(this.#functions, this.#cursor ?? this.#end());
    this.#commit(inserted(this.#functions, slot, block), slot);
    announce(`${spoken(block)} added, ${spokenSlot(this.#functions, slot)}.`);
  }

  /** The last block of the main function, or its empty place. */
  #end() {
    const index = Math.max(0, this.#functions.findIndex(({ name }) => name === this.#main));
    return [index, Math.max(0, this.#functions[index].body.length - 1)];
  }

  #remove() {
    if (this.#atHead) {
      this.#delete(this.#cursor[0]);
      return;
    }
    const block = blockAt(this.#functions, this.#cursor ?? [-1, 0]);
    if (!block) return;
    const path = this.#cursor;
    const functions = removed(this.#functions, path);
    const left = blockAt(functions, path) ? path : path.at(-1) > 0 ? path.with(-1, path.at(-1) - 1) : path;
    this.#commit(functions, left);
    announce(`${spoken(block)} removed.`);
  }

  #copy() {
    const block = blockAt(this.#functions, this.#cursor ?? [-1, 0]);
    if (!block) return;
    const slot = this.#cursor.with(-1, this.#cursor.at(-1) + 1);
    this.#commit(inserted(this.#functions, slot, copied(block)), slot);
    announce(`${spoken(block)} copied.`);
  }

  #chosen({ target }) {
    if (target.dataset.part === "name") {
      this.#rename(this.#entry(target.closest("[data-path]")).path[0], target.value.trim());
      return;
    }
    const { path, block } = this.#entry(target.closest(".block"));
    const fields = {
      keyword: () => ({ keyword: target.value }),
      condition: () => ({ detail: target.value }),
      count: () => ({ detail: Math.max(0, Math.min(LARGEST_COUNT, Math.round(Number(target.value)) || 0)) }),
    }[target.dataset.part]();
    if (Object.entries(fields).every(([name, value]) => block[name] === value)) return;
    this.#commit(changed(this.#functions, path, fields), path);
  }

  // Keyboard.

  #focused({ target }) {
    const node = target.closest("[data-path]");
    if (!node) return;
    const { path } = this.#entry(node);
    if (this.#cursor && samePath(path, this.#cursor)) return;
    for (const other of this.#tree.querySelectorAll("[data-path]")) {
      other.tabIndex = other === node ? 0 : -1;
      other.setAttribute("aria-selected", String(other === node));
    }
    this.#cursor = path;
    this.#allow();
  }

  #key(event) {
    const command = event.ctrlKey || event.metaKey;
    if (command && ["z", "y"].includes(event.key.toLowerCase()) && !event.target.matches("input")) {
      const forth = event.key.toLowerCase() === "y" || event.shiftKey;
      this.#step(...(forth ? [this.#future, this.#past] : [this.#past, this.#future]));
    } else if (this.#palette.contains(event.target)) {
      if (!this.#paletteKey(event.key)) return;
    } else if (event.target.matches("select, input")) {
      const isName = event.target.dataset.part === "name";
      if (event.key !== "Escape" && !(isName && event.key === "Enter")) return;
      const node = event.target.closest("[data-path]");
      if (isName && event.key === "Escape") event.target.value = this.#functions[this.#entry(node).path[0]].name;
      node.focus(); // a name that has changed is taken
    } else if (command || !this.#tree.contains(event.target) || !this.#treeKey(event)) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  }

  #paletteKey(key) {
    const all = [...this.#palette.children];
    const at = all.indexOf(document.activeElement);
    const to = { ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1, Home: 0, End: -1 }[key];
    if (to === undefined) return false;
    all.at(to % all.length).focus();
    return true;
  }

  /** Whether the key means something in the tree. */
  #treeKey({ key, altKey }) {
    const by = { ArrowUp: -1, ArrowDown: 1 }[key];
    if (this.#held) return this.#heldKey(key, by);
    if (by && altKey) return this.#nudge(by, true);
    if (altKey) return false;
    if (by) return this.#go(by);
    switch (key) {
      case "ArrowLeft":
        return this.#focus(parentOf(this.#cursor) ?? [this.#cursor[0]]);
      case "ArrowRight":
        return this.#focus([...this.#cursor, ...(this.#atHead ? [0] : [0, 0])]);
      case "Home":
      case "End":
        this.#all().at(key === "Home" ? 0 : -1)?.focus();
        return true;
      case " ":
        return this.#pickUp();
      case "Enter":
        this.#nodeAt(this.#cursor)?.querySelector(":scope > :is(.block-head, .helper-name) :is(select, input)")?.focus();
        return true;
      case "Delete":
      case "Backspace":
        this.#remove();
        return true;
      case "c":
        this.#copy();
        return true;
      default:
        return false;
    }
  }

  #all() {
    return [...this.#tree.querySelectorAll("[data-path]")];
  }

  #go(by) {
    const all = this.#all();
    all[all.indexOf(this.#nodeAt(this.#cursor)) + by]?.focus();
    return true;
  }

  #focus(path) {
    this.#nodeAt(path)?.focus();
    return true;
  }

  #pickUp() {
    const block = blockAt(this.#functions, this.#cursor);
    if (!block) return true;
    this.#held = { functions: this.#functions, path: this.#cursor };
    this.#nodeAt(this.#cursor).classList.add("held");
    announce(`${spoken(block)} picked up. Arrow keys move it, Space puts it down, Escape takes it back.`);
    return true;
  }

  #heldKey(key, by) {
    if (by) return this.#nudge(by, false);
    if (key === "Escape") {
      [this.#functions, this.#cursor, this.#held] = [this.#held.functions, this.#held.path, null];
      this.#render();
      announce("Taken back.");
      return true;
    }
    if (key !== " " && key !== "Enter") return true;
    if (this.#functions === this.#held.functions) {
      this.#held = null;
      this.#render();
    } else {
      this.#commit(this.#functions, this.#cursor);
    }
    announce(`Put down, ${spokenSlot(this.#functions, this.#cursor)}.`);
    return true;
  }

  #nudge(by, atOnce) {
    if (!blockAt(this.#functions, this.#cursor)) return true;
    const result = nudged(this.#functions, this.#cursor, by);
    if (!result) return true;
    if (atOnce) {
      this.#commit(result.functions, result.path);
    } else {
      [this.#functions, this.#cursor] = [result.functions, result.path];
      this.#render();
      this.#nodeAt(this.#cursor).classList.add("held");
    }
    announce(spokenSlot(this.#functions, this.#cursor));
    return true;
  }

  // Pointer.

  #dropped = false;

  #press(event) {
    this.#dropped = false;
    if (event.button || this.#drag || event.target.closest("select, input")) return;
    const fromPalette = event.target.closest(".palette-block");
    const head = event.target.closest(".block-head");
    if (!fromPalette && !head) return;
    if (head && event.pointerType === "touch" && !event.target.closest(".grip")) return; // a swipe scrolls
    const node = fromPalette ?? head.parentElement;
    const { keyword, detail } = node.dataset;
    const path = fromPalette ? null : this.#entry(node).path;
    const block = fromPalette ? newBlock(keyword, detail) : blockAt(this.#functions, path);
    const control = new AbortController();
    const start = { x: event.clientX, y: event.clientY, pointer: event.pointerId };
    this.#drag = { node, path, block, ...start, control, ghost: null, slot: null };
    const on = (name, listener) => addEventListener(name, listener, { signal: control.signal, capture: true });
    on("pointermove", (moving) => this.#dragTo(moving));
    on("pointerup", (up) => this.#drop(up));
    on("pointercancel", () => this.#endDrag());
    on("keydown", (key) => {
      if (key.key === "Escape") this.#endDrag();
    });
  }

  #dragTo(event) {
    const drag = this.#drag;
    if (event.pointerId !== drag.pointer) return;
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.ghost) {
      if (Math.hypot(dx, dy) < NEAR) return;
      this.#lift(drag);
    }
    event.preventDefault();
    drag.ghost.style.transform = `translate(${event.clientX + 8}px, ${event.clientY + 4}px)`;
    this.#scroll(event.clientY);
    const inBar = isIn(byId("blocks").querySelector(".block-bar"), event);
    drag.bin = Boolean(drag.path) && inBar;
    byId("blocks").classList.toggle("over-bin", drag.bin);
    this.#aim(inBar ? null : this.#nearest(event.clientX, event.clientY));
  }

  #lift(drag) {
    drag.ghost = drag.node.cloneNode(true);
    drag.ghost.removeAttribute("data-path");
    drag.ghost.classList.add("ghost");
    drag.ghost.setAttribute("aria-hidden", "true");
    document.body.append(drag.ghost);
    if (drag.path) drag.node.classList.add("dragged");
    byId("blocks").classList.add("dragging");
    const possible = new Set(slots(this.#functions, drag.path).map((slot) => slot.join(",")));
    drag.slots = [...this.#tree.querySelectorAll("[data-slot]")].filter((node) => possible.has(node.dataset.slot));
  }

  /** The slot nearest to a point; its own height counts more than how far it is indented. */
  #nearest(x, y) {
    const box = this.#tree.getBoundingClientRect();
    if (x < box.left - 40 || x > box.right + 40 || y < box.top - 20 || y > box.bottom + 60) return null;
    let best = null;
    for (const node of this.#drag.slots) {
      const { left, top, bottom } = node.getBoundingClientRect();
      const height = y < top ? top - y : y > bottom ? y - bottom : 0;
      const distance = height + 0.25 * Math.abs(x - left - 12);
      if (!best || distance < best.distance) best = { node, distance };
    }
    return best?.node ?? null;
  }

  #aim(node) {
    if (this.#drag.slot === node) return;
    this.#drag.slot?.classList.remove("target");
    node?.classList.add("target");
    this.#drag.slot = node;
  }

  #scroll(y) {
    const { top, bottom } = this.#tree.getBoundingClientRect();
    if (y < top + EDGE) this.#tree.scrollTop -= 8;
    else if (y > bottom - EDGE) this.#tree.scrollTop += 8;
  }

  #drop(event) {
    const { path, block, ghost, slot, bin, pointer } = this.#drag;
    if (event.pointerId !== pointer) return;
    this.#endDrag();
    if (!ghost) return; // a click
    this.#dropped = true;
    setTimeout(() => (this.#dropped = false)); // the click comes before
    if (bin) {
      this.#cursor = path;
      this.#remove();
      return;
    }
    if (!slot) return;
    const target = slot.dataset.slot.split(",").map(Number);
    const result = path
      ? moved(this.#functions, path, target)
      : { functions: inserted(this.#functions, target, block), path: target };
    if (!result) return;
    this.#commit(result.functions, result.path);
    this.#focus(result.path);
    announce(`${spoken(block)}, ${spokenSlot(this.#functions, result.path)}.`);
  }

  #endDrag() {
    const { control, ghost, node } = this.#drag;
    control.abort();
    ghost?.remove();
    node.classList.remove("dragged");
    this.#drag.slot?.classList.remove("target");
    byId("blocks").classList.remove("dragging", "over-bin");
    this.#drag = null;
  }
}

function isIn(node, { clientX, clientY }) {
  const { left, right, top, bottom } = node.getBoundingClientRect();
  return clientX > left && clientX < right && clientY > top && clientY < bottom;
}

function slotNode(path) {
  return el("div", { class: "slot", "data-slot": path.join(",") });
}

function select(part, label, options, value) {
  const node = el("select", { "data-part": part, "aria-label": label });
  node.append(...options.map(([key, word]) => el("option", { value: key }, word)));
  node.value = value;
  return node;
}

