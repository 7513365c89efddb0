// A board that is edited: by pointer, by keyboard, or by driving Karel.
//
// One cell is in the tab order; arrow keys move the cursor from there (while driving, they move Karel).

import { Board, CELL } from "./board.js";
import { announce, svg } from "./dom.js";
import { WALL, act, at, describeCell, inside, isHero, withCell, withHero } from "./world.js";

const ARROWS = { ArrowUp: [1, 0], ArrowRight: [0, 1], ArrowDown: [-1, 0], ArrowLeft: [0, -1] };
const DRIVE = {
  ArrowUp: ["move"],
  ArrowLeft: ["turnLeft"],
  ArrowRight: ["turnRight"],
  ArrowDown: ["turnLeft", "turnLeft"],
  " ": ["putMarker"],
  Enter: ["putMarker"],
  "+": ["putMarker"],
  p: ["putMarker"],
  "-": ["pickMarker"],
  x: ["pickMarker"],
  Backspace: ["pickMarker"],
  Delete: ["pickMarker"],
};
let strokes = 0;
const grids = new WeakMap(); // from the picture to what edits it

// Not on the picture itself: with such a listener, Chromium makes it a stop of the Tab key, besides its one cell.
document.addEventListener("focusin", ({ target }) => grids.get(target.ownerSVGElement)?.focused(target));

/** What a tool does to the cells of one stroke, decided where the stroke begins. */
function brush(tool, world, row, col) {
  const erasing = at(world, row, col) === WALL;
  const paint = {
    wall: (now, r, c) => {
      if (erasing) return at(now, r, c) === WALL ? withCell(now, r, c, 0) : now;
      return withCell(now, r, c, WALL);
    },
    add: (now, r, c) => (at(now, r, c) === WALL ? now : withCell(now, r, c, at(now, r, c) + 1)),
    take: (now, r, c) => (at(now, r, c) === WALL ? now : withCell(now, r, c, at(now, r, c) - 1)),
    erase: (now, r, c) => withCell(now, r, c, 0),
    karel: (now, r, c) => withHero(now, r, c),
  };
  return paint[tool];
}

/** The cells from one to another without the first: a quick pointer reports only a few places on its way. */
function line(from, to) {
  const steps = Math.max(Math.abs(to.row - from.row), Math.abs(to.col - from.col));
  return Array.from({ length: steps }, (_, index) => {
    const share = (index + 1) / steps;
    const between = (one, other) => Math.round(one + (other - one) * share);
    return { row: between(from.row, to.row), col: between(from.col, to.col) };
  });
}

export class Grid {
  #board;
  #cells = [];
  #layer = svg("g", { class: "cells" });
  #cursor = null;
  #stroke = null;
  #driving = false;

  onBump = null; // called with the reason where Karel cannot do what it is driven to do

  /** `tool()` returns the chosen tool; `onEdit(world, stroke)` is called for every change. */
  constructor(label, { tool, onEdit }) {
    Object.assign(this, { tool, onEdit });
    this.#board = new Board(label, { axes: true });
    this.node = this.#board.node;
    this.node.setAttribute("role", "grid");
    this.node.classList.add("editable");
    this.node.append(this.#layer);
    this.node.addEventListener("pointerdown", (event) => this.#press(event));
    this.node.addEventListener("pointermove", (event) => this.#drag(event));
    this.node.addEventListener("pointerup", (event) => this.#release(event));
    this.node.addEventListener("pointercancel", (event) => this.#cancel(event));
    this.node.addEventListener("contextmenu", (event) => event.preventDefault());
    this.node.addEventListener("keydown", (event) => this.press(event));
    grids.set(this.node, this);
  }

  get world() {
    return this.#board.world;
  }

  get driving() {
    return this.#driving;
  }

  set label(text) {
    this.node.setAttribute("aria-label", text);
  }

  update(world) {
    if (world === this.world) return;
    const sameSize = this.world && this.world.rows === world.rows && this.world.cols === world.cols;
    this.#board.update(world);
    if (!sameSize) this.#layOut(world);
    this.#cells.forEach((cell, index) => {
      cell.setAttribute("aria-label", describeCell(world, Math.floor(index / world.cols), index % world.cols));
    });
  }

  /** Starts or ends driving. While it lasts, the keys drive Karel. */
  drive(on) {
    this.#driving = on;
    this.node.classList.toggle("driving", on);
    if (on) this.#moveCursor(this.world.hero.row, this.world.hero.col, true);
  }

  /** Karel does what a button of the pad says; with `focus`, Karel's cell gets the focus. */
  perform(action, focus) {
    if (this.#act(action)) this.#moveCursor(this.world.hero.row, this.world.hero.col, focus);
  }

  /** Karel does it, if it can; says whether. Actions of one stroke are undone together. */
  #act(action, stroke = null) {
    const { world, problem } = act(this.world, action);
    if (problem) {
      this.#board.bump();
      this.onBump?.(problem);
      announce(`Karel cannot do that: ${problem}.`);
      return false;
    }
    this.onEdit(world, stroke);
    announce(`${action}. ${describeCell(world, world.hero.row, world.hero.col)}`);
    return true;
  }

  #layOut({ rows, cols }) {
    this.#cells = new Array(rows * cols);
    const lines = [];
    for (let row = rows - 1; row >= 0; row--) {
      const line = svg("g", { role: "row" });
      for (let col = 0; col < cols; col++) {
        const corner = { x: col * CELL + 1.5, y: (rows - 1 - row) * CELL + 1.5 };
        const shape = { class: "cell", width: CELL - 3, height: CELL - 3, rx: 5, ...corner };
        const cell = svg("rect", { role: "gridcell", tabindex: -1, "data-at": `${row},${col}`, ...shape });
        this.#cells[row * cols + col] = cell;
        line.append(cell);
      }
      lines.push(line);
    }
    this.#layer.replaceChildren(...lines);
    const old = this.#cursor;
    const { row, col } = old && inside(this.world, old.row, old.col) ? old : this.world.hero;
    this.#moveCursor(row, col, false);
  }

  #cellAt(row, col) {
    return this.#cells[row * this.world.cols + col];
  }

  #moveCursor(row, col, focus) {
    for (const cell of this.#cells) if (cell.getAttribute("tabindex") === "0") cell.setAttribute("tabindex", -1);
    this.#cursor = { row, col };
    const cell = this.#cellAt(row, col);
    cell.setAttribute("tabindex", 0);
    if (focus) cell.focus({ preventScroll: true });
  }

  /** Moves the cursor; it stays on the screen. */
  #follow(row, col) {
    this.#moveCursor(row, col, true);
    this.#cellAt(row, col).scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** A cell got the focus. */
  focused(target) {
    const place = target.dataset?.at?.split(",").map(Number);
    if (place) this.#moveCursor(...place, false);
  }

  #edit(world, stroke) {
    if (world === this.world) return;
    this.onEdit(world, stroke);
  }

  // Pointer.

  /** The row and column under the pointer, which may lie outside of the world. */
  #under(event) {
    const box = this.node.getBoundingClientRect();
    const view = this.node.viewBox.baseVal;
    const x = view.x + ((event.clientX - box.left) / box.width) * view.width;
    const y = view.y + ((event.clientY - box.top) / box.height) * view.height;
    return { row: this.world.rows - 1 - Math.floor(y / CELL), col: Math.floor(x / CELL) };
  }

  #press(event) {
    const place = this.#under(event);
    if (!inside(this.world, place.row, place.col) || this.#stroke || event.button === 1) return;
    event.preventDefault();
    this.node.setPointerCapture(event.pointerId);
    this.#moveCursor(place.row, place.col, true);
    if (this.#driving) return;
    const tool = event.button === 2 ? "erase" : this.tool();
    const turning = tool === "karel" && isHero(this.world, place.row, place.col);
    const tapping = tool === "karel" && event.pointerType === "touch"; // counts when lifted: it may become a scroll
    const paint = brush(tool, this.world, place.row, place.col);
    strokes += 1;
    const begin = { id: `paint ${strokes}`, pointer: event.pointerId, old: this.world };
    this.#stroke = { ...place, ...begin, tool, paint, turning, tapping };
    if (!turning && !tapping) this.#paint(place);
  }

  #paint({ row, col }) {
    const { paint, id } = this.#stroke;
    if (inside(this.world, row, col)) this.#edit(paint(this.world, row, col), id);
  }

  #drag(event) {
    if (this.#stroke?.pointer !== event.pointerId) return;
    const { row, col, tool, tapping } = this.#stroke;
    const place = this.#under(event);
    if (place.row === row && place.col === col) return;
    Object.assign(this.#stroke, place, { turning: false });
    if (tapping) return;
    const way = tool === "karel" ? [place] : line({ row, col }, place); // Karel is put down once, and tears no walls
    for (const one of way) this.#paint(one);
  }

  #release(event) {
    const stroke = this.#lift(event);
    if (stroke?.turning) this.#turn(1);
    else if (stroke?.tapping && inside(this.world, stroke.row, stroke.col)) {
      this.#edit(stroke.paint(this.world, stroke.row, stroke.col), stroke.id);
    }
  }

  /** A second finger makes the page larger. What the first one has drawn by then was not meant. */
  #cancel(event) {
    const stroke = this.#lift(event);
    if (stroke) this.#edit(stroke.old, stroke.id);
  }

  /** Ends the stroke of this pointer and returns it; another finger ends nothing. */
  #lift(event) {
    if (this.#stroke?.pointer !== event.pointerId) return null;
    const stroke = this.#stroke;
    this.#stroke = null;
    return stroke;
  }

  #turn(by) {
    const { row, col, heading } = this.world.hero;
    this.#edit(withHero(this.world, row, col, heading + by), null);
  }

  // Keyboard.

  /** A key, pressed here or on what belongs to the board. */
  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const known = this.#driving ? this.#driveKey(key) : this.#editKey(key);
    if (known) {
      event.preventDefault();
      event.stopPropagation();
    }
  }

  /** Whether the key means something while driving. */
  #driveKey(key) {
    if (!(key in DRIVE)) return false;
    strokes += 1;
    for (const action of DRIVE[key]) this.#act(action, `drive ${strokes}`);
    this.#follow(this.world.hero.row, this.world.hero.col);
    return true;
  }

  #editKey(key) {
    const { row, col } = this.#cursor;
    const step = ARROWS[key];
    if (step) {
      const [r, c] = [row + step[0], col + step[1]];
      if (inside(this.world, r, c)) this.#follow(r, c);
      return true;
    }
    const edited = this.#keyed(key, row, col);
    if (!edited) return false;
    this.#edit(edited, null);
    announce(describeCell(this.world, row, col));
    return true;
  }

  /** The world after a key at the cursor, or null if the key means nothing here. */
  #keyed(key, row, col) {
    const { world } = this;
    const here = isHero(world, row, col);
    const use = (tool) => brush(tool, world, row, col)(world, row, col);
    if (/^[0-9]$/.test(key)) return at(world, row, col) === WALL ? world : withCell(world, row, col, Number(key));
    switch (key) {
      case "w":
        return use("wall");
      case "+":
      case "=":
        return use("add");
      case "-":
        return use("take");
      case "Delete":
      case "Backspace":
        return use("erase");
      case "k":
        return here ? withHero(world, row, col, world.hero.heading + 1) : use("karel");
      case "l":
        return withHero(world, world.hero.row, world.hero.col, world.hero.heading - 1);
      case "r":
        return withHero(world, world.hero.row, world.hero.col, world.hero.heading + 1);
      case " ":
      case "Enter":
        return this.tool() === "karel" && here ? withHero(world, row, col, world.hero.heading + 1) : use(this.tool());
      default:
        return null;
    }
  }
}
