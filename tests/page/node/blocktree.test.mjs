// The block tree: places, edits, words.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  blockAt, changed, conditionText, copied, flat, freshName, headText, inserted, keywordText, moved, newBlock, nudged,
  removed, samePath, slotAfter, slots, spoken, spokenSlot,
} from "./static/blocktree.js";

const leaf = (keyword, number) => ({ keyword, detail: null, blocks: [], number });

/** run: move, while (turnLeft, if (putMarker)), pickMarker; and a helper. */
function sample() {
  const choice = { keyword: "IF", detail: "markersPresent", blocks: [[leaf("putMarker", 4)]], number: 3 };
  const loop = { keyword: "WHILE", detail: "frontIsClear", blocks: [[leaf("turnLeft", 2), choice]], number: 1 };
  return [
    { name: "run", body: [leaf("move", 0), loop, leaf("pickMarker", 5)] },
    { name: "back", body: [leaf("turnLeft", 6)] },
  ];
}

const outline = (functions) =>
  functions.map(({ body }) => {
    const write = (list) =>
      list.map(({ keyword, blocks }) => keyword + blocks.map((inner) => `(${write(inner)})`).join("")).join(" ");
    return write(body);
  });

test("blocks and slots are in the order in which they are read", () => {
  const functions = sample();
  assert.deepEqual(
    flat(functions).map(({ block }) => block.number),
    [0, 1, 2, 3, 4, 5, 6],
  );
  assert.deepEqual(flat(functions)[4].path, [0, 1, 0, 1, 0, 0]);
  assert.equal(blockAt(functions, [0, 1, 0, 1, 0, 0]).keyword, "putMarker");
  assert.equal(slots(functions).length, 11);
  assert.equal(slots(functions, [0, 1]).length, 6); // nothing inside of the loop
  assert.equal(blockAt(functions, [5, 0]), undefined);
});

test("edits leave the old tree as it was", () => {
  const functions = sample();
  const before = JSON.stringify(functions);
  assert.deepEqual(outline(inserted(functions, [0, 1, 0, 0], newBlock("IFELSE"))), [
    "move WHILE(IFELSE()() turnLeft IF(putMarker)) pickMarker", "turnLeft",
  ]);
  assert.deepEqual(outline(removed(functions, [0, 1, 0, 1])), ["move WHILE(turnLeft) pickMarker", "turnLeft"]);
  assert.equal(blockAt(changed(functions, [0, 1], { detail: "not leftIsClear" }), [0, 1]).detail, "not leftIsClear");
  assert.equal(JSON.stringify(functions), before);
});

test("a block moves within its list, into others and to other functions", () => {
  const functions = sample();
  const result = moved(functions, [0, 0], [0, 3]);
  assert.deepEqual(result.path, [0, 2]);
  assert.deepEqual(outline(result.functions), ["WHILE(turnLeft IF(putMarker)) pickMarker move", "turnLeft"]);
  const inside = moved(functions, [0, 0], [0, 1, 0, 1, 0, 1]);
  assert.deepEqual(inside.path, [0, 0, 0, 1, 0, 1]); // the loop is one place earlier now
  assert.deepEqual(outline(inside.functions), ["WHILE(turnLeft IF(putMarker move)) pickMarker", "turnLeft"]);
  assert.deepEqual(outline(moved(functions, [0, 1], [1, 0]).functions), [
    "move pickMarker", "WHILE(turnLeft IF(putMarker)) turnLeft",
  ]);
});

test("nothing goes into itself, and a move to where it is changes nothing", () => {
  const functions = sample();
  assert.equal(moved(functions, [0, 1], [0, 1, 0, 0]), null);
  assert.equal(moved(functions, [0, 1], [0, 1, 0, 1, 0, 0]), null);
  assert.equal(moved(functions, [0, 1], [0, 1]), null);
  assert.equal(moved(functions, [0, 1], [0, 2]), null);
});

test("with the keyboard a block goes through every place, forth and back", () => {
  let state = { functions: sample(), path: [0, 0] };
  const seen = [];
  for (let next; (next = nudged(state.functions, state.path, 1)); state = next) seen.push(outline(next.functions));
  assert.equal(seen.length, 9); // all eleven slots but the two beside itself at the start
  assert.deepEqual(seen.at(0), ["WHILE(move turnLeft IF(putMarker)) pickMarker", "turnLeft"]);
  assert.deepEqual(seen.at(-1), ["WHILE(turnLeft IF(putMarker)) pickMarker", "turnLeft move"]);
  for (let next; (next = nudged(state.functions, state.path, -1)); ) state = next;
  assert.deepEqual(outline(state.functions), outline(sample()));
});

test("random moves keep every block", () => {
  let random = 12345;
  const pick = (list) => list[(random = (random * 1103515245 + 12345) % 2 ** 31) % list.length];
  let functions = sample();
  for (let round = 0; round < 500; round++) {
    const { path, block } = pick(flat(functions));
    const result = moved(functions, path, pick(slots(functions, path)));
    if (!result) continue;
    assert.equal(blockAt(result.functions, result.path).number, block.number);
    functions = result.functions;
    assert.deepEqual(flat(functions).map((one) => one.block.number).toSorted(), [0, 1, 2, 3, 4, 5, 6]);
  }
});

test("a new block goes into an empty one, else after the one that is selected", () => {
  const functions = inserted(sample(), [0, 0], newBlock("IFELSE"));
  assert.deepEqual(slotAfter(functions, [0, 0]), [0, 0, 0, 0]);
  assert.deepEqual(slotAfter(functions, [0, 1]), [0, 2]);
  assert.deepEqual(slotAfter(functions, [0, 0, 1, 0]), [0, 0, 1, 0]); // an empty place
  assert.deepEqual(slotAfter(functions, null), [1, 1]);
  assert.ok(samePath(slotAfter(functions, [1, 0]), [1, 1]));
});

test("a copy is new, with all that is inside", () => {
  const copy = copied(sample()[0].body[1]);
  assert.deepEqual(flat([{ name: "", body: [copy] }]).map(({ block }) => block.number), [null, null, null, null]);
});

test("words are those of the dialect", () => {
  assert.equal(conditionText("not frontIsClear", "paper"), "not frontIsClear");
  assert.equal(conditionText("not frontIsClear", "stanford"), "front_is_blocked");
  assert.equal(conditionText("not not frontIsClear", "stanford"), "not front_is_blocked");
  assert.equal(conditionText("markersPresent", "stanford"), "beepers_present");
  assert.deepEqual(headText(newBlock("turnLeft"), "stanford"), ["turn_left()", ""]);
  assert.deepEqual(headText(newBlock("turnLeft"), "paper"), ["turnLeft()", ""]);
  assert.deepEqual(headText(newBlock("turnLeft"), "tokens"), ["turnLeft", ""]);
  assert.deepEqual(headText(newBlock("REPEAT"), "paper"), ["repeat", "times"]);
  assert.deepEqual(headText(newBlock("REPEAT"), "stanford"), ["for _ in range(", ")"]);
  assert.equal(keywordText("REPEAT", "stanford"), "for");
  assert.deepEqual(headText(newBlock("REPEAT"), "tokens"), ["REPEAT", ""]);
  assert.deepEqual(["IFELSE", "ELSE"].map((word) => keywordText(word, "stanford")), ["if", "else"]);
  assert.deepEqual(["IFELSE", "ELSE"].map((word) => keywordText(word, "tokens")), ["IFELSE", "ELSE"]);
  assert.equal(spoken(newBlock("WHILE")), "while front is clear, empty");
  assert.equal(spoken(newBlock("IFELSE", "not markersPresent")), "if not markers are present, else, empty");
  assert.equal(spokenSlot(sample(), [0, 1, 0, 1]), "2 of 2 inside while front is clear");
  assert.equal(spokenSlot(sample(), [1, 0]), "1 of 1 in back");
});

test("the head of a helper is a place, but no block", () => {
  assert.equal(blockAt(sample(), [1]), undefined);
  assert.deepEqual(slotAfter(sample(), [1]), [1, 0]); // a new block becomes the helper's first
});

test("a new helper has a name of its own", () => {
  assert.equal(freshName(sample()), "helper");
  const taken = ["helper", "helper3", "helper2"].map((name) => ({ name, body: [] }));
  assert.equal(freshName(taken), "helper4");
});
