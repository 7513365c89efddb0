// Challenges as values: class sets, their links and files, and what a student has done. No page in here.
//
// A set is {title, challenges: [{name, about, examples, hidden, hiddenCount, starter, hints, served}]}. Examples are
// pairs of drawings {input, output}, as the server takes them. The server keeps the hidden ones of a set that it
// serves; then `served` is the challenge's place there, else null.

import { fromJson } from "./task.js";
import { WorldError } from "./world.js";

export const MOST_CHALLENGES = 50;
export const MOST_HINTS = 3;

export function challengeSet(challenges, title = "") {
  return { title, challenges };
}

/** A challenge of a task as `toJson` writes it; `hidden` are the places of examples that students do not see. */
export function challengeOf({ name, about, examples }, { hidden = [], starter = "", hints = MOST_HINTS } = {}) {
  const isHidden = new Set(hidden);
  const [shown, kept] = [examples.filter((_, at) => !isHidden.has(at)), examples.filter((_, at) => isHidden.has(at))];
  if (!shown.length) throw new WorldError("leave at least one example that students can see");
  return checked({ name, about, examples: shown, hidden: kept, starter, hints });
}

function text(value, what) {
  if (typeof value !== "string") throw new WorldError(`${what} is not a text`);
  return value;
}

/** A challenge that can be shown; everything else is a WorldError with a message for people. */
function checked(record) {
  const { name = "", about = "", starter = "", hints = MOST_HINTS, served = null } = record;
  const pair = ({ input, output }) => ({ input: text(input, "a world"), output: text(output, "a world") });
  const pairs = (list) => list.map(pair);
  const [examples, hidden] = [pairs(record.examples), pairs(record.hidden ?? [])];
  fromJson({ examples });
  if (hidden.length) fromJson({ examples: hidden });
  if (!Number.isInteger(hints) || hints < 0 || hints > MOST_HINTS) throw new WorldError("hints is a level from 0 to 3");
  const hiddenCount = record.hidden_count ?? record.hiddenCount ?? hidden.length;
  text(name, "the name");
  text(about, "the description");
  text(starter, "the starter");
  return { name, about, starter, examples, hidden, hiddenCount, hints, served };
}

/** A set from JSON, of a link, of what was kept, or as the server sends it. */
export function setFromJson(record) {
  if (!Array.isArray(record?.challenges)) throw new WorldError("it holds no challenges");
  const challenges = record.challenges.map(checked);
  if (!challenges.length || challenges.length > MOST_CHALLENGES) {
    throw new WorldError(`a set has 1 to ${MOST_CHALLENGES} challenges, not ${challenges.length}`);
  }
  return challengeSet(challenges, text(record.title ?? "", "the title"));
}

/** A set as files and links have it. */
export function setToJson({ title, challenges }) {
  const kept = challenges.map(({ name, about, examples, hidden, starter, hints }) => ({
    name, about, examples, hidden, starter, hints,
  }));
  return { karelsynth: "challenges", title, challenges: kept };
}

/** Names a challenge among all others, by what it asks for: what a student did is kept under it. */
export function keyOf({ name, examples, starter }) {
  const content = JSON.stringify([name, examples, starter]);
  let [high, low] = [0xdeadbeef, 0x41c6ce57]; // cyrb53, a short hash: not secret, but different for each challenge of a class
  for (let at = 0; at < content.length; at++) {
    const code = content.charCodeAt(at);
    high = Math.imul(high ^ code, 2654435761);
    low = Math.imul(low ^ code, 1597334677);
  }
  high = Math.imul(high ^ (high >>> 16), 2246822507) ^ Math.imul(low ^ (low >>> 13), 3266489909);
  low = Math.imul(low ^ (low >>> 16), 2246822507) ^ Math.imul(high ^ (high >>> 13), 3266489909);
  return ((low >>> 0).toString(36) + (high >>> 0).toString(36)).padStart(14, "0");
}

/** The name under which the work on a challenge is kept. */
export function workKey(challenge) {
  return `karelsynth.work.${keyOf(challenge)}`;
}

/** What a student has done on each challenge, in a storage that never fails. */
export class Work {
  #storage;

  constructor(storage) {
    this.#storage = storage;
  }

  /** {text, dialect, passed, hints}: the program so far, whether it was right once, the highest hint that was seen. */
  of(challenge) {
    const fresh = { text: challenge.starter, dialect: null, passed: false, hints: 0 };
    try {
      const kept = JSON.parse(this.#storage.getItem(workKey(challenge)));
      return kept && typeof kept.text === "string" ? { ...fresh, ...kept } : fresh;
    } catch {
      return fresh;
    }
  }

  update(challenge, fields) {
    const value = { ...this.of(challenge), ...fields };
    this.#storage.setItem(workKey(challenge), JSON.stringify(value));
    return value;
  }

  /** What a student hands in: the programs so far, without those that are still the starter. */
  toJson({ title, challenges }, student) {
    const programs = challenges
      .map((challenge, place) => ({ challenge, number: place + 1, ...this.of(challenge) }))
      .filter(({ challenge, text }) => text.trim() && text !== challenge.starter)
      .map(({ challenge, number, text, hints }) => ({ number, name: challenge.name, program: text, hints }));
    return { karelsynth: "work", student, title, programs };
  }

  /** How many challenges of a set are done. */
  passed({ challenges }) {
    return challenges.filter((challenge) => this.of(challenge).passed).length;
  }
}
