// Tasks as values: examples of a world before and after, and the edits that keep both of one kind. No page in here.
//
// A task is {name, about, examples: [{id, input, output, touched}]}. Walls and size are shared by input and output.
// As long as nobody has touched the output, it follows the input, and the example does not count: it is not filled in.

import {
  WALL, WorldError, at, blank, equal, parse, render, resized, sameWalls, withCell, withWallsOf,
} from "./world.js";

export const MOST_EXAMPLES = 20;

let lastId = 0;

export function example(input, output = input, touched = !equal(input, output)) {
  lastId += 1;
  return Object.freeze({ id: lastId, input, output, touched });
}

/** The examples that count: somebody has said what After is. */
export function filled(examples) {
  return examples.filter(({ touched }) => touched);
}

export function task(examples, name = "", about = "") {
  return Object.freeze({ name, about, examples: Object.freeze([...examples]) });
}

/** What a newcomer sees: two small examples, ready to be solved or edited. */
export function starter() {
  return fromJson({
    examples: [
      { input: ". . . . . .\n. . . . . .\n> . 1 . 1 .", output: ". . . . . .\n. . . . . .\n. . . . . >" },
      { input: "> 1 . .\n. . . .\n. . . .", output: ". . . >\n. . . .\n. . . ." },
    ],
  });
}

/** An empty sheet. */
export function empty() {
  return task([example(blank(4, 6))]);
}

export function fromJson(record) {
  const examples = record.examples.map((pair, index) => {
    const [input, output] = [parse(pair.input), parse(pair.output)];
    if (!sameWalls(input, output)) throw new WorldError(`example ${index + 1}: size or walls differ before and after`);
    return example(input, output, !pair.open);
  });
  if (!examples.length || examples.length > MOST_EXAMPLES) {
    throw new WorldError(`a task has 1 to ${MOST_EXAMPLES} examples, not ${examples.length}`);
  }
  return task(examples, String(record.name ?? ""), String(record.about ?? ""));
}

/** As plain data; an example that is not filled in is marked as `open`. */
export function toJson({ name, about, examples }) {
  const marked = pairs(examples).map((pair, index) => (examples[index].touched ? pair : { ...pair, open: true }));
  return { name, about, examples: marked };
}

export function sameTask(one, other) {
  return JSON.stringify(toJson(one)) === JSON.stringify(toJson(other));
}

/** The examples as the server takes them. */
export function pairs(examples) {
  return examples.map(({ input, output }) => ({ input: render(input), output: render(output) }));
}

function withExamples(old, examples) {
  return task(examples, old.name, old.about);
}

function withExample(old, id, edit) {
  return withExamples(old, old.examples.map((one) => (one.id === id ? Object.freeze(edit(one)) : one)));
}

/** The example with the walls of `model` on both sides, except where Karel stands on either. */
function matched(one, model) {
  let walls = model;
  for (const { row, col } of [one.input.hero, one.output.hero]) {
    if (at(walls, row, col) === WALL) walls = withCell(walls, row, col, 0);
  }
  return { ...one, input: withWallsOf(one.input, walls), output: withWallsOf(one.output, walls) };
}

/** Whether a wall of `world`, as one side of an example, would stand on the other side's Karel. */
export function buriesOther(old, id, side, world) {
  const one = old.examples.find((other) => other.id === id);
  const follows = side === "input" && !one.touched;
  const { row, col } = side === "input" ? one.output.hero : one.input.hero;
  return !follows && at(world, row, col) === WALL;
}

/** The task after one side of an example has become `world`; walls go to the other side, too. Nothing changes where one
 *  would stand on the other side's Karel. */
export function withSide(old, id, side, world) {
  if (buriesOther(old, id, side, world)) return old;
  return withExample(old, id, (one) => {
    if (side === "output") return matched({ ...one, output: world, touched: true }, world);
    return matched({ ...one, input: world, output: one.touched ? one.output : world }, world);
  });
}

export function withSize(old, id, rows, cols) {
  return withExample(old, id, (one) => {
    const input = resized(one.input, rows, cols);
    return matched({ ...one, input, output: resized(one.output, rows, cols) }, input);
  });
}

/** The output made a copy of the input again. */
export function withOutputReset(old, id) {
  return withExample(old, id, (one) => ({ ...one, output: one.input, touched: false }));
}

/** Another world for an example: the output starts anew as its copy. */
export function withInput(old, id, world) {
  return withExample(old, id, (one) => ({ ...one, input: world, output: world, touched: false }));
}

/** The output as it is, although it is the same as the input: nothing changes in this example. */
export function withNothingChanged(old, id) {
  return withExample(old, id, (one) => ({ ...one, touched: true }));
}

/** Whether two examples have the same Before and different Afters: no program does both. */
export function contradict(examples) {
  return examples.some((one, at) =>
    examples.slice(0, at).some((other) => equal(one.input, other.input) && !equal(one.output, other.output)),
  );
}

/** Whether there is room for no other example. */
export function isFull({ examples }) {
  return examples.length >= MOST_EXAMPLES;
}

export function withAdded(old, added, index) {
  return withExamples(old, old.examples.toSpliced(index, 0, added));
}

export function without(old, id) {
  return withExamples(old, old.examples.filter((one) => one.id !== id));
}

/** The example `by` places later; nothing happens at the ends. */
export function withMoved(old, id, by) {
  const from = old.examples.findIndex((one) => one.id === id);
  const to = from + by;
  if (to < 0 || to >= old.examples.length) return old;
  return withExamples(old, old.examples.toSpliced(from, 1).toSpliced(to, 0, old.examples[from]));
}

/** A name for files. */
export function slug(name) {
  return name.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 40) || "karel-task";
}
