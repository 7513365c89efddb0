// Words: how sure an answer is, what would help, numbers of examples.

import assert from "node:assert/strict";
import { test } from "node:test";
import { offsetOf, pieces } from "./static/highlight.js";
import { advice, listed, odds, renumbered, sureness } from "./static/sure.js";

test("a probability becomes a share that people can picture", () => {
  assert.equal(odds(0.999), "nearly all");
  assert.equal(odds(0.91), "9 in 10");
  assert.equal(odds(0.7), "2 in 3");
  assert.equal(odds(0.01), "almost none");
});

test("how sure: the word, the reason, what would help", () => {
  const asked = sureness({ support: "fair", probability: 0.7, examples: 2, others: 3, asks: true });
  assert.equal(asked.word, "Probably what you mean.");
  assert.match(asked.reason, /about 2 in 3 are right on a new world, too\. 3 other programs fit, but not all/);
  assert.equal(asked.help, "The question below decides.");
  const strong = sureness({ support: "strong", probability: 0.99, examples: 3, others: 0, asks: false });
  assert.match(strong.reason, /one, nearly all are right .* No other program was found that fits\.$/);
  assert.equal(strong.help, "");
  const single = sureness({ support: "weak", probability: 0.3, examples: 1, others: 1, asks: false });
  assert.match(single.reason, /One example says little\. One other program fits, and on every world/);
  assert.match(single.help, /second example/);
  assert.equal(sureness({ support: null, probability: null, examples: 1, others: 0, asks: false }), null);
});

test("what would help where nothing was found", () => {
  const some = advice({ right: [true, false, false], numbers: [1, 3, 4], cells: 100, canSearchLonger: true });
  assert.match(some[0], /^Examples 3 and 4 are the hard part/);
  assert.ok(some.some((tip) => /longer search/.test(tip)));
  assert.ok(some.some((tip) => /Smaller worlds/.test(tip)));
  const none = advice({ right: [], numbers: [1], cells: 12, canSearchLonger: false });
  assert.equal(none.length, 1);
});

test("examples have the page's numbers, as some may not be filled in", () => {
  assert.equal(renumbered("Example 2 changed: a wall in column 2, row 1", [1, 4]), "Example 4 changed: a wall in column 2, row 1");
  assert.equal(renumbered("examples 1 and 2 have the same input", [2, 5]), "examples 2 and 5 have the same input");
  assert.equal(listed([1, 2, 3]), "1, 2 and 3");
});

test("colours cover the whole text, and places count from 1", () => {
  const text = "def run():\n  while(frontIsClear): # go\n    move()";
  assert.equal(pieces(text).map(({ start, end }) => text.slice(start, end)).join(""), text);
  const kinds = new Map(pieces(text).map(({ start, end, kind }) => [text.slice(start, end), kind]));
  assert.equal(kinds.get("while"), "keyword");
  assert.equal(kinds.get("frontIsClear"), "sensor");
  assert.equal(kinds.get("move"), "action");
  assert.equal(kinds.get("# go"), "comment");
  assert.equal(text.slice(offsetOf(text, 3, 5)), "move()");
});
