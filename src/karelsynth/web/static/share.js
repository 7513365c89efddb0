// Sharing a task: a link that holds it, with the program or without, or on paper.

import { byId, copy, notice } from "./dom.js";
import { fragmentOf } from "./link.js";

/** Whether this page's address works on this computer only. */
export const IS_LOCAL = ["localhost", "127.0.0.1", "[::1]"].includes(location.hostname);

export class Share {
  #fragment = "";

  /** `task()` and `program()` are what is shared; `onLink(fragment)`: the address may say so now. */
  constructor({ task, program, onLink }) {
    Object.assign(this, { task, program, onLink });
    byId("share-task").addEventListener("click", () => this.show());
    byId("share-program").addEventListener("change", () => this.#update());
    byId("share-copy").addEventListener("click", () => this.#copy());
    byId("share-address").addEventListener("focus", ({ target }) => target.select());
    byId("share-print").addEventListener("click", () => {
      byId("share").close();
      print();
    });
    byId("share-local").hidden = !IS_LOCAL;
  }

  async show() {
    const hasProgram = Boolean(this.program());
    byId("share-with").hidden = !hasProgram;
    byId("share-program").checked = hasProgram;
    await this.#update();
    byId("share").showModal();
    byId("share-copy").focus();
  }

  async #update() {
    const program = byId("share-program").checked ? this.program() : "";
    this.#fragment = await fragmentOf(this.task(), program);
    byId("share-address").value = `${location.origin}${location.pathname}${this.#fragment}`;
  }

  async #copy() {
    this.onLink(this.#fragment);
    const field = byId("share-address");
    field.select();
    const copied = await copy(field.value, field);
    byId("share").close();
    const held = byId("share-program").checked ? "the whole task and the program" : "the whole task";
    notice(copied ? `Link copied. It holds ${held}.` : `This page's address now holds ${held}: copy it from there.`);
  }
}
