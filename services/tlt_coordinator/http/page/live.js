/** What the page knows now: the fleet's figures, and whether they still arrive. Views listen. */

import { Events } from "./events.js";

export class Live extends EventTarget {
  fleet = null;
  /** connecting, live, lost */
  connection = "connecting";
  reason = "";
  #api;

  constructor(api) {
    super();
    this.#api = api;
  }

  /** Reads the figures, then what changes, until the page is closed. */
  run() {
    return new Events(this.#api, (name, data) => this.#hear(name, data)).run();
  }

  /** Reads the figures. */
  async refresh() {
    this.#take(await this.#api.get("fleet"));
  }

  /**
   * Calls `listener(detail)` for events of a name, until the signal is raised: fleet, workers, connection; since, if there
   * are data since another time than before; reload, if all must be read again.
   */
  on(name, signal, listener) {
    this.addEventListener(name, (event) => listener(event.detail), { signal });
  }

  /** The coordinator's time, in Unix seconds: this machine's clock may differ. */
  now() {
    return Date.now() / 1000 + this.#ahead;
  }

  #ahead = 0;

  #take(fleet) {
    const previous = this.fleet;
    this.fleet = fleet;
    this.#ahead = fleet.at_unix_s - Date.now() / 1000;
    this.#tell("fleet", fleet);
    const isOther = previous && Math.abs(fleet.since_unix_s - previous.since_unix_s) > 1;
    if (isOther) this.#tell("since", fleet.since_unix_s);
  }

  #hear(name, data) {
    if (name === "changes") {
      this.#take({ ...data.fleet, at_unix_s: data.at_unix_s });
      if (data.workers.length) this.#tell("workers", data.workers);
    } else if (name === "resync") {
      this.#readAgain();
    } else if (name === "connected" || name === "lost") {
      if (name === "connected" && this.connection === "lost" && !data.resumes) this.#readAgain();
      this.connection = name === "connected" ? "live" : "lost";
      this.reason = data.reason ?? "";
      this.#tell("connection", data);
    }
  }

  async #readAgain() {
    await this.refresh().catch(() => {}); // The views read, too, and say why that fails.
    this.#tell("reload", null);
  }

  #tell(name, detail) {
    this.dispatchEvent(new CustomEvent(name, { detail }));
  }
}
