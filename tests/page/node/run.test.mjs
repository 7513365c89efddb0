// Runs: worlds of a run, stepping over and out, breakpoints.

import assert from "node:assert/strict";
import { test } from "node:test";
import { framesOf, isStop, nextStop, stepOut, stepOver } from "./static/run.js";
import { at, parse } from "./static/world.js";

const step = (token, start, end, line) => ({ token, start, end, line, hero: [0, 0, "east"], markers: null });
// def run():              start end line
//   while(frontIsClear):  3     15  2
//     repeat(2):          8     13  3
//       putMarker()       11    12  4
//     move()              13    14  5
//   turnLeft()            15    16  6
const WHILE = () => step("WHILE", 3, 15, 2);
const REPEAT = () => step("REPEAT", 8, 13, 3);
const PUT = () => step("putMarker", 11, 12, 4);
const MOVE = () => step("move", 13, 14, 5);
const ROUND = () => [WHILE(), REPEAT(), PUT(), REPEAT(), PUT(), MOVE()];
const STEPS = [...ROUND(), ...ROUND(), WHILE(), step("turnLeft", 15, 16, 6)];

test("a step over a loop runs all its rounds", () => {
  assert.equal(stepOver(STEPS, 0), 13); // the while: turnLeft is next
  assert.equal(stepOver(STEPS, 1), 5); // the repeat: move is next
  assert.equal(stepOver(STEPS, 2), 3); // an action is one step
  assert.equal(stepOver(STEPS, 13), 14);
  assert.equal(stepOver(STEPS, 14), 14);
});

test("a step out leaves the innermost loop", () => {
  assert.equal(stepOut(STEPS, 2), 5); // in the repeat
  assert.equal(stepOut(STEPS, 3), 5); // at its second round, coming from its body
  assert.equal(stepOut(STEPS, 1), 13); // before the repeat: the loop around it is the while
  assert.equal(stepOut(STEPS, 5), 13);
  assert.equal(stepOut(STEPS, 6), 13); // at the while again
  assert.equal(stepOut(STEPS, 0), 14); // in no loop yet: to the end
});

test("a run stops before every line with a breakpoint", () => {
  const lines = new Set([5]);
  assert.equal(nextStop(STEPS, 0, lines), 5);
  assert.equal(nextStop(STEPS, 5, lines), 11);
  assert.equal(nextStop(STEPS, 11, lines), 14);
  assert.ok(isStop(STEPS, 5, lines));
  assert.ok(!isStop(STEPS, 14, lines));
});

test("frames follow what each step changed", () => {
  const steps = [
    { hero: [0, 1, "east"], markers: null },
    { hero: [0, 1, "east"], markers: [0, 1, 3] },
    { hero: [0, 1, "north"], markers: null },
  ];
  const frames = framesOf(parse("> .\n. ."), steps.map((one) => ({ ...one, hero: [1, 1, one.hero[2]], markers: one.markers && [1, 1, 3] })));
  assert.equal(frames.length, 4);
  assert.deepEqual([frames[1].hero.row, frames[1].hero.col], [1, 1]);
  assert.equal(at(frames[1], 1, 1), 0);
  assert.equal(at(frames[2], 1, 1), 3);
  assert.equal(frames[3].hero.heading, 0);
});
