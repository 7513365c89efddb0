// A world as an SVG picture. The same shapes as the command line's pictures draw, but Karel glides.

import { el, icon, svg } from "./dom.js";
import { HEADINGS, WALL, at, isHero } from "./world.js";

export const CELL = 40;
const MARGIN = 3;
const GAP = 2;
const MANY = 12; // rows or columns whose numbers are small

/** Karel from above, facing north around the origin: tracks, a body with a prow, a visor with two eyes. */
function karel() {
  const body = "0,-18.4 11.6,-4.8 11.6,13.6 -11.6,13.6 -11.6,-4.8";
  return [
    svg("rect", { class: "karel-trim", x: -16, y: -3.2, width: 6.4, height: 16, rx: 2.4 }),
    svg("rect", { class: "karel-trim", x: 9.6, y: -3.2, width: 6.4, height: 16, rx: 2.4 }),
    svg("polygon", { class: "karel-body", points: body, "stroke-linejoin": "round", "stroke-width": 4 }),
    svg("rect", { class: "karel-face", x: -8, y: -5.2, width: 16, height: 8, rx: 4 }),
    svg("circle", { class: "karel-trim", cx: -3.8, cy: -1.2, r: 2.2 }),
    svg("circle", { class: "karel-trim", cx: 3.8, cy: -1.2, r: 2.2 }),
    svg("rect", { class: "karel-trim", x: -4.4, y: 6.8, width: 8.8, height: 2.4, rx: 1.2 }),
  ];
}

function text(x, y, content, size) {
  const middle = { "text-anchor": "middle", "dominant-baseline": "central" };
  return svg("text", { x, y, "font-size": size, ...middle }, String(content));
}

export class Board {
  #world = null;
  #turn = 0;
  #axes = null;
  #floor = svg("g");
  #changes = svg("g", { class: "changes" });
  #markers = svg("g", { class: "markers" });
  #signs = svg("g", { class: "signs" });
  #inner = svg("g", {}, svg("g", { transform: "scale(0.92)" }, ...karel()));
  #karel = svg("g", { class: "karel" }, this.#inner);

  /** `label` names the picture for screen readers; a board that is edited gets its own role from the grid. With `axes`,
   *  rows and columns have numbers, from 1. */
  constructor(label, { axes = false } = {}) {
    this.node = svg("svg", { class: "board", role: "img", "aria-label": label });
    this.node.append(this.#floor, this.#changes, this.#markers, this.#karel, this.#signs);
    this.label = label;
    this.#axes = axes ? svg("g", { class: "axes", "aria-hidden": "true" }) : null;
    if (this.#axes) this.node.append(this.#axes);
  }

  get world() {
    return this.#world;
  }

  /** Shows a world; with `alarm`, a sign that Karel failed there; `marked` are cells [row, col] that differ from what
   *  was expected or shown beside. */
  update(world, { alarm = false, marked = [] } = {}) {
    const old = this.#world;
    this.#world = world;
    const sameFloor = old && old.rows === world.rows && old.cols === world.cols;
    if (!sameFloor) this.#resize(world);
    if (!sameFloor || old.cells.some((content, index) => (content === WALL) !== (world.cells[index] === WALL))) {
      this.#drawFloor(world);
    }
    this.#markCells(marked);
    this.#drawMarkers(world, alarm);
    this.#placeKarel(world, sameFloor);
    if (this.node.getAttribute("role") === "img") {
      this.node.setAttribute("aria-label", `${this.label}. ${summary(world)}`);
    }
  }

  /** Karel shakes its head: it cannot do that. */
  bump() {
    this.#inner.classList.remove("bump");
    this.#inner.getBoundingClientRect(); // restarts the animation
    this.#inner.classList.add("bump");
  }

  /** The middle of a cell. */
  centre(row, col) {
    return [col * CELL + CELL / 2, (this.#world.rows - 1 - row) * CELL + CELL / 2];
  }

  #resize({ rows, cols }) {
    const size = 9 + 0.75 * Math.max(rows, cols); // of the numbers: in a large world, cells are small
    const room = this.#axes ? 1.5 * size + MARGIN : MARGIN;
    const [width, height] = [cols * CELL + MARGIN + room, rows * CELL + MARGIN + room];
    this.node.setAttribute("viewBox", `${-room} ${-MARGIN} ${width} ${height}`);
    this.node.style.setProperty("--rows", rows);
    this.node.style.setProperty("--cols", cols);
    this.node.style.setProperty("--aspect", (width / height).toFixed(4));
    if (!this.#axes) return;
    const numbers = [];
    for (let col = 0; col < cols; col++) {
      numbers.push(text((col + 0.5) * CELL, rows * CELL + MARGIN + 0.75 * size, col + 1, size));
    }
    for (let row = 0; row < rows; row++) {
      numbers.push(text(-MARGIN - 0.75 * size, (rows - row - 0.5) * CELL, row + 1, size));
    }
    // Where the picture is small, only every fifth number is seen, and larger.
    for (const one of numbers) one.classList.toggle("between", ![1, 5, 10, 15].includes(Number(one.textContent)));
    this.#axes.classList.toggle("many", Math.max(rows, cols) >= MANY);
    this.#axes.replaceChildren(...numbers);
  }

  #markCells(cells) {
    this.#changes.replaceChildren(
      ...cells.map(([row, col]) => {
        const corner = { x: col * CELL + 1, y: (this.#world.rows - 1 - row) * CELL + 1 };
        return svg("rect", { class: "change", width: CELL - 2, height: CELL - 2, rx: 4, ...corner });
      }),
    );
  }

  #drawFloor(world) {
    const [width, height] = [world.cols * CELL, world.rows * CELL];
    const lines = [];
    for (let col = 1; col < world.cols; col++) lines.push(`M${col * CELL} 0V${height}`);
    for (let row = 1; row < world.rows; row++) lines.push(`M0 ${row * CELL}H${width}`);
    const rim = { x: -MARGIN, y: -MARGIN, width: width + 2 * MARGIN, height: height + 2 * MARGIN, rx: 7 };
    this.#floor.replaceChildren(
      svg("rect", { class: "rim", ...rim }),
      svg("rect", { class: "floor", x: 0, y: 0, width, height, rx: 4.5 }),
      svg("path", { class: "lines", d: lines.join("") }),
      svg("path", { class: "walls", d: this.#walls(world) }),
    );
  }

  /** Walls as one shape where they touch. */
  #walls(world) {
    const isWall = (row, col) => row < world.rows && col < world.cols && at(world, row, col) === WALL;
    const shapes = [];
    const rect = (x, y, width, height) => shapes.push(`M${x} ${y}h${width}v${height}h${-width}z`);
    const side = CELL - 2 * GAP;
    for (let row = 0; row < world.rows; row++) {
      for (let col = 0; col < world.cols; col++) {
        if (!isWall(row, col)) continue;
        const [x, y] = [col * CELL + GAP, (world.rows - 1 - row) * CELL + GAP];
        const [r, flat] = [5, side - 10];
        const arc = (dx, dy) => `a${r} ${r} 0 0 1 ${dx} ${dy}`;
        shapes.push(
          `M${x + r} ${y}h${flat}${arc(r, r)}v${flat}${arc(-r, r)}h${-flat}${arc(-r, -r)}v${-flat}${arc(r, -r)}z`,
        );
        const [right, above] = [isWall(row, col + 1), isWall(row + 1, col)];
        if (right) rect(x + side / 2, y, CELL, side);
        if (above) rect(x, y + side / 2 - CELL, side, CELL);
        if (right && above && isWall(row + 1, col + 1)) rect(x + side / 2, y + side / 2 - CELL, CELL, CELL);
      }
    }
    return shapes.join("");
  }

  #drawMarkers(world, alarm) {
    const shapes = [];
    const signs = [];
    world.cells.forEach((content, index) => {
      const [row, col] = [Math.floor(index / world.cols), index % world.cols];
      if (content <= 0) return;
      const [x, y] = this.centre(row, col);
      if (isHero(world, row, col)) {
        shapes.push(svg("rect", { class: "tint", x: x - 18, y: y - 18, width: 36, height: 36, rx: 5.6 }));
        signs.push(this.#sign("badge", x, y, world.hero.heading >= 2, world.hero.heading >= 2, content));
      } else {
        const reach = content === 1 ? 9 : 15;
        const points = `${x},${y - reach} ${x + reach},${y} ${x},${y + reach} ${x - reach},${y}`;
        shapes.push(svg("polygon", { class: "marker", points, "stroke-linejoin": "round", "stroke-width": 4 }));
        if (content > 1) shapes.push(text(x, y, content, content < 10 ? 17 : 15));
      }
    });
    if (alarm) {
      const { row, col, heading } = world.hero;
      const [x, y] = this.centre(row, col);
      signs.push(this.#sign("alarm", x, y, heading === 0 || heading === 3, heading === 1 || heading === 2, "!"));
    }
    this.#markers.replaceChildren(...shapes);
    this.#signs.replaceChildren(...signs);
  }

  /** A disc in a corner at Karel's back. */
  #sign(kind, x, y, right, upper, content) {
    const [cx, cy] = [x + (right ? 11 : -11), y + (upper ? -11 : 11)];
    return svg("g", { class: kind }, svg("circle", { cx, cy, r: 8 }), text(cx, cy, content, content === 10 ? 10 : 12));
  }

  #placeKarel(world, glide) {
    const { row, col, heading } = world.hero;
    const [x, y] = this.centre(row, col);
    const by = (((heading - this.#turn) % 4) + 6) % 4 - 2; // the short way round: -2, -1, 0 or 1 quarter turns
    this.#turn += by === -2 ? 2 : by;
    this.#karel.classList.toggle("still", !glide);
    this.#karel.style.transform = `translate(${x}px, ${y}px) rotate(${90 * this.#turn}deg)`;
  }
}

/** A small picture of an example; what is beside it says more to screen readers. */
export function picturePair({ input, output }) {
  const [before, after] = [new Board("Before"), new Board("After")];
  before.update(input);
  after.update(output);
  return el("span", { class: "gallery-pair", "aria-hidden": "true" }, before.node, icon("arrow"), after.node);
}

/** A world in a sentence. */
function summary(world) {
  const walls = world.cells.filter((content) => content === WALL).length;
  const markers = world.cells.reduce((sum, content) => sum + Math.max(0, content), 0);
  const { row, col, heading } = world.hero;
  return (
    `${world.rows} rows, ${world.cols} columns; Karel at row ${row + 1}, column ${col + 1} facing ${HEADINGS[heading]}; ` +
    `${walls} ${walls === 1 ? "wall" : "walls"}, ${markers} ${markers === 1 ? "marker" : "markers"}`
  );
}
