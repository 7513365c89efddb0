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

/** After the whole statement that runs next: a loop with all its rounds, a choice with what was chosen. */
export function stepOver(steps, index) {
  return index < steps.length ? after(steps, index, steps[index]) : steps.length;
}

/** After the innermost loop that the run is in; at the end if it is in none. */
export function stepOut(steps, index) {
  if (index >= steps.length) return steps.length;
  const next = steps[index];
  const cameFrom = steps[index - 1];
  const isAround = (loop) => {
    if (!LOOPS.has(loop.token) || !isInside(next, loop)) return false;
    return loop.start !== next.start || (cameFrom !== undefined && isInside(cameFrom, loop));
  };
  const loops = steps.slice(0, index + 1).filter(isAround);
  if (!loops.length) return steps.length;
  const size = ({ start, end }) => end - start;
  return after(steps, index, loops.reduce((one, other) => (size(other) < size(one) ? other : one)));
}

/** Whether a run stops before the next step, as it is in a line with a breakpoint. */
export function isStop(steps, index, lines) {
  return index < steps.length && lines.has(steps[index].line);
}

/** The next place where a run stops; at the end if there is none. */
export function nextStop(steps, index, lines) {
  let to = index + 1;
  while (to < steps.length && !isStop(steps, to, lines)) to += 1;
  return Math.min(to, steps.length);
}
