// A change of a text, line by line: what can be accepted or left, one by one. No page in here.

/** The longest common subsequence of two lists of lines or words, as pairs of indices. */
function common(old, next) {
  const width = next.length + 1;
  const lengths = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = next.length - 1; j >= 0; j--) {
      const [right, below] = [lengths[i * width + j + 1], lengths[(i + 1) * width + j]];
      lengths[i * width + j] = old[i] === next[j] ? lengths[(i + 1) * width + j + 1] + 1 : Math.max(right, below);
    }
  }
  const pairs = [];
  for (let i = 0, j = 0; i < old.length && j < next.length; ) {
    if (old[i] === next[j]) pairs.push([i++, j++]);
    else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) i++;
    else j++;
  }
  return pairs;
}

/** The change from one text to another, in parts: [{same: lines} | {id, old: lines, next: lines, line}]. Lines that
 *  replace as many others are parts of their own. `line` is where the part is in the old text, from 1. */
export function changesOf(before, after) {
  const [old, next] = [before.split("\n"), after.split("\n")];
  const parts = [];
  let [i, j] = [0, 0];
  let id = 0;
  const add = (gone, come, line) => parts.push({ id: id++, old: gone, next: come, line });
  for (const [one, other] of [...common(old, next), [old.length, next.length]]) {
    const [gone, come] = [old.slice(i, one), next.slice(j, other)];
    if (gone.length && gone.length === come.length) gone.forEach((text, at) => add([text], [come[at]], i + at + 1));
    else if (gone.length || come.length) add(gone, come, i + 1);
    if (one < old.length) {
      if (parts.at(-1)?.same) parts.at(-1).same.push(old[one]);
      else parts.push({ same: [old[one]], line: one + 1 });
    }
    [i, j] = [one + 1, other + 1];
  }
  return parts;
}

/** Two lines in pieces, [[text, isOther], …] for each: the words that only one of them has, and those that both have. */
export function wordsOf(old, next) {
  const [one, other] = [old, next].map((line) => line.match(/\s+|\w+|[^\s\w]/g) ?? []);
  const pairs = common(one, other);
  const pieces = (words, shared) => {
    const found = [];
    words.forEach((word, at) => {
      const isOther = !shared.has(at);
      if (found.at(-1)?.[1] === isOther) found.at(-1)[0] += word;
      else found.push([word, isOther]);
    });
    return found;
  };
  return [pieces(one, new Set(pairs.map(([at]) => at))), pieces(other, new Set(pairs.map(([, at]) => at)))];
}

/** The text with the accepted parts of a change; `accepted(id)` says which. */
export function applied(parts, accepted) {
  return parts.flatMap((part) => part.same ?? (accepted(part.id) ? part.next : part.old)).join("\n");
}
