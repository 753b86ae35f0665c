/** Asks for a token, in a dialog. */

import { element, say } from "./elements.js";

export class SignIn {
  #reason = element("p", { class: "reason", role: "alert" });
  #input = element("input", {
    type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true, "aria-describedby": "scope",
  });
  #dialog = element(
    "dialog",
    { class: "sign-in", "aria-labelledby": "sign-in-title", oncancel: (event) => event.preventDefault() },
    element(
      "form",
      { onsubmit: (event) => this.#submit(event) },
      element("h2", { id: "sign-in-title" }, "Sign in"),
      this.#reason,
      element("label", { for: "token" }, "Token"),
      this.#input,
      element("p", { id: "scope", class: "note" },
        "A token of the coordinator with the scope observe or admin. It is kept in this tab until you close it."),
      element("button", {}, "Continue"),
    ),
  );
  #resolve = null;

  constructor() {
    document.body.append(this.#dialog);
  }

  /** Returns a promise of the token. */
  ask(reason) {
    say(this.#reason, reason ? `The last token was refused. ${reason}` : "");
    this.#input.value = "";
    if (!this.#dialog.open) this.#dialog.showModal();
    this.#input.focus();
    return new Promise((resolve) => (this.#resolve = resolve));
  }

  #submit(event) {
    event.preventDefault();
    const token = this.#input.value.trim();
    if (!token) return;
    this.#input.value = "";
    this.#dialog.close();
    this.#resolve?.(token);
  }
}
