// What was drawn last, kept in this browser, so that closing the page loses nothing.

import { fromJson, toJson } from "./task.js";

const KEY = "karelsynth.draft";

export function saveDraft(task) {
  try {
    localStorage.setItem(KEY, JSON.stringify(toJson(task)));
  } catch {
    // storage may be full or forbidden: then there is no draft
  }
}

/** The draft, or null if there is none that can be read. */
export function loadDraft() {
  try {
    return fromJson(JSON.parse(localStorage.getItem(KEY)));
  } catch {
    return null;
  }
}
