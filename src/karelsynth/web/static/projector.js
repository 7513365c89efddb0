// The projector's view: only the program and the world, as large as the screen allows.

import { announce, byId } from "./dom.js";

export function isProjecting() {
  return "projector" in document.documentElement.dataset;
}

export function setProjecting(on) {
  if (on === isProjecting()) return;
  document.documentElement.toggleAttribute("data-projector", on);
  byId("projector-end").hidden = !on;
  const play = byId("player-play").disabled ? "projector-end" : "player-play";
  byId(on ? play : "projector").focus({ preventScroll: true });
  announce(on ? "Projector view: only the program and the world. Escape ends it." : "Projector view ended.");
  if (!on) byId("bench").scrollIntoView({ block: "nearest" });
}

byId("projector").addEventListener("click", () => setProjecting(true));
byId("projector-end").addEventListener("click", () => setProjecting(false));
addEventListener("beforeprint", () => setProjecting(false)); // a worksheet has the examples, too
