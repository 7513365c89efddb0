// Tasks: which examples count, and what becomes of them in files, drafts and links.

import assert from "node:assert/strict";
import { test } from "node:test";
import { History } from "./static/history.js";
import { fragmentOf, taskOf } from "./static/link.js";
import { Shelf } from "./static/shelf.js";
import {
  contradict, empty, example, filled, fromJson, pairs, starter, task, toJson, withNothingChanged, withOutputReset,
  withSide,
} from "./static/task.js";
import { act, blank, parse } from "./static/world.js";

test("an example counts when it was filled in", () => {
  const fresh = empty();
  assert.deepEqual(filled(fresh.examples), []);
  const [{ id, input }] = fresh.examples;
  const drawn = withSide(fresh, id, "output", act(input, "move").world);
  assert.equal(filled(drawn.examples).length, 1);
  assert.deepEqual(filled(withOutputReset(drawn, id).examples), []);
  assert.equal(filled(withNothingChanged(fresh, id).examples).length, 1);
});

test("before After is touched, it follows Before, and the example still does not count", () => {
  const fresh = empty();
  const [{ id, input }] = fresh.examples;
  const edited = withSide(fresh, id, "input", act(input, "putMarker").world);
  assert.deepEqual(pairs(edited.examples)[0].input, pairs(edited.examples)[0].output);
  assert.deepEqual(filled(edited.examples), []);
});

test("a draft remembers which examples are not filled in; a file of somebody else has only such that are", () => {
  const same = { input: "> .\n. .", output: "> .\n. ." };
  assert.equal(filled(fromJson({ examples: [same] }).examples).length, 1);
  const mixed = task([...starter().examples, example(blank(2, 2))]);
  assert.deepEqual(filled(fromJson(toJson(mixed)).examples).length, 2);
});

test("a link holds the task, and the program if there is one", async () => {
  const about = task(starter().examples, "Sweep", "All of it.");
  const alone = await taskOf(await fragmentOf(about));
  assert.deepEqual(toJson(alone.task), toJson(about));
  assert.equal(alone.program, "");
  const text = "# mine\ndef main():\n    move()\n";
  assert.equal((await taskOf(await fragmentOf(about, text))).program, text);
  assert.equal(await taskOf("#other"), null);
  await assert.rejects(taskOf("#task=AAAA"), /does not hold a whole task/);
});

test("a stroke is undone as one", () => {
  const history = new History(0);
  for (const value of [1, 2, 3]) history.change(value, "stroke");
  history.change(4);
  history.undo();
  assert.equal(history.value, 3);
  history.undo();
  assert.equal(history.value, 0);
  history.redo();
  assert.equal(history.value, 3);
});

test("examples with the same Before and different Afters contradict each other", () => {
  const [before, one, other] = ["> . .\n. . .", ". > .\n. . .", ". . >\n. . ."].map(parse);
  assert.ok(contradict([example(before, one), example(one, other), example(before, other)]));
  assert.ok(!contradict([example(before, one), example(before, one), example(one, other)]));
});

test("what was typed is never lost on the shelf", () => {
  const shelf = new Shelf();
  for (const text of ["a", "b", "a"]) shelf.put(text);
  assert.deepEqual(shelf.all, ["b", "a"]);
  shelf.putBehind("c");
  assert.equal(shelf.take(), "a");
  assert.deepEqual(shelf.all, ["c", "b"]);
});
