// What the browser keeps from one visit to the next. It may be full or forbidden: then nothing is kept, nothing fails.

/** A text that was kept, or null. */
export function recall(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

export function remember(key, text) {
  try {
    localStorage.setItem(key, text);
  } catch {
    // nothing is kept then
  }
}
