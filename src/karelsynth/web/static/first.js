// The colours, before anything is painted: this is no module, since modules come after the first picture. What was
// chosen counts (theme.js keeps it); else what the system says.

{
  let chosen = null;
  try {
    chosen = localStorage.getItem("karelsynth.theme");
  } catch {
    // storage may be forbidden
  }
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  document.documentElement.dataset.theme = chosen ?? system;
}
