// How sure an answer is, and what would help, in words. No page in here.

const ODDS = [
  [0.985, "nearly all"],
  [0.95, "19 in 20"],
  [0.9, "9 in 10"],
  [0.8, "4 in 5"],
  [0.75, "3 in 4"],
  [0.667, "2 in 3"],
  [0.5, "half"],
  [0.333, "1 in 3"],
  [0.25, "1 in 4"],
  [0.2, "1 in 5"],
  [0.1, "1 in 10"],
  [0.02, "almost none"],
];
const WORDS = {
  strong: "Very likely what you mean.",
  fair: "Probably what you mean.",
  weak: "Perhaps not what you mean.",
};
const LARGE = 64; // cells

/** A probability as a share that people can picture. */
export function odds(probability) {
  const distance = ([share]) => Math.abs(share - probability);
  return ODDS.reduce((one, other) => (distance(other) < distance(one) ? other : one))[1];
}

/** {word, reason, help} for an answer that fits; null where the search gave no probability. `asks`: there is a question
 *  that would decide. */
export function sureness({ support, probability, examples, others, asks }) {
  if (!support || probability === null || probability === undefined) return null;
  const share = `Of answers like this one, about ${odds(probability)} are right on a new world, too.`;
  return {
    word: WORDS[support],
    reason: `${share.replace("about nearly", "nearly").replace("about almost", "almost")} ${why(examples, others, asks)}`,
    help: help(support, examples, asks),
  };
}

function why(examples, others, asks) {
  const few = examples === 1 ? "One example says little. " : "";
  if (!others) return `${few}No other program was found that fits.`;
  const fit = others === 1 ? "One other program fits" : `${others} other programs fit`;
  if (asks && others === 1) return `${few}${fit}, but it does something else on another world.`;
  if (asks) return `${few}${fit}, but not all do the same on another world.`;
  return `${few}${fit}, and on every world that was tried they do the same.`;
}

function help(support, examples, asks) {
  if (asks) return "The question below decides.";
  if (support === "strong") return "";
  return examples === 1 ? "Add a second example that looks different." : "Add an example that looks different.";
}

/** What would help where no program was found. `right` says for each example whether the closest program does it (empty
 *  if there is none); `numbers` are the examples' numbers on the page; `cells` is the size of the largest world. */
export function advice({ right, numbers, cells, canSearchLonger }) {
  const tips = [];
  const wrong = numbers.filter((_, index) => right[index] === false);
  if (right.some(Boolean) && wrong.length) {
    const which = wrong.length === 1 ? `Example ${wrong[0]} is` : `Examples ${listed(wrong)} are`;
    tips.push(`${which} the hard part: is everything drawn there as you mean it?`);
  }
  if (canSearchLonger) tips.push("A longer search finds longer programs.");
  if (cells > LARGE) tips.push("Smaller worlds are easier, and say the same.");
  tips.push("A task of several steps can be split into several tasks.");
  return tips;
}

/** "1, 2 and 3". */
export function listed(items) {
  return items.length < 2 ? items.join("") : `${items.slice(0, -1).join(", ")} and ${items.at(-1)}`;
}

/** A message of the server, which counts the examples that it got, with the numbers that they have on the page. */
export function renumbered(text, numbers) {
  return text.replace(/\b(examples? )(\d+)(?: and (\d+))?/gi, (all, word, one, other) => {
    const number = (place) => numbers[Number(place) - 1] ?? place;
    return other ? `${word}${number(one)} and ${number(other)}` : `${word}${number(one)}`;
  });
}
