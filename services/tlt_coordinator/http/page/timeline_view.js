/** The timeline: every worker, as far back as the coordinator has data. Its window is part of the address. */

import { named } from "./bar.js";
import { element, say } from "./elements.js";
import { spansOf } from "./step_spans.js";
import { latest, moved, zoomed } from "./time_window.js";
import { TimelinePanel } from "./timeline_panel.js";
import { clock, count, duration, STATES } from "./words.js";

const [ROWS, BANDS] = [64, 32];
const MAX_LANES = 512;
/** Above it, the coordinator answers with bands. */
const LENGTHS = [["1 min", 60], ["5 min", 300], ["15 min", 900], ["1 h", 3600], ["6 h", 21600], ["All", Infinity]];

export async function timelineView(body, { api, live, signal, query }) {
  if (!live.fleet) await live.refresh();
  const [from, to] = [Number(query.get("from")), Number(query.get("to"))];
  const shown = to > from ? { from, to, isLive: false } : undefined;
  const range = element("p", { class: "range", role: "status" });
  const first = Math.max(0, Math.floor(Number(query.get("first"))) || 0);
  const rows = new Rows((next) => panel.turn(next).then(addressed), first);
  const addressed = () => {
    const window = panel.shown;
    const parts = new URLSearchParams(window.isLive ? {} : { from: window.from.toFixed(1), to: window.to.toFixed(1) });
    if (rows.first) parts.set("first", rows.first);
    history.replaceState(null, "", `#/timeline${parts.size ? `?${parts}` : ""}`);
    rows.update(panel.document);
  };
  const onWindow = (window) => {
    sayRange(range, window);
    addressed();
  };
  const panel = new TimelinePanel({ api, live, signal, rows: live.fleet.workers > MAX_LANES ? BANDS : ROWS, first, shown, onWindow });
  sayRange(range, panel.shown);
  body.append(
    element("h1", {}, "Timeline"),
    live.fleet.workers ? "" : element("p", {}, "No worker has connected yet."),
    element("div", { class: "tools" }, buttons(panel), range),
    panel.element,
    rows.element,
    legend(),
    element("p", { class: "note keys" },
      "Drag to move in time, hold Ctrl and scroll or pinch to zoom. Keys: ← → move, + − zoom, ↑ ↓ choose a worker, ",
      "Enter opens it, Home and End jump to the first and the latest data."),
  );
  const showSteps = async () => {
    const { steps } = await api.get("steps", { from: panel.bounds.from }, signal);
    panel.spans = spansOf(steps, live.now());
  };
  await panel.load();
  rows.update(panel.document);
  const again = () => showSteps().catch(() => {}); // The strip is left out while the coordinator does not answer.
  await again();
  const timer = setInterval(again, 10_000);
  signal.addEventListener("abort", () => clearInterval(timer));
}

function sayRange(range, window) {
  const length = duration(window.to - window.from);
  say(range, window.isLive ? `The last ${length}` : `${clock(window.from)} to ${clock(window.to)} (${length})`);
}

function buttons(panel) {
  const button = (label, words, act) => element("button", { "aria-label": words, title: words, onclick: act }, label);
  const show = (change) => () => panel.show(change(panel.shown, panel.bounds));
  return element("div", { class: "buttons" },
    button("←", "Earlier", show((shown, bounds) => moved(shown, -0.5, bounds))),
    button("→", "Later", show((shown, bounds) => moved(shown, 0.5, bounds))),
    button("+", "Zoom in", show((shown, bounds) => zoomed(shown, 0.5, 0.5, bounds))),
    button("−", "Zoom out", show((shown, bounds) => zoomed(shown, 2, 0.5, bounds))),
    LENGTHS.map(([label, seconds]) => button(label, seconds === Infinity ? "All data" : `The last ${label}`,
      show((_shown, bounds) => latest(bounds, seconds)))));
}

/** Which workers are shown, where there are more than rows. */
class Rows {
  first;
  #workers = 0;
  #where = element("span", { class: "note", role: "status" });

  constructor(turn, first) {
    this.first = first;
    const go = (by) => () => {
      this.first = Math.max(0, Math.min(this.first + by, Math.max(0, this.#workers - 1)));
      turn(this.first);
    };
    this.element = element("div", { class: "tools", hidden: true },
      element("button", { onclick: go(-ROWS) }, "Previous workers"), element("button", { onclick: go(ROWS) }, "Next workers"), this.#where);
  }

  /** Says where it is in a document; null: none was read yet. */
  update(document) {
    if (!document) return;
    this.#workers = document.workers;
    this.element.hidden = document.kind !== "lanes" || (document.rows.length >= document.workers && !this.first);
    say(this.#where, `Workers ${count(this.first + 1)} to ${count(this.first + document.rows.length)} of ${count(document.workers)}`);
  }
}

function legend() {
  const marks = [["▎", "a step began"], ["▼", "a drafter was published"], ["◆", "weights were updated"]];
  return element("ul", { class: "legend", "aria-label": "Legend" },
    STATES.map((state) => element("li", {}, named(state))),
    marks.map(([sign, words], index) =>
      element("li", {}, element("span", { class: `sign sign-${index}`, "aria-hidden": "true" }, sign), words)));
}
