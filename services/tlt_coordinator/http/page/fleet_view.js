/** The fleet: what its devices do now, what they did, and every worker. */

import { Bar } from "./bar.js";
import { element, say, section } from "./elements.js";
import { TimelinePanel } from "./timeline_panel.js";
import { WorkerList } from "./worker_list.js";
import { clock, count, deviceHours, duration, fixed, plural, share, STATES, version } from "./words.js";

const ROWS = 12;
/** Of the small timeline. */

export async function fleetView(body, { api, live, signal }) {
  if (!live.fleet) await live.refresh();
  const figures = new Figures();
  const now = new Bar("Workers by state, now", count);
  const spent = new Bar("Device time by state", deviceHours);
  const since = element("p", { class: "note" });
  const panel = new TimelinePanel({ api, live, signal, rows: ROWS, isStill: true });
  const list = new WorkerList({ api, live, signal });
  const title = element("h1", {});
  const link = element("a", { href: "#/timeline" });
  const charts = element("div", { class: "charts" },
    figures.element,
    section("Now", now.element),
    section("Last 15 minutes", panel.element, element("p", {}, link)),
    section("Device time", spent.element, since),
    section("Workers", list.element),
  );
  const nobody = element("p", {}, "Workers appear here once their engines have loaded the model. What they wait for is in the ",
    "terminal of ", element("code", {}, "tlt up"), ", or in their logs as event ", element("code", {}, "start_phase"), ".");
  body.append(title, nobody, charts);
  const update = (fleet) => {
    say(title, headline(fleet));
    nobody.hidden = fleet.workers > 0;
    charts.hidden = fleet.workers === 0;
    say(link, fleet.workers > ROWS ? `Timeline of all ${count(fleet.workers)} workers` : "Open the timeline");
    figures.update(fleet);
    now.update(STATES.map((state) => [state, fleet.by_state[state] ?? 0]));
    spent.update(STATES.map((state) => [state, fleet.seconds[state] ?? 0]));
    say(since, `Sum over ${plural(fleet.devices, "device")}, since ${clock(fleet.since_unix_s)} or longer if totals were kept.`);
  };
  update(live.fleet);
  live.on("fleet", signal, update);
  await Promise.all([panel.load(), list.load()]);
}

function headline(fleet) {
  const { rollout = 0, training = 0, down = 0 } = fleet.by_state;
  const parts = [`${count(rollout)} of ${plural(fleet.workers, "worker")} in rollout`];
  if (training) parts.push(`${count(training)} ${training === 1 ? "trains" : "train"} the drafter`);
  if (down) parts.push(`${count(down)} not reachable`);
  return fleet.workers ? parts.join(", ") : "No worker has connected yet";
}

/** The figures at the top, as cards. */
class Figures {
  #cards = new Map();
  element = element("div", { class: "cards" });

  update(fleet) {
    this.#card("Use of idle time", share(fleet.bubble_utilisation), "of the time outside rollouts trained the drafter", true);
    this.#card("Accept length", fixed(fleet.accept_length), "tokens per round; 1 without speculation");
    this.#card("Requests", count(fleet.running), `running, ${count(fleet.queued)} queued`);
    this.#card("Lending", lending(fleet), fleet.excluded ? `${plural(fleet.excluded, "worker")} excluded` : "of idle devices");
    this.#card("Versions", version(fleet.policy_version), `of the policy; the drafter's is ${version(fleet.drafter_version)}`);
  }

  #card(name, number, note, isFirst = false) {
    if (!this.#cards.has(name)) {
      const parts = [element("h2", {}, name), element("p", { class: "figure" }), element("p", { class: "note" })];
      this.#cards.set(name, parts);
      this.element.append(element("div", { class: isFirst ? "card first" : "card" }, parts));
    }
    const [, shown, noted] = this.#cards.get(name);
    say(shown, number);
    say(noted, note);
  }
}

function lending(fleet) {
  if (fleet.paused) return fleet.pause_left_s === null ? "paused" : `paused, ${duration(fleet.pause_left_s)}`;
  return fleet.lending ? "on" : "off";
}
