// Worlds as values: a text drawing in, edits that give new worlds, a text drawing out. No page in here.
//
// A world is {rows, cols, hero: {row, col, heading}, cells}. Row 0 is the bottom row; heading counts right turns
// from north. cells[row * cols + col] is a number of markers, or WALL.

export const SMALLEST_SIDE = 2;
export const LARGEST_SIDE = 16;
const MOST_MARKERS = 10;
export const WALL = -1;
export const HEADINGS = ["north", "east", "south", "west"];

const HEROES = "^>v<";
const STEP = [[1, 0], [0, 1], [-1, 0], [0, -1]];

/** A world that cannot be; the message is for people. */
export class WorldError extends Error {}

function make(rows, cols, hero, cells) {
  return Object.freeze({ rows, cols, hero: Object.freeze({ ...hero }), cells: Object.freeze(cells) });
}

export function blank(rows, cols) {
  return make(rows, cols, { row: 0, col: 0, heading: 1 }, new Array(rows * cols).fill(0));
}

export function at(world, row, col) {
  return world.cells[row * world.cols + col];
}

export function inside(world, row, col) {
  return row >= 0 && row < world.rows && col >= 0 && col < world.cols;
}

export function isHero(world, row, col) {
  return world.hero.row === row && world.hero.col === col;
}

/** Reads a drawing as the server writes it: `.` empty, `#` wall, `3` markers, `>` or `>3` Karel; north at the top. */
export function parse(text) {
  if (typeof text !== "string") throw new WorldError("a world is a text drawing");
  const lines = text.split(/\r\n|\r|\n/).map((line) => line.trim()).filter(Boolean).map((line) => line.split(/\s+/));
  const rows = lines.length;
  const cols = rows ? lines[0].length : 0;
  for (const [side, size] of [["rows", rows], ["columns", cols]]) {
    if (size < SMALLEST_SIDE || size > LARGEST_SIDE) {
      throw new WorldError(`a world has ${SMALLEST_SIDE} to ${LARGEST_SIDE} ${side}, not ${size}`);
    }
  }
  const cells = new Array(rows * cols).fill(0);
  let hero = null;
  lines.forEach((words, index) => {
    const row = rows - 1 - index;
    if (words.length !== cols) throw new WorldError("all lines of a world need the same number of cells");
    words.forEach((word, col) => {
      const match = /^(?:(\.)|(#)|([\^>v<])?(\d{1,2})?)$/.exec(word);
      const count = Number(match?.[4] ?? 0);
      if (!match || count > MOST_MARKERS) throw new WorldError(`\`${word.slice(0, 20)}\` is not a cell of a world`);
      cells[row * cols + col] = match[2] ? WALL : count;
      if (match[3]) {
        if (hero) throw new WorldError("a world has one Karel, but this one has more");
        hero = { row, col, heading: HEROES.indexOf(match[3]) };
      }
    });
  });
  if (!hero) throw new WorldError("there is no Karel in this world");
  return make(rows, cols, hero, cells);
}

/** The drawing that `parse` reads, with columns in line. */
export function render(world) {
  const lines = [];
  for (let row = world.rows - 1; row >= 0; row--) {
    const words = [];
    for (let col = 0; col < world.cols; col++) {
      const content = at(world, row, col);
      const karel = isHero(world, row, col) ? HEROES[world.hero.heading] : "";
      words.push(content === WALL ? "#" : `${karel}${content || ""}` || ".");
    }
    lines.push(words);
  }
  const widths = lines[0].map((_, col) => Math.max(...lines.map((words) => words[col].length)));
  return lines.map((words) => words.map((word, col) => word.padEnd(widths[col])).join(" ").trimEnd()).join("\n");
}

export function equal(one, other) {
  return render(one) === render(other);
}

/** The world with another content of a cell. A wall never lands on Karel. */
export function withCell(world, row, col, content) {
  if (!inside(world, row, col) || (content === WALL && isHero(world, row, col))) return world;
  const bounded = content === WALL ? WALL : Math.max(0, Math.min(MOST_MARKERS, content));
  if (bounded === at(world, row, col)) return world;
  const cells = [...world.cells];
  cells[row * world.cols + col] = bounded;
  return make(world.rows, world.cols, world.hero, cells);
}

/** The world with Karel on that cell; where a wall was, there is none then. */
export function withHero(world, row, col, heading = world.hero.heading) {
  if (!inside(world, row, col)) return world;
  if (isHero(world, row, col) && world.hero.heading === (heading + 4) % 4) return world;
  const cells = [...world.cells];
  if (at(world, row, col) === WALL) cells[row * world.cols + col] = 0;
  return make(world.rows, world.cols, { row, col, heading: (heading + 4) % 4 }, cells);
}

/** The world with the walls of another of the same size; markers under new walls go. */
export function withWallsOf(world, model) {
  const cells = world.cells.map((content, index) => (model.cells[index] === WALL ? WALL : Math.max(0, content)));
  return make(world.rows, world.cols, world.hero, cells);
}

export function sameWalls(one, other) {
  const sameSize = one.rows === other.rows && one.cols === other.cols;
  return sameSize && one.cells.every((content, index) => (content === WALL) === (other.cells[index] === WALL));
}

/** The world cut or grown at the top and the right; Karel comes along if its cell goes. */
export function resized(world, rows, cols) {
  const hero = { ...world.hero, row: Math.min(world.hero.row, rows - 1), col: Math.min(world.hero.col, cols - 1) };
  const cells = new Array(rows * cols).fill(0);
  for (let row = 0; row < Math.min(rows, world.rows); row++) {
    for (let col = 0; col < Math.min(cols, world.cols); col++) cells[row * cols + col] = at(world, row, col);
  }
  if (cells[hero.row * cols + hero.col] === WALL) cells[hero.row * cols + hero.col] = 0;
  return make(rows, cols, hero, cells);
}

/** What an action does: {world, problem}; the problem says why nothing happened, or is null. */
export function act(world, action) {
  const { row, col, heading } = world.hero;
  const here = at(world, row, col);
  switch (action) {
    case "turnLeft":
      return { world: withHero(world, row, col, heading - 1), problem: null };
    case "turnRight":
      return { world: withHero(world, row, col, heading + 1), problem: null };
    case "putMarker":
      if (here === MOST_MARKERS) return { world, problem: `there are ${MOST_MARKERS} markers here already` };
      return { world: withCell(world, row, col, here + 1), problem: null };
    case "pickMarker":
      if (here === 0) return { world, problem: "there is no marker here to pick" };
      return { world: withCell(world, row, col, here - 1), problem: null };
    default: {
      const [up, right] = STEP[heading];
      const clear = inside(world, row + up, col + right) && at(world, row + up, col + right) !== WALL;
      if (!clear) return { world, problem: "there is a wall in the way" };
      return { world: withHero(world, row + up, col + right), problem: null };
    }
  }
}

/** The cells [row, col] in which two worlds of one size differ: in walls, markers, or Karel. */
export function differences(one, other) {
  const cells = [];
  const heroAt = (world, row, col) => (isHero(world, row, col) ? world.hero.heading : -1);
  for (let row = 0; row < one.rows; row++) {
    for (let col = 0; col < one.cols; col++) {
      const same = at(one, row, col) === at(other, row, col) && heroAt(one, row, col) === heroAt(other, row, col);
      if (!same) cells.push([row, col]);
    }
  }
  return cells;
}

/** A cell's place in words: rows count from 1 at the bottom, columns from 1 at the left. */
export function describePlace(row, col) {
  return `row ${row + 1}, column ${col + 1}`;
}

/** A cell in words. */
export function describeCell(world, row, col) {
  const content = at(world, row, col);
  const parts = [];
  if (isHero(world, row, col)) parts.push(`Karel facing ${HEADINGS[world.hero.heading]}`);
  if (content === WALL) parts.push("wall");
  else if (content > 0) parts.push(content === 1 ? "1 marker" : `${content} markers`);
  return `${describePlace(row, col)}: ${parts.join(", ") || "empty"}`;
}
