/** The stream of changes: read by fetch, since EventSource sends no header and would want the token in the address. */

const SILENCE_MS = 25_000;
/** The coordinator says something every 10 s; after this, the connection is taken for dead. */
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 15_000;

/** Takes server-sent events apart, whatever pieces they arrive in. */
export class EventParser {
  #rest = "";
  lastId = "";

  /** Returns the events that a piece of text completes: [{name, data}]. */
  push(text) {
    const blocks = (this.#rest + text).replaceAll("\r\n", "\n").split("\n\n");
    this.#rest = blocks.pop();
    return blocks.map((block) => this.#event(block)).filter((event) => event.data);
  }

  #event(block) {
    const event = { name: "message", data: "" };
    for (const line of block.split("\n")) {
      const colon = line.indexOf(":");
      const [field, value] = colon < 0 ? [line, ""] : [line.slice(0, colon), line.slice(colon + 1).replace(/^ /, "")];
      if (field === "event") event.name = value;
      if (field === "id") this.lastId = value;
      if (field === "data") event.data += event.data ? `\n${value}` : value;
    }
    return event;
  }
}

export class Events {
  #api;
  #hear;
  #lastId = "";
  #current = null;

  /** `hear(name, data)`: changes, resync, connected with {resumes}, and lost with {reason, wait_s}. */
  constructor(api, hear) {
    this.#api = api;
    this.#hear = hear;
    // Timers of a hidden tab sleep: when it is seen again, its connection may be long dead.
    document.addEventListener("visibilitychange", () => document.hidden || this.#current?.check());
    addEventListener("online", () => this.#current?.check());
  }

  /** Reads until the page is closed. */
  async run() {
    for (let wait_ms = FIRST_WAIT_MS; ; ) {
      const began = Date.now();
      const reason = await this.#read();
      if (Date.now() - began > 2 * LONGEST_WAIT_MS) wait_ms = FIRST_WAIT_MS;
      this.#hear("lost", { reason, wait_s: wait_ms / 1000 });
      await new Promise((resolve) => setTimeout(resolve, wait_ms * (0.75 + Math.random() / 2)));
      wait_ms = Math.min(2 * wait_ms, LONGEST_WAIT_MS);
    }
  }

  async #read() {
    const attempt = (this.#current = new Attempt());
    try {
      const headers = this.#lastId ? { "Last-Event-ID": this.#lastId } : {};
      const response = await this.#api.open("events", { headers, signal: attempt.signal });
      this.#hear("connected", { resumes: this.#lastId !== "" });
      const [reader, parser, decoder] = [response.body.getReader(), new EventParser(), new TextDecoder()];
      for (;;) {
        attempt.heard();
        const { done, value } = await reader.read();
        if (done) return "the coordinator ended the stream";
        for (const event of parser.push(decoder.decode(value, { stream: true }))) {
          this.#hear(event.name, JSON.parse(event.data));
        }
        this.#lastId = parser.lastId || this.#lastId;
      }
    } catch (error) {
      return attempt.signal.aborted ? "nothing was heard for a while" : error.message;
    } finally {
      attempt.end();
    }
  }
}

/** One connection, given up when it is silent. */
class Attempt {
  #aborter = new AbortController();
  #heard = Infinity;
  #timer = setInterval(() => this.check(), 1000);

  get signal() {
    return this.#aborter.signal;
  }

  heard() {
    this.#heard = Date.now();
  }

  check() {
    if (Date.now() - this.#heard > SILENCE_MS) this.#aborter.abort();
  }

  end() {
    clearInterval(this.#timer);
  }
}
