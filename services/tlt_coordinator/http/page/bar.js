/** One bar of patterned states, with a legend that says the same in words. */

import { element, say } from "./elements.js";
import { drawBar } from "./raster.js";
import { onRepaint } from "./repaint.js";
import { MEANING, share } from "./words.js";

/** Returns the swatch of a state. */
export function swatch(state) {
  const canvas = element("canvas", { class: "swatch", "aria-hidden": "true" });
  onRepaint(canvas, () => drawBar(canvas, [[state, 1]]));
  return canvas;
}

/** Returns a state's name with its swatch. */
export function named(state) {
  return element("span", { class: "state" }, swatch(state), element("span", {}, state));
}

export class Bar {
  #canvas;
  #legend = element("ul", { class: "legend" });
  #items = new Map();
  #parts = [];
  #format;

  /** `format` puts a number into words. */
  constructor(label, format) {
    this.#format = format;
    this.#canvas = element("canvas", { class: "bar", "aria-hidden": "true" });
    this.element = element("figure", { class: "bars", "aria-label": label }, this.#canvas, this.#legend);
    onRepaint(this.#canvas, () => this.#draw());
  }

  /** Shows [state, number] pairs. */
  update(pairs) {
    const sum = pairs.reduce((total, [, value]) => total + value, 0);
    this.#parts = pairs.filter(([, value]) => value > 0).map(([state, value]) => [state, value / sum]);
    for (const [state, value] of pairs) {
      if (!this.#items.has(state)) this.#add(state);
      const { item, number, part } = this.#items.get(state);
      item.hidden = value <= 0;
      say(number, this.#format(value));
      say(part, sum ? share(value / sum) : "");
    }
    this.#draw();
  }

  #add(state) {
    const [number, part] = [element("b", {}), element("span", { class: "note" })];
    const item = element("li", { title: MEANING[state] ?? state }, swatch(state), element("span", {}, state), number, part);
    this.#items.set(state, { item, number, part });
    this.#legend.append(item);
  }

  #draw() {
    if (this.#canvas.clientWidth) drawBar(this.#canvas, this.#parts);
  }
}
