/** One worker: what it does, why it is lent or not, what its devices were used for. */

import { Bar, named } from "./bar.js";
import { element, facts, section } from "./elements.js";
import { TimelinePanel } from "./timeline_panel.js";
import { clock, count, deviceHours, duration, fixed, STATES, version } from "./words.js";

const AGAIN_MS = 2000;

export async function workerView(body, { api, live, signal, id }) {
  if (!live.fleet) await live.refresh();
  const name = `workers/${encodeURIComponent(id)}`;
  let worker = await api.get(name, {}, signal);
  const spent = new Bar("Device time by state", deviceHours);
  const panel = new TimelinePanel({ api, live, signal, worker: id });
  const [now, about] = [element("div", {}), element("div", {})];
  body.append(
    element("p", { class: "eyebrow" }, element("a", { href: "#/fleet" }, "Fleet"), " / Worker"),
    element("h1", { class: "id" }, id),
    now,
    section("Timeline", panel.element),
    section("Device time", spent.element),
    section("About", about),
  );
  const show = () => {
    now.replaceChildren(...current(worker, live.now()));
    about.replaceChildren(facts(details(worker)));
    spent.update(STATES.map((state) => [state, worker.seconds[state] ?? 0]));
  };
  show();
  let isReading = false;
  const read = async () => {
    if (isReading || document.hidden) return;
    isReading = true;
    worker = await api.get(name, {}, signal).catch(() => worker);
    isReading = false;
    if (!signal.aborted) show();
  };
  live.on("workers", signal, (changed) => changed.some((row) => row.worker_id === id) && read());
  const timer = setInterval(read, AGAIN_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  await panel.load();
}

function current(worker, now_s) {
  return [
    element("p", { class: "lead" }, named(worker.state), ` for ${duration(now_s - worker.since_unix_s)}, since ${clock(worker.since_unix_s)}`),
    worker.problem ? element("p", { class: "reason" }, worker.problem) : null,
    section("Lending",
      element("p", {}, `Standing: ${worker.standing}`),
      worker.reasons.length
        ? element("ul", { class: "reasons" }, worker.reasons.map((reason) => element("li", {}, reason)))
        : null),
    facts([
      ["Requests", `${count(worker.running)} of ${count(worker.max_running)}`],
      ["Accept length", fixed(worker.accept_length || NaN)],
      ["Arm", worker.arm || "–"],
      ["Drafter", version(worker.drafter_version)],
      ["Policy", version(worker.policy_version)],
      ["Lease epoch", count(worker.epoch)],
    ]),
  ].filter(Boolean);
}

function details(worker) {
  return [
    ["Address", worker.address],
    ["Model", worker.model],
    ["Device", worker.device],
    ["Pod", worker.pod || "–"],
    ["Devices", `${count(worker.devices)} (${count(worker.training_devices)} can train)`],
    ["Tokens generated", count(worker.produced_tokens)],
    ["Training", `${count(worker.training_steps)} steps in ${duration(worker.training_s)}`],
    ["Training loss", fixed(worker.training_loss, 3)],
  ];
}
