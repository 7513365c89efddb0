// Dialogs: a click on the dark around one closes it.

import { byId } from "./dom.js";

/** Whether somebody is in a dialog: then no key of the page behind it counts. */
export function inDialog() {
  return document.querySelector("dialog[open]") !== null;
}

export function showHelp() {
  byId("help").showModal();
}

function isAround(dialog, event) {
  const { left, right, top, bottom } = dialog.getBoundingClientRect(); // its padding is inside
  return event.clientX < left || event.clientX > right || event.clientY < top || event.clientY > bottom;
}

for (const dialog of document.querySelectorAll("dialog")) {
  let began = false; // around it, too: a text that is selected may be let go there
  dialog.addEventListener("pointerdown", (event) => (began = isAround(dialog, event)));
  dialog.addEventListener("click", (event) => {
    if (began && event.target === dialog && isAround(dialog, event)) dialog.close();
  });
}
