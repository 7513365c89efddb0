// What the browser keeps from one visit to the next. Where it is full or forbidden, the page keeps it until it is closed.

const held = new Map(); // what the browser did not take

/** A text that was kept, or null. */
export function recall(key) {
  if (held.has(key)) return held.get(key);
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** Keeps a text; says whether the browser took it. */
export function remember(key, text) {
  try {
    localStorage.setItem(key, text);
    held.delete(key);
    return true;
  } catch {
    held.set(key, text);
    return false;
  }
}
