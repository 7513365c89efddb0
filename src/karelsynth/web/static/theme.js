// Light or dark: as the system says, until somebody chooses; the choice is remembered. Loaded first, so that the page
// does not flash in the other colours.

const KEY = "karelsynth.theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function stored() {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null; // storage may be forbidden; then the choice lasts as long as the page
  }
}

function show(theme) {
  document.documentElement.dataset.theme = theme;
}

function currentTheme() {
  return document.documentElement.dataset.theme;
}

export function switchTheme() {
  show(currentTheme() === "dark" ? "light" : "dark");
  try {
    localStorage.setItem(KEY, currentTheme());
  } catch {
    // as above
  }
}

show(stored() ?? (system.matches ? "dark" : "light"));
system.addEventListener("change", () => {
  if (!stored()) show(system.matches ? "dark" : "light");
});
