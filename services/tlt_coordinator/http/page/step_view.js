/** The step that runs: since when, how long its responses are, and those before it. */

import { bars } from "./chart.js";
import { asTable, element, facts, section, table } from "./elements.js";
import { clock, count, duration, plural } from "./words.js";

const AGAIN_MS = 2000;
const SHOWN = 50;
/** Steps in the list. */

const COLUMNS = [
  { name: "Step", of: (step) => String(step.number) },
  { name: "Policy", number: true, of: (step) => (step.policy_version ? `v${step.policy_version}` : "–") },
  { name: "Began", of: (step) => clock(step.began_unix_s) },
  { name: "Took", number: true, of: (step) => (step.ended_unix_s ? duration(step.ended_unix_s - step.began_unix_s) : "running") },
  { name: "Weights updated", of: (step) => (step.updated_unix_s ? clock(step.updated_unix_s) : "–") },
  { name: "Requests", number: true, of: (step) => count(step.requests) },
  { name: "Tokens", number: true, of: (step) => count(step.tokens) },
  { name: "Announced", number: true, of: (step) => (step.announced ? count(step.announced) : "–") },
];

export async function stepView(body, { api, live, signal }) {
  if (!live.fleet) await live.refresh();
  const show = async () => {
    const reads = [api.get("steps", { from: live.fleet.since_unix_s }, signal), api.get("lengths", {}, signal)];
    const [found, lengths] = await Promise.all(reads);
    if (signal.aborted) return;
    // Tables that a reader opened stay open.
    const open = [...body.querySelectorAll("details")].map((details) => details.open);
    const focused = [...body.querySelectorAll("summary")].indexOf(document.activeElement);
    body.replaceChildren(...content(found, lengths, live.now()));
    body.querySelectorAll("details").forEach((details, index) => (details.open = open[index] ?? false));
    body.querySelectorAll("summary")[focused]?.focus();
  };
  await show();
  const again = () => document.hidden || show().catch(() => {}); // The header says that the coordinator does not answer.
  const timer = setInterval(again, AGAIN_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
}

function content({ steps }, lengths, now_s) {
  const newest = steps.reduce((found, step) => (!found || step.number > found.number ? step : found), null);
  const listed = [...steps].sort((one, other) => other.number - one.number).slice(0, SHOWN);
  return [
    element("h1", {}, title(newest)),
    newest && facts(ofStep(newest, now_s)),
    section("Lengths of responses", ...histogram(lengths)),
    section("Steps", listed.length ? table("Steps", COLUMNS, listed) : element("p", { class: "note" }, "No step has begun yet.")),
  ].filter(Boolean);
}

function title(step) {
  if (!step) return "No step yet";
  if (step.ended_unix_s) return `Step ${step.number} took ${duration(step.ended_unix_s - step.began_unix_s)}`;
  return `Step ${step.number} is running`;
}

function ofStep(step, now_s) {
  return [
    ["Began", clock(step.began_unix_s)],
    [step.ended_unix_s ? "Took" : "Running for", duration((step.ended_unix_s ?? now_s) - step.began_unix_s)],
    ["Requests", step.announced ? `${count(step.requests)} of ${count(step.announced)} announced` : count(step.requests)],
    ["Tokens", count(step.tokens)],
  ];
}

/** Running and finished responses share buckets, which are powers of two. */
function histogram({ running, finished }) {
  const buckets = new Map();
  const add = (part, name) => {
    const known = buckets.get(part.from_tokens) ?? { from: part.from_tokens, to: part.to_tokens, running: 0, finished: 0, cut: 0 };
    known[name] += part.count;
    known.cut += part.cut ?? 0;
    buckets.set(part.from_tokens, known);
  };
  running.forEach((part) => add(part, "running"));
  finished.forEach((part) => add(part, "finished"));
  const rows = [...buckets.values()].sort((one, other) => one.from - other.from);
  if (!rows.length) return [element("p", { class: "note" }, "No responses are running or have finished recently.")];
  const series = ["running", "finished"].map((name) => ({ name, values: rows.map((row) => row[name]) }));
  const columns = [
    { name: "Tokens", of: (row) => `${count(row.from)} to ${count(row.to)}` },
    { name: "Running", number: true, of: (row) => count(row.running) },
    { name: "Finished", number: true, of: (row) => count(row.finished) },
    { name: "Truncated at the limit", number: true, of: (row) => count(row.cut) },
  ];
  return [
    element("figure", {},
      bars("Running and finished responses by length", rows.map((row) => short(row.from)), series),
      element("figcaption", { class: "legend" },
        key(0, "running, by tokens so far"), key(1, "finished, by tokens"), element("span", { class: "note" }, "tokens, from"))),
    element("p", {}, runningNow(running)),
    asTable("Show as a table", table("Responses by length", columns, rows)),
  ];
}

function runningNow(running) {
  const sum = running.reduce((total, part) => total + part.count, 0);
  return sum ? `${plural(sum, "response")} running.` : "No responses are running.";
}

const short = (tokens) => (tokens >= 1024 ? `${tokens / 1024}k` : String(tokens));

function key(which, words) {
  return element("span", { class: "key" }, element("span", { class: `box series-${which}`, "aria-hidden": "true" }), words);
}
