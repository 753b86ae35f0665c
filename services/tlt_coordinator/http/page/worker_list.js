/** All workers, a page at a time: ten thousand rows would hold up the browser. */

import { named } from "./bar.js";
import { element, rowOf, say, table } from "./elements.js";
import { brief, clock, fixed, STATES, version } from "./words.js";

const PER_PAGE = 50;

const COLUMNS = [
  { name: "Worker", of: (row) => linkTo(row.worker_id) },
  { name: "State", of: (row) => named(row.state) },
  { name: "Since", of: (row) => clock(row.since_unix_s) },
  { name: "Standing", of: (row) => row.standing },
  { name: "Requests", number: true, of: (row) => row.running },
  { name: "Devices", number: true, of: (row) => row.devices },
  { name: "Drafter", number: true, of: (row) => version(row.drafter_version) },
  { name: "Accept length", number: true, of: (row) => fixed(row.accept_length || NaN) },
  { name: "Arm", of: (row) => row.arm || "–" },
  { name: "Problem", kind: "problem", of: (row) => brief(row.problem || "–", 200) },
];

/** Returns a link to a worker's view. */
export function linkTo(id) {
  return element("a", { href: `#/workers/${encodeURIComponent(id)}`, class: "id", title: brief(id, 300) }, brief(id, 64));
}

export class WorkerList {
  #api;
  #signal;
  #rows = [];
  #befores = [];
  #after = undefined;
  #next = null;
  #state = "";
  #table = element("div", {});
  #where = element("span", { class: "note", role: "status" });
  #previous = element("button", { onclick: () => this.#turn(-1) }, "Previous");
  #following = element("button", { onclick: () => this.#turn(1) }, "Next");

  constructor({ api, live, signal }) {
    this.#api = api;
    this.#signal = signal;
    live.on("workers", signal, (changed) => this.#change(changed));
    const states = element("select", { id: "state", onchange: (event) => this.#filter(event.target.value) },
      element("option", { value: "" }, "all"), STATES.map((state) => element("option", { value: state }, state)));
    const wanted = element("input", { id: "find", type: "search", placeholder: "Id", autocomplete: "off" });
    const go = (event) => {
      event.preventDefault();
      if (wanted.value.trim()) location.hash = `#/workers/${encodeURIComponent(wanted.value.trim())}`;
    };
    this.element = element("div", {},
      element("div", { class: "tools" },
        element("label", {}, "State", states),
        element("form", { onsubmit: go, role: "search" }, element("label", {}, "Worker", wanted), element("button", {}, "Open")),
      ),
      this.#table,
      element("div", { class: "tools" }, this.#previous, this.#following, this.#where));
  }

  async load() {
    const query = { after: this.#after, count: PER_PAGE, state: this.#state || undefined };
    const { workers, next } = await this.#api.get("workers", query, this.#signal);
    [this.#rows, this.#next] = [workers, next];
    this.#draw();
  }

  #draw() {
    this.#table.replaceChildren(table("Workers", COLUMNS, this.#rows));
    this.#previous.disabled = !this.#befores.length;
    this.#following.disabled = !this.#next;
    say(this.#where, this.#rows.length ? `Page ${this.#befores.length + 1}` : "No worker in this state");
  }

  /** Replaces rows one by one, so that neither focus nor scroll position of the table is lost. */
  #change(changed) {
    const shown = this.#table.querySelectorAll("tbody tr");
    for (const row of changed) {
      const index = this.#rows.findIndex((known) => known.worker_id === row.worker_id);
      if (index < 0) continue;
      this.#rows[index] = row;
      const [old, made] = [shown[index], rowOf(COLUMNS, row)];
      const hadFocus = old.contains(document.activeElement);
      old.replaceWith(made);
      if (hadFocus) made.querySelector("a").focus();
    }
  }

  #filter(state) {
    [this.#state, this.#after, this.#befores] = [state, undefined, []];
    this.load();
  }

  #turn(direction) {
    if (direction > 0) this.#befores.push(this.#after);
    this.#after = direction > 0 ? this.#next : this.#befores.pop();
    this.load();
  }
}
