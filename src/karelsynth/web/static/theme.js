// Light or dark: as the system says, until somebody chooses; the choice is remembered. `first.js` has set what was
// right when the page began.

const KEY = "karelsynth.theme"; // as in first.js
const system = matchMedia("(prefers-color-scheme: dark)");
let chosen = false; // where storage is forbidden, the choice lasts as long as the page

function isChosen() {
  try {
    return chosen || localStorage.getItem(KEY) !== null;
  } catch {
    return chosen;
  }
}

function show(theme) {
  document.documentElement.dataset.theme = theme;
}

export function switchTheme() {
  const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  chosen = true;
  show(theme);
  try {
    localStorage.setItem(KEY, theme);
  } catch {
    // as above
  }
}

system.addEventListener("change", () => {
  if (!isChosen()) show(system.matches ? "dark" : "light");
});
