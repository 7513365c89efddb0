// What was drawn and typed last. The browser keeps it, so that closing the page loses nothing.

import { recall, remember } from "./storage.js";
import { fromJson, pairs, toJson } from "./task.js";

const TASK = "karelsynth.draft";
const BEFORE = "karelsynth.before"; // the drawing that a link has replaced
const PROGRAM = "karelsynth.program";
const DIALECTS = ["paper", "stanford", "tokens"];

function save(key, value) {
  remember(key, JSON.stringify(value));
}

/** What `read` makes of a value that was kept, or null if there is none that can be read. */
function load(key, read) {
  try {
    return read(JSON.parse(recall(key)));
  } catch {
    return null;
  }
}

export function saveDraft(task) {
  save(TASK, toJson(task));
}

export function loadDraft() {
  return load(TASK, fromJson);
}

export function saveBefore(task) {
  save(BEFORE, toJson(task));
}

export function loadBefore() {
  return load(BEFORE, fromJson);
}

/** `typed` are texts, the latest last; `dialect` and `budget` as chosen; `examples` those that the last was
 *  typed for, null if it was put aside. */
export function saveProgram({ typed, dialect, budget, examples }) {
  save(PROGRAM, { typed, dialect, budget, examples: textOf(examples) });
}

function textOf(examples) {
  return examples && JSON.stringify(pairs(examples));
}

/** As it was saved, but with `isFor(examples)`. */
export function loadProgram() {
  return load(PROGRAM, ({ typed, dialect, budget, examples: known }) => {
    if (!Array.isArray(typed) || !typed.every((text) => typeof text === "string")) return null;
    const isFor = (examples) => textOf(examples) === known;
    return { typed, dialect: DIALECTS.includes(dialect) ? dialect : null, budget: String(budget), isFor };
  });
}
