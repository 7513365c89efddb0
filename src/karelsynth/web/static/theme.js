// Light or dark: as the system says, until somebody chooses; the choice is remembered. `first.js` has set what was
// right when the page began.

import { recall, remember } from "./storage.js";

const KEY = "karelsynth.theme"; // as in first.js
const system = matchMedia("(prefers-color-scheme: dark)");

function show(theme) {
  document.documentElement.dataset.theme = theme;
}

export function switchTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  show(theme);
  remember(KEY, theme);
}

system.addEventListener("change", () => {
  if (recall(KEY) === null) show(system.matches ? "dark" : "light");
});
