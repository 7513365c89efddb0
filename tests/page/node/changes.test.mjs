// Changes of a text that are accepted line by line.

import assert from "node:assert/strict";
import { test } from "node:test";

import { applied, changesOf, wordsOf } from "./static/changes.js";

const OLD = "def run():\n  if(markersPresent):\n    pickMarker()\n  move()";

test("a replaced line is one part", () => {
  const parts = changesOf(OLD, OLD.replace("if", "while"));
  assert.deepEqual(parts.filter((part) => !part.same), [
    { id: 0, old: ["  if(markersPresent):"], next: ["  while(markersPresent):"], line: 2 },
  ]);
});

test("lines that come or go are parts of their own", () => {
  const parts = changesOf("a\nb\nc\nd", "a\nx\ny\nb\nd");
  assert.deepEqual(
    parts.filter((part) => !part.same).map(({ old, next, line }) => [old, next, line]),
    [[[], ["x", "y"], 2], [["c"], [], 3]],
  );
  assert.equal(applied(parts, (id) => id === 1), "a\nb\nd");
});

test("as many lines for as many are accepted one by one", () => {
  const parts = changesOf("a\nb\nc", "a\nB\nC");
  assert.equal(parts.filter((part) => !part.same).length, 2);
  assert.equal(applied(parts, (id) => id === 1), "a\nb\nC");
});

test("all parts give the new text, none the old one", () => {
  let random = 7;
  const draw = (most) => (random = (random * 48271) % 2147483647) % most;
  for (let round = 0; round < 300; round++) {
    const text = () => Array.from({ length: draw(9) }, () => "abcd"[draw(4)]).join("\n");
    const [before, after] = [text(), text()];
    const parts = changesOf(before, after);
    assert.equal(applied(parts, () => true), after);
    assert.equal(applied(parts, () => false), before);
  }
});

test("of a line that replaces another, the words that differ are told", () => {
  assert.deepEqual(wordsOf("  if(markersPresent):", "  while(markersPresent):"), [
    [["  ", false], ["if", true], ["(markersPresent):", false]],
    [["  ", false], ["while", true], ["(markersPresent):", false]],
  ]);
  assert.deepEqual(wordsOf("IF i( move i)", "WHILE w( move w)")[1].filter(([, isOther]) => isOther), [
    ["WHILE", true], ["w", true], ["w", true],
  ]);
  assert.deepEqual(wordsOf("", "move"), [[], [["move", true]]]);
});
