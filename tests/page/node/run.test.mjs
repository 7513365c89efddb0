// Runs: worlds of a run, stepping over and out, breakpoints.

import assert from "node:assert/strict";
import { test } from "node:test";
import { ending, framesOf, isStop, nextOf, stepOut, stepOver } from "./static/run.js";
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
const STEPS = { calls: [], steps: [...ROUND(), ...ROUND(), WHILE(), step("turnLeft", 15, 16, 6)] };

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
  const stops = STEPS.steps.map((_, index) => index).filter((index) => isStop(STEPS, index, lines));
  assert.deepEqual(stops, [5, 11]);
  assert.ok(!isStop(STEPS, 14, lines));
});

// def around():           1
//   turnLeft()            2
//   turnLeft()            3
// def walk():             4
//   around()              5: tokens 8 to 10
//   while(frontIsClear):  6: tokens 10 to 16
//     move()              7
// def run():              8
//   repeat(2):            9: tokens 3 to 17
//     walk()              10: tokens 8 to 16
//   putMarker()           11
const CALLS = [
  { name: "walk", line: 10, start: 8, end: 16 },
  { name: "around", line: 5, start: 8, end: 10 },
];
const LEFT = (at) => step("turnLeft", at, at + 1, at - 6);
const WALK = () => [LEFT(8), LEFT(9), step("WHILE", 10, 16, 6), step("move", 14, 15, 7), step("WHILE", 10, 16, 6)];
const ROUND_OF = () => [step("REPEAT", 3, 17, 9), ...WALK()];
const HELPERS = { calls: CALLS, steps: [...ROUND_OF(), ...ROUND_OF(), step("putMarker", 17, 18, 11)] };

test("a call of a helper is one step", () => {
  assert.equal(nextOf(HELPERS, 1).line, 10); // the call is next, not what it begins with
  assert.equal(stepOver(HELPERS, 1), 6); // all of walk, with the helper that it calls: the second round is next
  assert.equal(stepOver(HELPERS, 7), 12);
  assert.equal(nextOf(HELPERS, 2).line, 3); // inside of it, a step is a step
  assert.equal(stepOver(HELPERS, 2), 3);
  assert.equal(stepOver(HELPERS, 3), 6); // the loop at the end of the helper
  assert.equal(stepOver(HELPERS, 0), 12); // the loop around the calls
});

test("a step out leaves the innermost helper or loop", () => {
  assert.equal(stepOut(HELPERS, 2), 3); // around
  assert.equal(stepOut(HELPERS, 3), 6); // walk
  assert.equal(stepOut(HELPERS, 4), 6); // the while, at the end of walk
  assert.equal(stepOut(HELPERS, 1), 12); // before the call: the repeat
});

test("breakpoints stop before a call, and tell a call from the first line of its helper", () => {
  const stops = (line) => HELPERS.steps.map((_, at) => at).filter((at) => isStop(HELPERS, at, new Set([line])));
  assert.deepEqual(stops(10), [1, 7]);
  assert.deepEqual(stops(5), [1, 7]);
  const inside = new Set([2]);
  assert.equal(nextOf(HELPERS, 1, inside).line, 2);
  assert.equal(stepOver(HELPERS, 1, inside), 2); // the turn alone
  assert.equal(stepOut(HELPERS, 1, inside), 3); // out of around, which was entered
  assert.equal(nextOf(HELPERS, 1, new Set([5])).line, 5);
  assert.equal(stepOver(HELPERS, 1, new Set([5])), 3);
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

test("how a run ended is said without ticks", () => {
  assert.equal(ending("finished after 1 tick"), "is done");
  const place = "at row 1, column 2, facing north";
  assert.equal(ending(`crashed: hit a wall ${place} (tick 7)`), `crashed: hit a wall ${place}`);
  const long = `was still running after 10,000 steps and tests ${place}`;
  assert.equal(ending(`ran out of ticks after 10000 ${place}`), long);
  const endless = `runs forever: the state repeats ${place} (tick 7)`;
  assert.equal(ending(endless), `never ends: everything is as it was before ${place}`);
});
