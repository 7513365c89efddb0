// Challenges: sets, links, and what a student has done.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  Work, challengeOf, challengeSet, keyOf, setFromJson, setToJson,
} from "./static/classwork.js";

const PAIR = { input: "> .\n. .", output: ". >\n. ." };
const OTHER = { input: "> .\n. 1", output: ". >\n. 1" };
const TASK = { name: "Go", about: "One step.", examples: [PAIR, OTHER] };

function storage() {
  const kept = new Map();
  return { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value), kept };
}

test("hidden examples are taken from the others", () => {
  const challenge = challengeOf(TASK, { hidden: [1], starter: "def run():", hints: 2 });
  assert.deepEqual([challenge.examples, challenge.hidden, challenge.hiddenCount], [[PAIR], [OTHER], 1]);
  assert.throws(() => challengeOf(TASK, { hidden: [0, 1] }), /at least one example/);
});

test("a set comes back from its JSON", () => {
  const lesson = challengeSet([challengeOf(TASK), challengeOf(TASK, { hidden: [0], hints: 0 })], "Week 1");
  assert.deepEqual(setFromJson(JSON.parse(JSON.stringify(setToJson(lesson)))), lesson);
});

test("a served set keeps its hidden examples at the server", () => {
  const { challenges } = setFromJson({ challenges: [{ ...TASK, hidden: [], hidden_count: 4, served: 0 }] });
  assert.deepEqual([challenges[0].hiddenCount, challenges[0].served], [4, 0]);
});

test("what is no set is refused with a reason", () => {
  assert.throws(() => setFromJson({}), /no challenges/);
  assert.throws(() => setFromJson({ challenges: [] }), /1 to 50/);
  assert.throws(() => setFromJson({ challenges: [{ examples: [{ input: "?", output: "?" }] }] }), /world|cell/);
  assert.throws(() => setFromJson({ challenges: [{ ...TASK, hints: 9 }] }), /level/);
  assert.throws(() => setFromJson({ challenges: [{ ...TASK, starter: 3 }] }), /starter/);
});

test("work is kept for each challenge, and nothing is lost if it cannot be read", () => {
  const place = storage();
  const work = new Work(place);
  const [one, two] = [challengeOf(TASK, { starter: "# go" }), challengeOf({ ...TASK, name: "Stay" })];
  assert.equal(work.of(one).text, "# go");
  work.update(one, { text: "def run(): move()", passed: true });
  work.update(one, { hints: 2 });
  assert.deepEqual(new Work(place).of(one), { text: "def run(): move()", dialect: null, passed: true, hints: 2 });
  assert.equal(work.passed(challengeSet([one, two])), 1);
  place.kept.set(`karelsynth.work.${keyOf(two)}`, "{broken");
  assert.equal(work.of(two).text, "");
  assert.notEqual(keyOf(one), keyOf(two));
});

test("what is handed in are the programs that are no longer the starter", () => {
  const work = new Work(storage());
  const [one, two] = [challengeOf(TASK, { starter: "# go" }), challengeOf({ ...TASK, name: "Stay" })];
  const set = challengeSet([one, two], "Week 1");
  assert.deepEqual(work.toJson(set, "Ada").programs, []);
  work.update(two, { text: "def run(): move()", hints: 2 });
  assert.deepEqual(work.toJson(set, "Ada"), {
    karelsynth: "work",
    student: "Ada",
    title: "Week 1",
    programs: [{ number: 2, name: "Stay", program: "def run(): move()", hints: 2 }],
  });
});
