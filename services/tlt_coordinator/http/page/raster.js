/**
 * States as pixels. Each has a color, from the CSS variable of its name (#rrggbb), and a pattern.
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
/** A state is told by its pattern as well as by its color; of a state without a pattern, the color is left. */

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
  return { canvas, context };
}

const rasters = new WeakMap();

/** States as a picture with one pixel per CSS pixel. On finer screens it is enlarged, so it costs no more there. */
export class Raster {
  /** Returns the raster of a canvas, empty. */
  static of(canvas, width, height) {
    const known = rasters.get(canvas);
    const raster = known?.width === width && known.height === height ? known : new Raster(width, height);
    rasters.set(canvas, raster);
    raster.pixels.fill(0);
    return raster;
  }

  constructor(width, height) {
    [this.width, this.height] = [width, height];
    this.surface = new OffscreenCanvas(width, height);
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  /** Fills rows of pixels with the states of their columns; -1: left out. */
  lane(y, height, states, cells) {
    const { pixels, width } = this;
    const distinct = Math.min(height, PERIOD);
    for (let line = 0; line < distinct; line++) {
      const at = (y + line) * width;
      for (let x = 0; x < width; x++) if (states[x] >= 0) pixels[at + x] = cells[states[x]][line * PERIOD + (x & 7)];
    }
    for (let line = distinct; line < height; line += distinct) {
      pixels.copyWithin((y + line) * width, y * width, (y + Math.min(distinct, height - line)) * width);
    }
  }

  /** Fills rows of pixels with shares of states, stacked from below in their order; columns: of each pixel, -1: left out. */
  band(y, height, shares, columns, cells) {
    const { pixels, width } = this;
    const stacked = stackedIn(height, shares);
    for (let line = 0; line < height; line++) {
      const [at, row] = [(y + line) * width, (line & 7) * PERIOD];
      for (let x = 0; x < width; x++) {
        const state = columns[x] < 0 ? -1 : stacked[columns[x] * height + line];
        if (state >= 0) pixels[at + x] = cells[state][row + (x & 7)];
      }
    }
  }

  drawOn(context, left, top) {
    this.surface.getContext("2d").putImageData(this.image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(this.surface, left, top, this.width, this.height);
  }
}

/** Returns the state of each line of each column; -1 where nothing is known. */
function stackedIn(height, shares) {
  const order = Object.keys(shares).map(Number).sort((one, other) => one - other);
  const columns = order.length ? shares[order[0]].length : 0;
  const stacked = new Int8Array(columns * height).fill(-1);
  for (let column = 0; column < columns; column++) {
    let [share, end] = [0, height];
    for (const state of order) {
      share += shares[state][column];
      const begin = height - Math.round((Math.min(100, share) / 100) * height);
      stacked.fill(state, column * height + begin, column * height + end);
      end = begin;
    }
  }
  return stacked;
}

/** Fills a canvas from left to right with [state, share] pairs; shares add up to 1. */
export function drawBar(canvas, parts) {
  const { context } = prepared(canvas);
  const raster = Raster.of(canvas, canvas.clientWidth, canvas.clientHeight);
  const states = new Int8Array(raster.width).fill(-1);
  let share = 0;
  parts.forEach(([, part], index) => {
    states.fill(index, Math.round(share * raster.width), Math.round((share + part) * raster.width));
    share += part;
  });
  raster.lane(0, raster.height, states, cellsOf(canvas, parts.map(([state]) => state)));
  raster.drawOn(context, 0, 0);
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

/** Returns a function from the name of a CSS variable to its color. */
export function shadesOf(element) {
  const style = getComputedStyle(element);
  return (name) => style.getPropertyValue(`--${name}`).trim();
}

const channels = (color) => [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16) || 0);
const distance = (one, other) => Math.abs(brightness(one) - brightness(other));
const brightness = ([red, green, blue]) => 0.2126 * red + 0.7152 * green + 0.0722 * blue;
const packed = ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;

/** Returns the color of ink or surface, whichever is read better on the color of a CSS variable. */
export function readable(shades, ground) {
  const behind = channels(shades(ground));
  const [one, other] = [shades("ink"), shades("surface")];
  return distance(channels(one), behind) >= distance(channels(other), behind) ? one : other;
}
