// Worlds: drawings read and written, actions, places in words. `tests/page/test_page_modules.py` runs this.

import assert from "node:assert/strict";
import { test } from "node:test";
import { act, at, describeCell, differences, parse, render, resized, withCell } from "./static/world.js";

const ROOM = ". # 2\n> . 3";

test("a drawing is read and written", () => {
  const world = parse(ROOM);
  assert.equal(render(world), ROOM);
  assert.deepEqual(world.hero, { row: 0, col: 0, heading: 1 });
  assert.equal(at(world, 1, 2), 2);
});

test("what is no world says why", () => {
  assert.throws(() => parse(". .\n. ."), /there is no Karel/);
  assert.throws(() => parse("> >\n. ."), /one Karel/);
  assert.throws(() => parse("> .\n. . ."), /same number of cells/);
  assert.throws(() => parse("> ?\n. ."), /not a cell/);
  assert.throws(() => parse(">"), /2 to 16 rows, not 1/);
});

test("Karel cannot go through walls, nor pick where nothing is", () => {
  const world = parse(ROOM);
  const moved = act(world, "move").world;
  assert.deepEqual([moved.hero.row, moved.hero.col], [0, 1]);
  const turned = act(moved, "turnLeft").world;
  assert.match(act(turned, "move").problem, /wall/);
  assert.match(act(world, "pickMarker").problem, /no marker/);
  assert.equal(act(turned, "move").world, turned);
});

test("no edit changes the world that it was made from", () => {
  const world = parse(ROOM);
  withCell(world, 0, 1, 5);
  resized(world, 4, 4);
  assert.equal(render(world), ROOM);
});

test("places count from 1 for people", () => {
  assert.equal(describeCell(parse(ROOM), 0, 2), "row 1, column 3: 3 markers");
  assert.equal(describeCell(parse(ROOM), 1, 1), "row 2, column 2: wall");
});

test("two worlds differ where anything differs", () => {
  const world = parse(ROOM);
  assert.deepEqual(differences(world, world), []);
  assert.deepEqual(differences(world, act(world, "move").world), [[0, 0], [0, 1]]);
  assert.deepEqual(differences(world, act(world, "turnLeft").world), [[0, 0]]);
  assert.deepEqual(differences(world, withCell(world, 1, 2, 1)), [[1, 2]]);
});
