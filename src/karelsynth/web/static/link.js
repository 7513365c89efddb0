// A whole task in the address: #task=… holds its JSON, deflated, in letters that need no escaping. A program can be in
// it, too.

import { fromJson, toJson } from "./task.js";
import { WorldError } from "./world.js";

const KEY = "#task=";
const LONGEST = 60_000; // letters: the largest task with the longest program needs half of them

async function through(bytes, transform) {
  const stream = new Blob([bytes]).stream().pipeThrough(transform);
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** `program` is a text, or empty where there is none to send along. */
export async function fragmentOf(task, program = "") {
  const text = JSON.stringify(program ? { ...toJson(task), program } : toJson(task));
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return KEY + btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** {task, program} of an address, or null if it holds none; a damaged one is an Error with a message for people. */
export async function taskOf(fragment) {
  if (!fragment.startsWith(KEY)) return null;
  try {
    if (fragment.length > LONGEST) throw new WorldError("it is too long");
    const binary = atob(fragment.slice(KEY.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
    const text = new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw")));
    const record = JSON.parse(text);
    return { task: fromJson(record), program: String(record.program ?? "") };
  } catch (error) {
    const why = error instanceof WorldError ? ` (${error.message})` : "";
    throw new Error(`This link does not hold a whole task${why}. Was it cut off when it was copied?`);
  }
}
