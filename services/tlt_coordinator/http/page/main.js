/** Starts the page: the address decides on the view; the stream of changes on what the header says. */

import { Api } from "./api.js";
import { drafterView } from "./drafter_view.js";
import { element, say } from "./elements.js";
import { fleetView } from "./fleet_view.js";
import { Live } from "./live.js";
import { SignIn } from "./sign_in.js";
import { stepView } from "./step_view.js";
import { timelineView } from "./timeline_view.js";
import { clock } from "./words.js";
import { workerView } from "./worker_view.js";

const VIEWS = { fleet: fleetView, timeline: timelineView, step: stepView, workers: workerView, drafter: drafterView };
const TITLES = { fleet: "Fleet", timeline: "Timeline", step: "Step", workers: "Worker", drafter: "Drafter" };

const signIn = new SignIn();
const api = new Api((reason) => signIn.ask(reason));
const live = new Live(api);
const main = document.getElementById("main");
let leaving = new AbortController();

/** Returns the view, the id and the query of an address such as #/workers/w-1?from=0. */
function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  const known = Object.hasOwn(VIEWS, name) ? name : "fleet";
  return { name: known, id: decoded(rest.join("/")), query: new URLSearchParams(query) };
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { name, id, query } = route();
  document.title = `${TITLES[name]} · TLT`;
  for (const link of document.querySelectorAll("nav a")) {
    const isHere = link.getAttribute("href") === `#/${name === "workers" ? "fleet" : name}`;
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const body = element("div", { class: `view ${name}` });
  main.replaceChildren(body);
  try {
    await VIEWS[name](body, { api, live, signal, id, query });
  } catch (error) {
    if (!signal.aborted) body.replaceChildren(failed(error));
  }
}

function failed(error) {
  return element("div", { class: "failed", role: "alert" },
    element("h1", {}, error.status === 404 ? "Not found" : "This could not be shown"),
    element("p", {}, error.message),
    element("button", { onclick: show }, "Try again"));
}

function sayConnection(detail) {
  const words = {
    connecting: "Connecting",
    live: live.fleet ? `Live, data since ${clock(live.fleet.since_unix_s)}` : "Live",
    lost: `Reconnecting: ${live.reason}`,
  };
  document.querySelector(".connection").dataset.is = live.connection;
  say(document.getElementById("connection"), words[live.connection]);
  if (live.connection === "lost" && detail?.reason) document.querySelector(".connection").title = detail.reason;
}

function sayNotice(text) {
  const notice = document.getElementById("notice");
  notice.hidden = !text;
  say(notice, text);
}

const always = new AbortController().signal;
live.on("connection", always, sayConnection);
live.on("fleet", always, () => sayConnection());
live.on("since", always, (since) => sayNotice(`The coordinator was restarted; it has data since ${clock(since)}.`));
live.on("reload", always, show);
// Not by its address, which stands for a view here.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
addEventListener("hashchange", () => {
  sayNotice("");
  show().then(() => scrollTo(0, 0));
  main.focus({ preventScroll: true });
});
show();
live.run();
