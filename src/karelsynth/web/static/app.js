// The page: makes the parts and tells them of each other.

import { get, post } from "./api.js";
import { announce, byId, closeNotice, copy, debounced, download, guarded, notice } from "./dom.js";
import { loadDraft, saveDraft } from "./draft.js";
import { Examples } from "./examples.js";
import { showGallery } from "./gallery.js";
import { History } from "./history.js";
import { fragmentOf, taskOf } from "./link.js";
import { Player } from "./player.js";
import { ProgramPanel } from "./program.js";
import { Solving } from "./solving.js";
import { empty, example, fromJson, pairs, slug, starter, task, toJson } from "./task.js";
import { switchTheme } from "./theme.js";
import { Tools } from "./tools.js";
import { Verdicts } from "./verdicts.js";
import { render } from "./world.js";

async function linkedTask() {
  return (await guarded(() => taskOf(location.hash))) ?? null;
}

await showGallery(openTask); // its strip is above the examples, and would push them away from under the pointer
const history = new History((await linkedTask()) ?? loadDraft() ?? starter());
const tools = new Tools();
byId("tools").append(tools.bar());

const player = new Player(history, tools, (marks) => program.mark(marks));
const examples = new Examples(history, () => tools.current, (id) => player.watch(id));
const verdicts = new Verdicts((results) => examples.judge(results));
const program = new ProgramPanel({
  onReady: (text) => programChanged(text),
  onBroken: () => programChanged(null),
  fileName: () => slug(history.value.name),
  world: () => render(player.world),
});
const solving = new Solving({
  task: () => history.value,
  onAnswer: (answer) => program.show(answer),
  onExample: (input, output, again) => addExample(input, output, again),
});

function programChanged(text) {
  if (text === null) byId("partial").hidden = true;
  player.load(text);
  verdicts.update(text, history.value.examples);
}

function addExample(input, output, again) {
  const added = example(input, output);
  if (!examples.insert(added)) return;
  byId("ambiguity").hidden = true;
  if (again) solving.solve();
  else examples.reveal(added.id);
}

/** Another task altogether; undo brings the old one back. */
function openTask(opened) {
  history.change(opened);
  solving.clear();
  program.clear();
  scrollTo({ top: 0 });
  announce(`Opened ${opened.name || "a task"}, ${opened.examples.length} examples.`);
}

// What follows from a change of the task.

const saveSoon = debounced(saveDraft, 300);
let linked = location.hash; // the address still says what is on the page
let judged = null;

function taskChanged(now) {
  byId("undo").disabled = !history.canUndo;
  byId("redo").disabled = !history.canRedo;
  if (byId("task-name").value !== now.name) byId("task-name").value = now.name;
  byId("tagline").hidden = Boolean(now.name || now.about);
  byId("task-about").textContent = now.about;
  byId("task-about").hidden = !now.about;
  document.title = now.name ? `${now.name} – karelsynth` : "karelsynth playground";
  const shown = JSON.stringify(pairs(now.examples));
  if (shown === judged) return;
  if (judged !== null) solving.retract();
  verdicts.update(program.text, now.examples);
  judged = shown;
}

history.onChange((now) => {
  taskChanged(now);
  saveSoon(now);
  if (linked) window.history.replaceState(null, "", location.pathname);
  linked = "";
});
taskChanged(history.value);

// The bar at the top.

byId("task-name").addEventListener("input", (event) => {
  const { about, examples: kept } = history.value;
  history.change(task(kept, event.target.value, about), "name");
});
byId("undo").addEventListener("click", () => history.undo());
byId("redo").addEventListener("click", () => history.redo());
byId("theme").addEventListener("click", switchTheme);
byId("help-button").addEventListener("click", () => byId("help").showModal());
byId("notice-close").addEventListener("click", closeNotice);
byId("new-task").addEventListener("click", () => openTask(empty()));
byId("open-task").addEventListener("click", () => byId("task-file").click());
byId("task-file").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  event.target.value = "";
  if (!file) return;
  await guarded(async () => openTask(fromJson(await post("/api/task/parse", { text: await file.text() }))));
});
byId("save-task").addEventListener("click", () =>
  guarded(async () => {
    const { text } = await post("/api/task/render", toJson(history.value));
    download(`${slug(history.value.name)}.task`, text);
    notice("Task saved.");
  }),
);
byId("share-task").addEventListener("click", async () => {
  linked = await fragmentOf(history.value);
  window.history.replaceState(null, "", linked);
  const copied = await copy(location.href);
  notice(
    copied
      ? "Link copied. It holds the whole task."
      : "This page's address now holds the whole task: copy it from the address bar.",
  );
});
addEventListener("hashchange", async () => {
  const opened = await linkedTask();
  if (!opened) return;
  linked = "";
  openTask(opened);
  linked = location.hash;
});

for (const dialog of document.querySelectorAll("dialog")) {
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close(); // the dark around it
  });
}

addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select");
  const command = event.ctrlKey || event.metaKey;
  if (command && event.key === "Enter") {
    event.preventDefault();
    solving.solve();
  } else if (command && !typing && ["z", "y"].includes(event.key.toLowerCase())) {
    event.preventDefault();
    const owner = player.editing ? player.own : history;
    if (event.key.toLowerCase() === "y" || event.shiftKey) owner.redo();
    else owner.undo();
  } else if (event.key === "?" && !typing && !command) {
    byId("help").showModal();
  }
});

guarded(async () => {
  const { version, model } = await get("/api/version");
  byId("version").textContent = `karelsynth ${version} · ${model}`;
});
document.documentElement.dataset.ready = "";
