// A program as a tree of blocks, and the edits of it. No page in here.
//
// `functions` is [{name, body}], as the server reads a text; a body is a list of blocks {keyword, detail, blocks,
// number}. A path leads to a block: [function, index], and inside of that [function, index, which block, index], and so
// on; [function] is the head of a function. A slot is a place where a block can be put: the path that the block would then have.

export const ACTIONS = ["move", "turnLeft", "turnRight", "pickMarker", "putMarker"];
export const CONTROL = ["WHILE", "REPEAT", "IF", "IFELSE"];
export const SENSORS = ["frontIsClear", "leftIsClear", "rightIsClear", "markersPresent", "noMarkersPresent"];
export const CALL = "call";
export const LARGEST_COUNT = 19;

const PLAIN = {
  move: "move", turnLeft: "turn left", turnRight: "turn right", pickMarker: "pick a marker", putMarker: "put a marker",
  frontIsClear: "front is clear", leftIsClear: "left is clear", rightIsClear: "right is clear",
  markersPresent: "markers are present", noMarkersPresent: "no markers are present",
};
const STANFORD = {
  turnLeft: "turn_left", turnRight: "turn_right", pickMarker: "pick_beeper", putMarker: "put_beeper",
  frontIsClear: "front_is_clear", leftIsClear: "left_is_clear", rightIsClear: "right_is_clear",
  markersPresent: "beepers_present", noMarkersPresent: "no_beepers_present",
};
const OPPOSITES = {
  front_is_clear: "front_is_blocked", left_is_clear: "left_is_blocked", right_is_clear: "right_is_blocked",
  beepers_present: "no_beepers_present", no_beepers_present: "beepers_present",
};

/** A new block, with nothing inside yet. */
export function newBlock(keyword, detail = null) {
  const inside = { WHILE: 1, IF: 1, IFELSE: 2, REPEAT: 1 }[keyword] ?? 0;
  const usual = keyword === "REPEAT" ? 2 : inside ? "frontIsClear" : null;
  return { keyword, detail: detail ?? usual, blocks: Array.from({ length: inside }, () => []), number: null };
}

/** The same block as a new one, with all that is inside. */
export function copied(block) {
  return { ...block, number: null, blocks: block.blocks.map((inner) => inner.map(copied)) };
}

// Places.

function step(list, which) {
  return list[which[0]]?.blocks[which[1]];
}

/** The list of blocks that a path or a slot is in; undefined if there is none. */
export function listAt(functions, path) {
  let list = functions[path[0]]?.body;
  for (let at = 1; list && at + 2 < path.length; at += 2) list = step(list, [path[at], path[at + 1]]);
  return list;
}

export function blockAt(functions, path) {
  return path.length > 1 ? listAt(functions, path)?.[path.at(-1)] : undefined;
}

/** Whether one path is the other, or lies inside of it. */
export function isInside(path, outer) {
  return outer.every((part, index) => path[index] === part);
}

export function samePath(one, other) {
  return one.length === other.length && isInside(one, other);
}

/** The block around a path, or null at the top of a function. */
export function parentOf(path) {
  return path.length > 2 ? path.slice(0, -2) : null;
}

/** All blocks in the order in which they are read: [{path, block, level, place, total}], counted from 1. */
export function flat(functions) {
  const found = [];
  const walk = (list, prefix, level) => {
    list.forEach((block, index) => {
      const path = [...prefix, index];
      found.push({ path, block, level, place: index + 1, total: list.length });
      block.blocks.forEach((inner, which) => walk(inner, [...path, which], level + 1));
    });
  };
  functions.forEach(({ body }, index) => walk(body, [index], 1));
  return found;
}

/** All slots in the order in which they are read. Those inside of `except` are left out: nothing is put into itself. */
export function slots(functions, except = null) {
  const found = [];
  const walk = (list, prefix) => {
    list.forEach((block, index) => {
      found.push([...prefix, index]);
      const path = [...prefix, index];
      if (except && samePath(path, except)) return;
      block.blocks.forEach((inner, which) => walk(inner, [...path, which]));
    });
    found.push([...prefix, list.length]);
  };
  functions.forEach(({ body }, index) => walk(body, [index]));
  return found;
}

// Edits. Each gives new functions; the old ones stay as they are.

function withList(functions, path, edit) {
  const within = (list, at) => {
    if (at + 2 >= path.length) return edit(list);
    const [index, which] = [path[at], path[at + 1]];
    return list.map((block, place) => {
      if (place !== index) return block;
      return { ...block, blocks: block.blocks.map((inner, one) => (one === which ? within(inner, at + 2) : inner)) };
    });
  };
  return functions.map((one, index) => (index === path[0] ? { ...one, body: within(one.body, 1) } : one));
}

export function inserted(functions, slot, block) {
  return withList(functions, slot, (list) => list.toSpliced(slot.at(-1), 0, block));
}

export function removed(functions, path) {
  return withList(functions, path, (list) => list.toSpliced(path.at(-1), 1));
}

export function changed(functions, path, fields) {
  return withList(functions, path, (list) => list.with(path.at(-1), { ...list[path.at(-1)], ...fields }));
}

/** Where a slot is once the block at `path` has been taken away. */
function shifted(slot, path) {
  const depth = path.length - 1;
  const sameList = slot.length >= path.length && path.slice(0, depth).every((part, index) => slot[index] === part);
  if (!sameList || slot[depth] <= path[depth]) return slot;
  return slot.with(depth, slot[depth] - 1);
}

/** The block at `path` put into a slot: {functions, path}, with its new path; null if that changes nothing. */
export function moved(functions, path, slot) {
  if (isInside(slot, path) && slot.length > path.length) return null;
  const target = shifted(slot, path);
  if (samePath(target, path)) return null;
  const block = blockAt(functions, path);
  return { functions: inserted(removed(functions, path), target, block), path: target };
}

/** The block at `path` one slot earlier (`by` = -1) or later (1), into and out of the blocks on its way; as `moved`. */
export function nudged(functions, path, by) {
  const all = slots(functions, path);
  let at = all.findIndex((slot) => samePath(slot, path));
  for (at += by; at >= 0 && at < all.length; at += by) {
    const result = moved(functions, path, all[at]);
    if (result) return result;
  }
  return null;
}

/** Where a block goes that is chosen while `path` is selected: into it if it is empty inside, else after it. */
export function slotAfter(functions, path) {
  if (!path) return [functions.length - 1, functions.at(-1).body.length];
  if (path.length === 1) return [path[0], 0]; // the head of a helper is selected
  const block = blockAt(functions, path);
  if (!block) return path; // an empty place is selected
  const empty = block.blocks.findIndex((inner) => inner.length === 0);
  return empty >= 0 ? [...path, empty, 0] : path.with(-1, path.at(-1) + 1);
}

/** A name for a new helper that no function has. */
export function freshName(functions) {
  const taken = new Set(functions.map(({ name }) => name));
  let number = 1;
  const name = () => (number === 1 ? "helper" : `helper${number}`);
  while (taken.has(name())) number += 1;
  return name();
}

// Words.

/** A condition in a dialect's words. */
export function conditionText(detail, dialect) {
  const [, nots, sensor] = /^((?:not )*)(\w+)$/.exec(detail);
  if (dialect !== "stanford") return `${nots}${sensor}`;
  const word = STANFORD[sensor] ?? sensor;
  if (!nots) return word;
  return nots.slice(4) + (OPPOSITES[word] ?? `not ${word}`);
}

/** The word that a block with others inside begins with, or `ELSE`, in a dialect. */
export function keywordText(keyword, dialect) {
  if (dialect === "tokens") return keyword;
  if (keyword === "REPEAT" && dialect === "stanford") return "for";
  return keyword === "IFELSE" ? "if" : keyword.toLowerCase();
}

/** The parts of a block's head: the words before and after what can be chosen in it. */
export function headText({ keyword, detail }, dialect) {
  if (keyword === "REPEAT" && dialect === "stanford") return ["for _ in range(", ")"];
  if (CONTROL.includes(keyword)) {
    return [keywordText(keyword, dialect), keyword === "REPEAT" && dialect !== "tokens" ? "times" : ""];
  }
  if (keyword === CALL) return [`${detail}()`, ""];
  if (dialect === "tokens") return [keyword, ""];
  return [`${dialect === "stanford" ? STANFORD[keyword] ?? keyword : keyword}()`, ""];
}

/** A block for screen readers. */
export function spoken({ keyword, detail, blocks }) {
  const condition = () => {
    const [, nots, sensor] = /^((?:not )*)(\w+)$/.exec(detail);
    return `${nots}${PLAIN[sensor] ?? sensor}`;
  };
  const empty = blocks.length && blocks.every((inner) => !inner.length) ? ", empty" : "";
  if (keyword === "REPEAT") return `repeat ${detail} times${empty}`;
  if (keyword === "WHILE") return `while ${condition()}${empty}`;
  if (keyword === "IF") return `if ${condition()}${empty}`;
  if (keyword === "IFELSE") return `if ${condition()}, else${empty}`;
  if (keyword === CALL) return `call ${detail}`;
  return PLAIN[keyword] ?? keyword;
}

/** Where a slot is, for screen readers. */
export function spokenSlot(functions, slot) {
  const list = listAt(functions, slot);
  const parent = parentOf(slot);
  const place = `${slot.at(-1) + 1} of ${list.length}`;
  if (!parent) return `${place} in ${functions[slot[0]].name}`;
  const around = blockAt(functions, parent);
  const part = around.keyword === "IFELSE" && slot.at(-2) === 1 ? "the else of " : "";
  return `${place} inside ${part}${spoken({ ...around, blocks: [] })}`;
}
