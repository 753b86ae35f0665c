/** What part of the time is shown: a window that is moved, zoomed, and kept within what there is. Pure. */

export const SHORTEST_S = 5;
export const DEFAULT_S = 900;

/** Returns a window that ends now, of the default length or as long as there is data; it grows until it has what is wanted. */
export function latest(bounds, length_s = DEFAULT_S) {
  return within({ from: bounds.to - length_s, to: bounds.to, isLive: true, wanted: length_s }, bounds);
}

/** Returns a longer window if there are enough data for one by now; null: it does not grow. */
export function grown(shown, bounds) {
  const length = Math.min(shown.wanted ?? 0, bounds.to - bounds.from);
  return length > 1.1 * (shown.to - shown.from) ? latest(bounds, shown.wanted) : null;
}

/** Returns the window, moved by a share of its length. */
export function moved(shown, part, bounds) {
  const by = part * (shown.to - shown.from);
  return within({ from: shown.from + by, to: shown.to + by, isLive: false }, bounds);
}

/** Returns the window, `factor` times as long; the time at `part` of it stays where it is. */
export function zoomed(shown, factor, part, bounds) {
  const length = clamped((shown.to - shown.from) * factor, SHORTEST_S, Math.max(SHORTEST_S, bounds.to - bounds.from));
  const at = shown.from + part * (shown.to - shown.from);
  // A window that follows the present goes on to do so.
  const from = shown.isLive ? bounds.to - length : at - part * length;
  return within({ from, to: from + length, isLive: shown.isLive }, bounds);
}

/** Returns the window, moved into the bounds and cut to them. */
export function within(shown, bounds) {
  const length = Math.max(SHORTEST_S, Math.min(shown.to - shown.from, bounds.to - bounds.from));
  const to = clamped(shown.to, bounds.from + length, Math.max(bounds.to, bounds.from + length));
  return { from: to - length, to, isLive: shown.isLive || shown.to > bounds.to, wanted: shown.wanted };
}

const clamped = (value, low, high) => Math.min(Math.max(value, low), high);
