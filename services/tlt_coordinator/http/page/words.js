/** Numbers, times and states in words. */

const COUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });

export const STATES = [
  "rollout", "training", "switching", "updating", "idle", "starting", "resting", "trainer", "down",
];

/** What a worker in each state does. */
export const MEANING = {
  rollout: "runs requests",
  training: "trains the drafter",
  switching: "between two uses",
  updating: "loads policy weights",
  idle: "unused",
  starting: "its trainer starts",
  resting: "nothing to learn",
  trainer: "held by the RL trainer",
  down: "not reachable",
};

export const count = (value) => (value === null || value === undefined ? "–" : COUNT.format(value));
export const fixed = (value, digits = 2) => (Number.isFinite(value) ? value.toFixed(digits) : "–");
export const share = (value) => (Number.isFinite(value) ? `${percent(value)}\u00a0%` : "–");
export const plural = (value, name) => `${count(value)} ${name}${value === 1 ? "" : "s"}`;

/** Only what is whole or nothing is shown as 100 or 0. */
function percent(value) {
  if (value >= 1 || value <= 0) return Math.round(value * 100);
  return Math.min(99.9, Math.max(0.1, value * 100)).toFixed(value < 0.1 || value > 0.99 ? 1 : 0);
}

/** Returns the time of day; with the date, unless it is today. */
export function clock(unixS) {
  if (!Number.isFinite(unixS)) return "–";
  const [then, today] = [new Date(unixS * 1000), new Date()];
  return then.toDateString() === today.toDateString() ? CLOCK.format(then) : `${DAY.format(then)}, ${CLOCK.format(then)}`;
}

/** Returns a length of time in its two largest units. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  const whole = Math.max(0, seconds);
  if (whole < 1) return `${Math.round(whole * 1000)} ms`;
  if (whole < 9.95) return `${whole.toFixed(1)} s`;
  if (whole < 119.5) return `${Math.round(whole)} s`;
  if (whole < 7200) return `${Math.floor(whole / 60)} min ${Math.floor(whole % 60)} s`;
  if (whole < 172800) return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

/** Returns device-seconds as hours of devices. */
export function deviceHours(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 360) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  return `${seconds / 3600 < 100 ? (seconds / 3600).toFixed(seconds < 36000 ? 2 : 1) : count(seconds / 3600)} h`;
}

/** Returns a version; 0: none yet. */
export const version = (value) => (value ? `v${value}` : "–");

/** Returns a text cut to a number of characters, for places where all of it has no room. */
export const brief = (text, most = 80) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);
