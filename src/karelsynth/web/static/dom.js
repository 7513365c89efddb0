// Small tools for the page: making nodes, speaking to screen readers, notices, files.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** An element; attributes that begin with `on` are listeners. Text children are text, never markup. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** A message as nodes: what stands between backticks becomes code. */
export function prose(text) {
  return text.split(/`([^`]*)`/).map((part, index) => (index % 2 ? el("code", {}, part) : part));
}

/** An icon of the page's own sheet. */
export function icon(name) {
  const use = svg("use", { href: `/static/icons.svg#${name}` });
  return svg("svg", { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true" }, use);
}

/** A button; `look` are its classes. */
export function button(look, onclick, attributes, ...children) {
  return el("button", { type: "button", class: look, onclick, ...attributes }, ...children);
}

/** A button with a picture for a face; the label is what it is called. */
export function iconButton(name, label, onclick, look = "button quiet square") {
  return button(look, onclick, { "aria-label": label, title: label }, icon(name));
}

export function byId(id) {
  return document.getElementById(id);
}

/** Announces a text to screen readers; a newer text replaces an older one. */
export function announce(text) {
  byId("live").textContent = text;
}

let noticeTimer = 0;
let silent = false; // the notice says that the server does not answer

/** A short message at the foot of the page; a problem stays until it is closed. */
export function notice(text, kind = "info") {
  const box = byId("notice");
  clearTimeout(noticeTimer);
  silent = false;
  box.dataset.kind = kind;
  box.hidden = false;
  byId("notice-text").replaceChildren(...prose(text));
  if (kind !== "problem") noticeTimer = setTimeout(closeNotice, 4000);
}

export function closeNotice() {
  byId("notice").hidden = true;
  silent = false;
}

/** Runs something that may fail and shows why it did; returns undefined then. */
export async function guarded(action) {
  try {
    const result = await action();
    if (silent) closeNotice(); // it answers again
    return result;
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    notice(error.message, "problem");
    silent = Boolean(error.isSilence);
    return undefined;
  }
}

/** Does something while a button waits for it. It cannot be pressed again, but it keeps the keyboard, as a button that
 *  is disabled would not. */
export async function whileBusy(pressed, action) {
  if (pressed.getAttribute("aria-disabled")) return undefined;
  pressed.setAttribute("aria-disabled", "true");
  try {
    return await action();
  } finally {
    pressed.removeAttribute("aria-disabled");
  }
}

/** Enables or disables two buttons. If the one with the focus can no longer be pressed, the other gets the focus. */
export function enablePair(first, canFirst, second, canSecond) {
  const focused = document.activeElement; // asked first: a browser may take the focus from a button that it disables
  first.disabled = !canFirst;
  second.disabled = !canSecond;
  if (focused === first && !canFirst) second.focus({ preventScroll: true });
  if (focused === second && !canSecond) first.focus({ preventScroll: true });
}

export function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Copies a text; says whether the browser let us. `near` is a node of the dialog that is open, if one is. */
export async function copy(text, near = document.body) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copySelected(text, near); // other machines in the room use plain http, where there is no clipboard
  }
}

function copySelected(text, near) {
  const held = document.activeElement;
  const field = el("textarea", { class: "unseen", readonly: true });
  field.value = text;
  (near.closest("dialog") ?? document.body).append(field); // nothing outside of an open dialog can be selected
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  held?.focus({ preventScroll: true });
  return done;
}

/** `fn`, once nobody has called for a while; `flush()` calls it at once if it is due. */
export function debounced(fn, milliseconds) {
  let timer = 0;
  let due = null;
  const run = () => {
    clearTimeout(timer);
    const values = due;
    due = null;
    if (values) fn(...values);
  };
  const later = (...values) => {
    clearTimeout(timer);
    due = values;
    timer = setTimeout(run, milliseconds);
  };
  return Object.assign(later, { flush: run });
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
