// Programs as pieces of text with a kind, for colours. Works on any text, also on one that is not a program yet.

const KEYWORDS = words(`def run main while for in range if else ifelse repeat not pass import from
  DEF WHILE IF IFELSE ELSE REPEAT`);
const ACTIONS = words(`move turnLeft turnRight pickMarker putMarker
  turn_left turn_right pick_beeper put_beeper run_karel_program`);
const SENSORS = words(`frontIsClear leftIsClear rightIsClear markersPresent noMarkersPresent
  front_is_clear front_is_blocked left_is_clear left_is_blocked right_is_clear right_is_blocked
  beepers_present no_beepers_present`);
const PIECE = new RegExp(
  [
    /(?<comment>#.*)/,
    /(?<string>"[^"\n]*"|'[^'\n]*')/,
    /(?<count>R=\d+|\b\d+\b)/,
    /(?<bracket>\b[mcwire]\(|(?<=\s)[mcwire]\)(?=\s|$))/, // of the tokens
    /(?<word>[A-Za-z_]\w*)/,
    /(?:\s+|[^\sA-Za-z_#"'\d]+|.)/,
  ]
    .map((piece) => piece.source)
    .join("|"),
  "g",
);

function words(list) {
  return new Set(list.split(/\s+/));
}

function kindOf(groups) {
  const { comment, string, count, bracket, word } = groups;
  if (comment !== undefined) return "comment";
  if (string !== undefined) return "string";
  if (count !== undefined) return "number";
  if (bracket !== undefined) return "bracket";
  if (word === undefined) return "";
  if (KEYWORDS.has(word)) return "keyword";
  if (ACTIONS.has(word)) return "action";
  return SENSORS.has(word) ? "sensor" : "";
}

/** [{start, end, kind}] that cover the text. */
export function pieces(text) {
  return Array.from(text.matchAll(PIECE), (match) => ({
    start: match.index,
    end: match.index + match[0].length,
    kind: kindOf(match.groups),
  }));
}

/** The offset in a text of a line and column, both from 1. */
export function offsetOf(text, line, column) {
  const lines = text.split("\n");
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  return Math.min(text.length, before + column - 1);
}
