// Tasks to begin with: a strip of names, and a dialog that shows them all.

import { get } from "./api.js";
import { picturePair } from "./board.js";
import { button, byId, el, guarded, icon } from "./dom.js";
import { fromJson } from "./task.js";

const ON_STRIP = 5;
const PATIENCE = 1500; // milliseconds

/** Fills the strip and the dialog, and waits for it, but not for ever: the page is of use without. `onChoose(task)`
 *  gets the one that is clicked. */
export async function showGallery(onChoose) {
  const filled = guarded(() => get("/api/gallery")).then((entries) => {
    byId("gallery-strip").hidden = !entries?.length;
    if (entries?.length) fill(entries, onChoose);
  });
  const late = new Promise((resolve) => setTimeout(resolve, PATIENCE, true));
  const isLate = await Promise.race([filled, late]);
  if (isLate) byId("gallery-strip").hidden = false; // its place, so that nothing moves later
}

function fill(entries, onChoose) {
  const dialog = byId("gallery");
  const choose = (entry) => {
    dialog.close();
    onChoose(fromJson(entry));
  };
  const strip = byId("gallery-strip");
  for (const entry of entries.slice(0, ON_STRIP)) {
    strip.append(button("chip", () => choose(entry), { title: entry.about, "data-slug": entry.slug }, entry.name));
  }
  const showAll = () => {
    const list = byId("gallery-list"); // filled when it is first wanted: that many pictures take a moment
    if (!list.children.length) list.append(...entries.map((entry) => el("li", {}, card(entry, () => choose(entry)))));
    dialog.showModal();
  };
  strip.append(button("chip more", showAll, {}, `All ${entries.length}`, icon("arrow")));
}

function card(entry, onclick) {
  return button(
    "gallery-card",
    onclick,
    { "data-slug": entry.slug },
    picturePair(fromJson(entry).examples[0]),
    el("strong", {}, entry.name),
    el("span", { class: "detail" }, entry.about),
  );
}
