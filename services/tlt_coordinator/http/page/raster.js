/**
 * States as pixels. Each has a colour, from the CSS variable of its name (#rrggbb), and a pattern.
 *
 * What a drawing costs depends on the size of its canvas alone, not on how often workers changed their state.
 */

export const PATTERNS = {
  rollout: () => false,
  training: (x, y) => (x + y) % 8 < 2,
  switching: (x) => x % 4 < 1,
  updating: (x, y) => (x + y) % 8 < 1 || (x - y + 8) % 8 < 1,
  idle: (x, y) => x % 4 === (y % 8 < 4 ? 0 : 2) && y % 4 === 0,
  starting: (x, y) => (x - y + 8) % 8 < 2,
  resting: (x, y) => y % 4 < 1,
  trainer: (x, y) => ((x >> 1) + (y >> 1)) % 2 < 1,
  down: (x, y) => (x + y) % 4 < 1 || (x - y + 8) % 4 < 1,
};
/** A state is told by its pattern as well as by its colour; of a state without a pattern, the colour is left. */

const PERIOD = 8;
const PATTERN_STRENGTH = 0.36;

/** Returns the canvas with one pixel per pixel of the screen, cleared, and its context in CSS pixels. */
export function prepared(canvas) {
  const scale = Math.max(1, Math.round(window.devicePixelRatio || 1));
  const [width, height] = [canvas.clientWidth * scale, canvas.clientHeight * scale];
  if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, width, height);
  context.scale(scale, scale);
  return { canvas, context, scale };
}

/** Fills a canvas from left to right with [state, share] pairs; shares add up to 1. */
export function drawBar(canvas, parts) {
  const paper = prepared(canvas);
  const [width, height] = [canvas.width, canvas.height];
  const image = paper.context.createImageData(width, height);
  const pixels = new Uint32Array(image.data.buffer);
  const cells = cellsOf(canvas, parts.map(([state]) => state));
  const states = new Int16Array(width).fill(-1);
  let share = 0;
  parts.forEach(([, part], index) => {
    states.fill(index, Math.round(share * width), Math.round((share + part) * width));
    share += part;
  });
  lane(pixels, width, { y: 0, height, scale: paper.scale }, states, cells);
  paper.context.putImageData(image, 0, 0);
}

/** Fills a row with the states of its pixels; -1: left out. */
export function lane(pixels, width, { y, height, scale }, states, cells) {
  const distinct = Math.min(height, PERIOD * scale);
  for (let line = 0; line < distinct; line++) {
    const [row, at] = [(Math.floor(line / scale) % PERIOD) * PERIOD, (y + line) * width];
    for (let x = 0; x < width; x++) {
      if (states[x] >= 0) pixels[at + x] = cells[states[x]][row + (Math.floor(x / scale) & 7)];
    }
  }
  for (let line = distinct; line < height; line += distinct) {
    pixels.copyWithin((y + line) * width, y * width, (y + Math.min(distinct, height - line)) * width);
  }
}

/** Fills a row with shares of states, stacked from below in their order. */
export function band(pixels, width, { y, height, scale }, shares, columns, cells) {
  const stacked = Object.keys(shares).map(Number).sort((one, other) => one - other);
  for (let x = 0; x < width; x++) {
    if (columns[x] < 0) continue;
    let [share, filled] = [0, 0];
    for (const state of stacked) {
      share += shares[state][columns[x]];
      const until = Math.round((Math.min(100, share) / 100) * height);
      for (; filled < until; filled++) {
        const at = y + height - 1 - filled;
        const row = (Math.floor((height - 1 - filled) / scale) & 7) * PERIOD;
        pixels[at * width + x] = cells[state][row + (Math.floor(x / scale) & 7)];
      }
    }
  }
}

/** Returns 8 × 8 pixels per state. */
export function cellsOf(element, states) {
  const shades = shadesOf(element);
  return states.map((state) => {
    const base = channels(shades(state) || shades("soft"));
    const contrast = channels(readable(shades, state));
    const mark = base.map((channel, index) => Math.round(channel * (1 - PATTERN_STRENGTH) + contrast[index] * PATTERN_STRENGTH));
    const is = PATTERNS[state] ?? PATTERNS.rollout;
    return Uint32Array.from({ length: 64 }, (_, cell) => packed(is(cell % 8, cell >> 3) ? mark : base));
  });
}

/** Returns a function from the name of a CSS variable to its colour. */
export function shadesOf(element) {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

const channels = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16) || 0);
const distance = (one, other) => Math.abs(brightness(one) - brightness(other));
const brightness = ([red, green, blue]) => 0.2126 * red + 0.7152 * green + 0.0722 * blue;
const packed = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

/** Returns the colour of ink or surface, whichever is read better on the colour of a CSS variable. */
export function readable(shades, ground) {
  const behind = channels(shades(ground));
  const [one, other] = [shades("ink"), shades("surface")];
  return distance(channels(one), behind) >= distance(channels(other), behind) ? one : other;
}
