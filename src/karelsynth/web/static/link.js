// A whole task in the address: #task=… holds its JSON, deflated, in letters that need no escaping.

import { fromJson, toJson } from "./task.js";
import { WorldError } from "./world.js";

const KEY = "#task=";
const LONGEST = 30_000; // letters: the largest task needs a third of them

async function through(bytes, transform) {
  const stream = new Blob([bytes]).stream().pipeThrough(transform);
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export async function fragmentOf(task) {
  const text = JSON.stringify(toJson(task));
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
  const binary = Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
  return KEY + btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The task of an address, or null if it holds none; a damaged one is an Error with a message for people. */
export async function taskOf(fragment) {
  if (!fragment.startsWith(KEY)) return null;
  try {
    if (fragment.length > LONGEST) throw new WorldError("it is too long");
    const binary = atob(fragment.slice(KEY.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(binary, (letter) => letter.charCodeAt(0));
    const text = new TextDecoder().decode(await through(bytes, new DecompressionStream("deflate-raw")));
    return fromJson(JSON.parse(text));
  } catch (error) {
    const why = error instanceof WorldError ? ` (${error.message})` : "";
    throw new Error(`This link does not hold a whole task${why}. Was it cut off when it was copied?`);
  }
}
