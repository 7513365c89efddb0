// A run as values: its worlds, and where to go from a step. No page in here.
//
// `steps` are those of the server. An index counts the steps that have run: steps[index] runs next, and frame `index` is
// the world before it does.

import { HEADINGS, withCell, withHero } from "./world.js";

const LOOPS = new Set(["WHILE", "REPEAT"]);

/** The worlds of a run, the first one included, from what each step changed. */
export function framesOf(start, steps) {
  const frames = [start];
  for (const { hero, markers } of steps) {
    const [row, col, heading] = hero;
    let world = withHero(frames.at(-1), row, col, HEADINGS.indexOf(heading));
    if (markers) world = withCell(world, ...markers);
    frames.push(world);
  }
  return frames;
}

function isInside(step, statement) {
  return step.start >= statement.start && step.start < statement.end;
}

/** Where the run has left a statement. */
function after(steps, index, statement) {
  let to = index + 1;
  while (to < steps.length && isInside(steps[to], statement)) to += 1;
  return Math.min(to, steps.length);
}

function sizeOf({ start, end }) {
  return end - start;
}

/** Whether the next step is the first one of a call: the call itself is next, as people see it. */
function isEntered({ steps }, index, call) {
  return isInside(steps[index], call) && !(index > 0 && isInside(steps[index - 1], call));
}

/** What can be called next: the calls of helpers that begin here, the outer one first, and the step. */
function beginning(run, index) {
  return [...run.calls.filter((call) => isEntered(run, index, call)), run.steps[index]];
}

/** What runs next, {line, start, end}: a call of a helper, or the step; null at the end. If there is a breakpoint at one
 *  of them, it is that one. */
export function nextOf(run, index, lines = new Set()) {
  if (index >= run.steps.length) return null;
  const all = beginning(run, index);
  return all.find(({ line }) => lines.has(line)) ?? all[0];
}

/** After all of what runs next: a call of a helper, a loop with all its rounds, a choice with what was chosen. */
export function stepOver(run, index, lines) {
  const next = nextOf(run, index, lines);
  return next ? after(run.steps, index, next) : run.steps.length;
}

/** After the innermost loop or helper that the run is in; at the end if it is in none. */
export function stepOut(run, index, lines) {
  const { steps } = run;
  const next = nextOf(run, index, lines);
  if (!next) return steps.length;
  const all = beginning(run, index);
  const ahead = all.slice(all.indexOf(next));
  const calls = run.calls.filter((call) => isInside(steps[index], call) && !ahead.includes(call));
  const cameFrom = steps[index - 1];
  const isAround = (loop) => {
    if (!LOOPS.has(loop.token) || !isInside(next, loop)) return false;
    return loop.start !== next.start || (cameFrom !== undefined && isInside(cameFrom, loop));
  };
  const around = [...steps.slice(0, index + 1).filter(isAround), ...calls];
  if (!around.length) return steps.length;
  return after(steps, index, around.reduce((one, other) => (sizeOf(other) < sizeOf(one) ? other : one)));
}

/** Whether a run stops before the next step, as it is in a line with a breakpoint, or called in one. */
export function isStop(run, index, lines) {
  return index < run.steps.length && beginning(run, index).some(({ line }) => lines.has(line));
}

function thousands(digits) {
  return Number(digits).toLocaleString("en");
}

/** How a run ended, as the server says it, without ticks: a student counts steps. */
export function ending(explanation) {
  return explanation
    .replace(/^finished after \d+ ticks?/, "is done")
    .replace(/ \(tick \d+\)/, "")
    .replace(/ran out of ticks after (\d+)/, (_, ticks) => `was still running after ${thousands(ticks)} steps and tests`)
    .replace("runs forever: the state repeats", "never ends: everything is as it was before");
}
