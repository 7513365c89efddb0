// The page: makes the parts and connects them by callbacks.

import { get, post } from "./api.js";
import { Blocks } from "./blocks.js";
import { Challenge, isChallengeLink, openSet, openedSet, wayBack } from "./challenge.js";
import { challengeOf } from "./classwork.js";
import { announce, byId, closeNotice, count, debounced, download, enablePair, guarded, notice } from "./dom.js";
import { loadBefore, loadDraft, loadProgram, saveBefore, saveDraft, saveProgram } from "./draft.js";
import { Examples } from "./examples.js";
import { showGallery } from "./gallery.js";
import { History } from "./history.js";
import { taskOf } from "./link.js";
import { Player } from "./player.js";
import { ProgramPanel } from "./program.js";
import { isProjecting, setProjecting } from "./projector.js";
import { Share } from "./share.js";
import { inDialog, showHelp } from "./sheets.js";
import { Solving } from "./solving.js";
import { empty, example, filled, fromJson, pairs, sameTask, slug, starter, task } from "./task.js";
import { Teacher } from "./teacher.js";
import { switchTheme } from "./theme.js";
import { Tools } from "./tools.js";
import { Tutor } from "./tutor.js";
import { Verdicts } from "./verdicts.js";
import { render } from "./world.js";

const LONGEST_ABOUT = 4000; // letters that the server takes

/** {task, program} of the address, or null if it holds none. */
async function linkedTask() {
  return (await guarded(() => taskOf(location.hash))) ?? null;
}

/** The task of the address, or the draft; the other one and what a link has replaced before are one undo away. */
async function opening() {
  const [{ task: linked = null, program: sent = "" }, draft] = [(await linkedTask()) ?? {}, loadDraft()];
  const replaced = linked && draft && !sameTask(linked, draft) ? draft : null;
  if (replaced) saveBefore(replaced);
  const before = linked ? replaced : draft && loadBefore();
  const now = linked ?? draft ?? starter();
  const history = new History(before && !sameTask(before, now) ? before : now);
  history.change(now);
  return { history, isLinked: linked !== null, replaced, sent };
}

/** The page with a challenge: no drawing of anybody's is touched. */
function openingChallenge({ set, at }) {
  return { history: new History(fromJson(set.challenges[at])), isLinked: true, replaced: null, sent: "" };
}

const lesson = (await guarded(openedSet)) ?? null;
// The gallery's strip is above the examples, and would push them away from under the pointer.
if (!lesson) await showGallery(openTask);
const { history, isLinked, replaced, sent } = lesson ? openingChallenge(lesson) : await opening();
const tools = new Tools();
byId("tools").append(tools.bar());

const player = new Player(history, tools, () => program);
const examples = new Examples(history, () => tools.current, (id) => player.watch(id));
const verdicts = new Verdicts(judged);
let challenge = null; // where the page is a student's
const keepProgram = debounced(() => {
  if (lesson) {
    challenge?.keep(program.source);
    return;
  }
  const { isShown, ...draft } = program.draft;
  // What is put aside was typed for other examples.
  saveProgram({ ...draft, budget: byId("budget").value, examples: isShown ? history.value.examples : null });
}, 300);
let blocks = null;
const program = new ProgramPanel({
  onReady: (text, same) => programChanged(text, same),
  onBroken: () => programChanged(null),
  onDraft: () => {
    keepProgram();
    blocks?.follow();
  },
  onMark: (marks) => blocks?.mark(marks),
  fileName: () => slug(history.value.name),
  world: () => render(player.world),
});
const solving = new Solving({
  task: () => history.value,
  onAnswer: (answer) => (answer ? program.show(answer) : program.clear()),
  onExample: (input, output, again) => addExample(input, output, again),
});

blocks = new Blocks({ source: () => program.source, edit: (text) => program.edit(text) });
const tutor = new Tutor({
  source: () => program.source,
  edit: (text) => program.edit(text),
  isPending: () => program.isPending,
  jump: (id, choose) => player.jump(id, choose),
  number: (id) => history.value.examples.findIndex((one) => one.id === id) + 1,
  onGrade: (grade) => challenge?.judge(grade),
  onHint: (level) => challenge?.sawHint(level),
  onExamples: (list) => {
    const stroke = `add ${history.value.examples.length}`;
    return list.filter(([input, output]) => examples.insert(example(input, output, true), { stroke })).length;
  },
  onTasks: (list) => {
    if (challenge) challenge.add(list.map((one) => challengeOf(one)));
    else {
      openTask(fromJson(list[0]));
      byId("task-name").focus({ preventScroll: true }); // what was pressed goes
    }
  },
  onCollect: (list) => teacher.collect(list),
});
const teacher = new Teacher({
  task: () => history.value,
  program: () => program.shared,
  onAbout: (about) => history.change(task(history.value.examples, history.value.name, about), "about"),
});

function programChanged(text, same = false) {
  player.load(text, same);
  verdicts.update(text, history.value.examples);
  tutor.update(text, history.value.examples, challenge?.rules);
}

/** `results` maps examples' ids to verdicts, `problems` to what is wrong with an example itself; an answer is called a
 *  partial one for as long as that is so. */
function judged(results, problems) {
  examples.judge(results, problems);
  const kinds = new Set([...results.values()].map(({ kind }) => kind));
  byId("partial").hidden = !program.isAnswer || kinds.size < 2;
}

function addExample(input, output, again) {
  const added = example(input, output);
  if (!examples.insert(added)) return;
  if (again) byId("solve").focus({ preventScroll: true }); // the question goes, and the keyboard was in it
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
  announce(`Opened ${opened.name || "a task"}, ${count(opened.examples.length, "example")}.`);
}

// What follows from a change of the task.

const saveSoon = debounced(saveDraft, 300);
let linked = location.hash; // the address still says what is on the page
let shown = null;

function taskChanged(now) {
  enablePair(byId("undo"), history.canUndo, byId("redo"), history.canRedo);
  if (byId("task-name").value !== now.name) byId("task-name").value = now.name;
  byId("tagline").hidden = Boolean(now.name || now.about);
  byId("print-name").textContent = now.name || "Karel task";
  showAbout(now.about);
  document.title = now.name ? `${now.name} – karelsynth` : "karelsynth playground";
  const examples = JSON.stringify(pairs(filled(now.examples))); // one that is not filled in changes nothing
  if (examples === shown) return;
  if (shown !== null) solving.retract();
  verdicts.update(program.text, now.examples);
  tutor.update(program.text, now.examples, challenge?.rules);
  shown = examples;
}

/** While it is being edited it stays, even if it is empty. */
function showAbout(about) {
  const field = byId("task-about");
  if (field.innerText !== about && document.activeElement !== field) field.textContent = about;
  field.hidden = !about && document.activeElement !== field;
  byId("add-about").hidden = !field.hidden;
}

history.onChange((now) => {
  taskChanged(now);
  if (lesson) return; // the drawing that is kept is somebody's own
  saveSoon(now);
  keepProgram();
  if (linked) window.history.replaceState(null, "", location.pathname);
  linked = "";
});
taskChanged(history.value);

// What is kept from one visit to the next.

const remembered = loadProgram();
if (lesson) {
  challenge = new Challenge(lesson, {
    onLeave: () => keepProgram.flush(),
    onOpen: (opened, work) => {
      history.restart(fromJson(opened));
      program.start(work.text, work.dialect);
    },
    onWatch: (place) => player.watch(history.value.examples[place].id),
    onText: (text) => program.edit(text),
  });
  tutor.update(program.text, history.value.examples, challenge.rules); // with its rules, also if nothing is written
} else if (remembered) program.restore(remembered, isLinked && !remembered.isFor(history.value.examples));
if (sent && sent !== program.shared) program.open(sent);
const budgets = [...byId("budget").options].map(({ value }) => value);
if (budgets.includes(remembered?.budget)) byId("budget").value = remembered.budget;
byId("budget").addEventListener("change", keepProgram);
addEventListener("pagehide", () => {
  saveSoon.flush();
  keepProgram.flush();
});
const back = lesson ? null : wayBack();
if (back) byId("gallery-strip").prepend(back);
if (replaced) notice("Opened the task of the link. Undo brings back your last drawing.");

// The bar at the top.

byId("task-name").addEventListener("input", (event) => {
  const { about, examples: kept } = history.value;
  history.change(task(kept, event.target.value, about), "name");
});
byId("task-about").addEventListener("input", (event) => {
  const { name, examples: kept } = history.value;
  history.change(task(kept, name, event.target.innerText.trim().slice(0, LONGEST_ABOUT)), "about");
});
byId("task-about").addEventListener("blur", () => showAbout(history.value.about));
byId("add-about").addEventListener("click", () => {
  byId("task-about").hidden = false;
  byId("task-about").focus();
  byId("add-about").hidden = true;
});
byId("undo").addEventListener("click", () => history.undo());
byId("redo").addEventListener("click", () => history.redo());
byId("theme").addEventListener("click", switchTheme);
byId("help-button").addEventListener("click", showHelp);
for (const skip of document.querySelectorAll(".skip")) {
  const target = skip.hash.slice(1);
  skip.addEventListener("click", (event) => {
    event.preventDefault(); // the address may hold the task
    (byId(target).checkVisibility() ? byId(target) : byId("blocks").querySelector("[tabindex='0']"))?.focus();
  });
}
byId("notice-close").addEventListener("click", closeNotice);
byId("new-task").addEventListener("click", () => openTask(empty()));
byId("open-task").addEventListener("click", () => byId("task-file").click());
byId("task-file").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  event.target.value = "";
  if (!file) return;
  await guarded(async () => {
    const text = await file.text();
    const set = await Teacher.read(text);
    if (set) await openSet(set);
    else openTask(fromJson(await post("/api/task/parse", { text })));
  });
});
byId("save-task").addEventListener("click", () =>
  guarded(async () => {
    const { name, about, examples: all } = history.value;
    const kept = filled(all).length ? filled(all) : all; // a file has no examples that are not filled in
    const { text } = await post("/api/task/render", { name, about, examples: pairs(kept) });
    download(`${slug(name)}.task`, text);
    const left = all.length - kept.length;
    notice(left ? `Task saved without ${count(left, "example that is", "examples that are")} not filled in.` : "Task saved.");
  }),
);
new Share({
  task: () => history.value,
  program: () => program.shared,
  onLink: (fragment) => {
    linked = fragment;
    window.history.replaceState(null, "", linked);
  },
});
byId("share-class").addEventListener("click", () => {
  byId("share").close();
  teacher.show();
});
addEventListener("hashchange", async () => {
  if (lesson || isChallengeLink(location.hash)) {
    location.reload();
    return;
  }
  const opened = await linkedTask();
  if (!opened) return;
  saveBefore(history.value);
  linked = "";
  openTask(opened.task);
  if (opened.program) program.open(opened.program);
  linked = location.hash;
});

addEventListener("keydown", (event) => {
  if (inDialog()) return;
  const typing = event.target.matches("textarea, input[type='text'], [contenteditable]"); // has an undo of its own
  const command = event.ctrlKey || event.metaKey;
  if (command && event.key === "Enter") {
    event.preventDefault();
    if (lesson) player.play();
    else solving.solve();
  } else if (command && !typing && ["z", "y"].includes(event.key.toLowerCase())) {
    event.preventDefault();
    if (lesson && !player.editing) return;
    const owner = player.editing ? player.own : history;
    if (event.key.toLowerCase() === "y" || event.shiftKey) owner.redo();
    else owner.undo();
  } else if (event.key === "?" && !typing && !command) {
    showHelp();
  } else if (event.key === "Escape" && isProjecting()) {
    setProjecting(false);
  } else if (event.key.toLowerCase() === "p" && !typing && !command && !event.target.closest("[role='grid']")) {
    setProjecting(!isProjecting());
  }
});

guarded(async () => {
  const { version, model } = await get("/api/version");
  byId("version").textContent = `karelsynth ${version} · model: ${model}`;
});
document.documentElement.dataset.ready = "";
