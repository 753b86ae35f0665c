/** The drafters: versions, their scores on held-out data, and who runs which. */

import { linkTo } from "./worker_list.js";
import { lineThrough } from "./chart.js";
import { element, section, table } from "./elements.js";
import { clock, count, share, version } from "./words.js";

const COLUMNS = [
  { name: "Version", of: (drafter) => version(drafter.version) },
  { name: "Held-out top-1", number: true, of: (drafter) => share(drafter.held_out_top1) },
  { name: "Published", of: (drafter) => clock(drafter.at_unix_s) },
  { name: "By", of: (drafter) => (drafter.worker_id ? linkTo(drafter.worker_id) : "–") },
  { name: "For policy", number: true, of: (drafter) => version(drafter.policy_version) },
  { name: "Loaded by workers", number: true, of: (drafter) => count(drafter.workers) },
];

export async function drafterView(body, { api, live, signal }) {
  if (!live.fleet) await live.refresh();
  let shown = null;
  const show = async () => {
    const found = await api.get("drafters", {}, signal);
    const text = JSON.stringify(found);
    if (signal.aborted || text === shown) return;
    shown = text;
    body.replaceChildren(...content(found));
  };
  await show();
  const again = () => document.hidden || show().catch(() => {}); // The header says that the coordinator does not answer.
  const timer = setInterval(again, 2000);
  signal.addEventListener("abort", () => clearInterval(timer));
}

function content({ newest, drafters }) {
  const ordered = [...drafters].sort((one, other) => one.version - other.version);
  if (!ordered.length) {
    return [element("h1", {}, "No drafter yet"),
      element("p", {}, "One is published when idle workers have trained it, or when a worker starts with one.")];
  }
  const scored = ordered.filter((drafter) => Number.isFinite(drafter.held_out_top1) && drafter.held_out_top1 > 0);
  const points = scored.map((drafter) => ({ x: drafter.at_unix_s, y: drafter.held_out_top1, label: version(drafter.version) }));
  const best = scored.at(-1);
  return [
    element("h1", {}, best ? `Drafter ${version(newest)} predicts ${share(best.held_out_top1)} of held-out tokens` : `Drafter ${version(newest)}`),
    points.length ? section("Held-out score", element("figure", {},
      lineThrough("Held-out top-1 of each version over time", points, clock, share),
      element("figcaption", { class: "note" }, "Share of held-out tokens that were the drafter's most likely token, by time of publication."))) : null,
    section("Versions", table("Versions", COLUMNS, ordered.reverse())),
  ].filter(Boolean);
}
