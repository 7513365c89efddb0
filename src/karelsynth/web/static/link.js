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

/** A value as letters of an address. */
export async function packed(value) {
  const bytes = await through(new TextEncoder().encode(JSON.stringify(value)), new CompressionStream("deflate-raw"));
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The value of such letters. */
export async function unpacked(letters) {
  const binary = atob(letters.replaceAll("-", "+").replaceAll("_", "/"));
  const bytes = Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
  return JSON.parse(new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw"))));
}

/** `program` is a text, or empty where there is none to send along. */
export async function fragmentOf(task, program = "") {
  return KEY + (await packed(program ? { ...toJson(task), program } : toJson(task)));
}

/** {task, program} of an address, or null if it holds none; a damaged one is an Error with a message for people. */
export async function taskOf(fragment) {
  if (!fragment.startsWith(KEY)) return null;
  try {
    if (fragment.length > LONGEST) throw new WorldError("it is too long");
    const record = await unpacked(fragment.slice(KEY.length));
    return { task: fromJson(record), program: String(record.program ?? "") };
  } catch (error) {
    const why = error instanceof WorldError ? ` (${error.message})` : "";
    throw new Error(`This link does not hold a whole task${why}. Was it cut off when it was copied?`);
  }
}
