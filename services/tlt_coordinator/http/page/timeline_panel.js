/** A timeline on the page: the canvas, what the pointer or the selected row is on, and the same content as a table. */

import { named } from "./bar.js";
import { asTable, element, say, table } from "./elements.js";
import { Gestures } from "./gestures.js";
import { onRepaint } from "./repaint.js";
import { draw, heightOf } from "./timeline.js";
import { appended, sharesOf, statesAt } from "./timeline_document.js";
import { grown, latest, within } from "./time_window.js";
import { linkTo } from "./worker_list.js";
import { clock, duration, plural, share } from "./words.js";

const COLUMNS = 512;
const SETTLE_MS = 150;
/** After the last movement, finer data are read. */
const OVERLAP = 2;
/** Columns read again with the next ones: what workers report arrives a little later. */
const FOLLOW_S = 2;

export class TimelinePanel {
  #context;
  #query;
  #isStill;
  #onWindow;
  #spans = [];
  #document = null;
  #shown;
  #place = null;
  #selected = undefined;
  #cursor = undefined;
  #frame = 0;
  #timer = 0;
  #reading = null;
  #canvas;
  #says = element("p", { class: "says", "aria-live": "polite" });
  #table = asTable("Show as a table");

  /**
   * Options: rows and first, or worker: whose lanes; shown: the first window; isStill: neither moved nor zoomed;
   * onWindow(window): called when it was moved.
   */
  constructor({ api, live, signal, rows = 64, first = 0, worker = undefined, shown, isStill = false, onWindow = () => {} }) {
    this.#context = { api, live, signal };
    this.#query = worker === undefined ? { rows, first } : { worker };
    this.#isStill = isStill;
    this.#onWindow = onWindow;
    this.#shown = shown ? within(shown, this.bounds) : latest(this.bounds);
    this.#canvas = element("canvas", {
      class: "timeline", tabindex: isStill ? null : "0", role: "img", "aria-label": "Timeline, being read",
    });
    this.element = element("div", { class: "panel" }, this.#canvas, isStill ? null : this.#says, this.#table);
    onRepaint(this.#canvas, () => this.#draw());
    if (!isStill) new Gestures(this.#canvas, this, signal);
    this.#table.addEventListener("toggle", () => this.#fillTable());
    const timer = setInterval(() => this.#follow(), FOLLOW_S * 1000);
    signal.addEventListener("abort", () => clearInterval(timer));
  }

  /** From when to when there is something to show. */
  get bounds() {
    const { live } = this.#context;
    return { from: live.fleet.since_unix_s, to: live.now() };
  }

  get shown() {
    return this.#shown;
  }

  get document() {
    return this.#document;
  }

  /** Sets the strip above the lanes. */
  set spans(spans) {
    this.#spans = spans;
    this.#fit();
  }

  /** Shows another window, at once with the data at hand, and soon with finer ones. */
  show(shown) {
    this.#shown = within(shown, this.bounds);
    this.#redraw();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.load().catch((error) => say(this.#says, error.message)), SETTLE_MS);
    this.#onWindow(this.#shown);
  }

  /** Reads the rows from another one on. */
  async turn(first) {
    this.#query.first = first;
    this.#selected = undefined;
    await this.load();
  }

  async load() {
    this.#reading?.abort();
    this.#reading = new AbortController();
    const { api, signal } = this.#context;
    const { from, to } = this.#shown;
    const query = { ...this.#query, from, to, columns: COLUMNS };
    try {
      this.#document = await api.get("timeline", query, AbortSignal.any([signal, this.#reading.signal]));
    } catch (error) {
      if (error.name === "AbortError") return;
      throw error;
    }
    this.#fit();
    this.#fillTable();
  }

  /** Points out a row; null: none. Returns its label. */
  select(index) {
    const rows = this.#document?.rows ?? [];
    this.#selected = index === null || !rows.length ? undefined : Math.min(Math.max(index, 0), rows.length - 1);
    this.#redraw();
    this.#sayAt(this.#selected, (this.#shown.from + this.#shown.to) / 2);
    return rows[this.#selected]?.label;
  }

  get selected() {
    return this.#selected;
  }

  /** Says what is under the pointer; null: it left. */
  point(where) {
    const place = this.#place;
    if (!place || !where || where.x < place.left) this.#cursor = undefined;
    else {
      this.#cursor = place.from + ((where.x - place.left) / place.width) * (place.to - place.from);
      this.#sayAt(this.rowAt(where), this.#cursor);
    }
    this.#redraw();
  }

  /** Returns the index of the row at a position; undefined: none. */
  rowAt({ y }) {
    const index = Math.floor((y - this.#place.top) / this.#place.pitch);
    return index >= 0 && index < this.#place.rows ? index : undefined;
  }

  /** Returns the part of the window at a position, 0 at its beginning and 1 at its end. */
  partAt({ x }) {
    return Math.min(1, Math.max(0, (x - this.#place.left) / this.#place.width));
  }

  /** Opens a row: a worker's view. */
  open(index) {
    const row = this.#document?.rows[index];
    if (row?.runs) location.hash = `#/workers/${encodeURIComponent(row.label)}`;
  }

  get width() {
    return this.#place?.width ?? 1;
  }

  #sayAt(index, at) {
    const row = this.#document?.rows[index];
    if (!row) return;
    const parts = statesAt(this.#document, row, at).map(({ state, share: part, from, to }) =>
      from === undefined ? `${share(part)} ${state}` : `${state} for ${duration(to - from)}, from ${clock(from)} to ${clock(to)}`);
    const label = row.label.length > 120 ? `${row.label.slice(0, 119)}…` : row.label;
    say(this.#says, `${label}, ${clock(at)}: ${parts.join(", ") || "not known"}`);
  }

  async #follow() {
    if (!this.#shown.isLive || document.hidden || !this.#document) return;
    const longer = grown(this.#shown, this.bounds);
    if (longer) return this.show(longer);
    const { api, signal, live } = this.#context;
    const known = this.#document;
    const length = this.#shown.to - this.#shown.from;
    const missing = Math.floor((live.now() - known.to_unix_s) / known.column_s);
    if (missing < 1) return;
    const columns = missing + OVERLAP;
    const from = known.to_unix_s - OVERLAP * known.column_s;
    const query = { ...this.#query, from, to: from + columns * known.column_s, columns };
    const later = columns < known.columns ? await api.get("timeline", query, signal).catch(() => null) : null;
    if (signal.aborted || this.#document !== known || !this.#shown.isLive) return;
    const next = later && appended(known, later);
    const to = next ? next.to_unix_s : live.now();
    this.#shown = { ...this.#shown, from: to - length, to };
    if (!next) return this.load().catch(() => {}); // The header says that the coordinator does not answer.
    this.#document = next;
    this.#redraw();
  }

  #fit() {
    if (!this.#document) return;
    const height = heightOf(this.#document, { spans: this.#spans });
    this.#canvas.style.height = `${height}px`;
    this.#canvas.setAttribute("aria-label", this.#summary());
    this.#redraw();
  }

  #summary() {
    const { rows, kind, workers } = this.#document;
    const what = kind === "lanes" ? plural(rows.length, "worker") : `${plural(workers, "worker")} in ${plural(rows.length, "band")}`;
    const how = this.#isStill ? "" : " Arrows move in time and between rows, plus and minus zoom, Enter opens a worker.";
    return `States of ${what} from ${clock(this.#shown.from)} to ${clock(this.#shown.to)}.${how}`;
  }

  #redraw() {
    this.#frame ||= requestAnimationFrame(() => this.#draw());
  }

  #draw() {
    this.#frame = 0;
    if (!this.#document || !this.#canvas.clientWidth) return;
    const { from, to } = this.#shown;
    const options = { from, to, spans: this.#spans, selected: this.#selected, cursor: this.#cursor };
    this.#place = draw(this.#canvas, this.#document, options);
  }

  #fillTable() {
    if (!this.#table.open || !this.#document) return;
    const { from, to } = this.#shown;
    const rows = this.#document.rows.map((row) => ({ row, shares: sharesOf(this.#document, row, from, to) }));
    const seen = this.#document.states.filter((state) => rows.some(({ shares }) => shares[state]));
    const isLanes = this.#document.kind === "lanes";
    const columns = [
      { name: isLanes ? "Worker" : "Workers", of: ({ row }) => (isLanes ? linkTo(row.label) : row.label) },
      ...seen.map((state) => ({ name: state, number: true, of: ({ shares }) => share(shares[state] ?? 0) })),
    ];
    const made = table(`Share of time in each state, ${clock(from)} to ${clock(to)}`, columns, rows);
    made.querySelectorAll("thead th").forEach((head, index) => index && head.replaceChildren(named(seen[index - 1])));
    this.#table.replaceChildren(this.#table.firstChild, made);
  }
}
