/** Mouse, touch and keyboard on a timeline. */

import { latest, moved, zoomed } from "./time_window.js";

const STEP = 0.1;
const FACTOR = 1.5;

export class Gestures {
  #canvas;
  #panel;
  #pointers = new Map();
  #drag = null;

  constructor(canvas, panel, signal) {
    [this.#canvas, this.#panel] = [canvas, panel];
    const on = (name, listener, options = {}) => canvas.addEventListener(name, listener, { signal, ...options });
    on("keydown", (event) => this.#key(event));
    on("wheel", (event) => this.#wheel(event), { passive: false });
    on("pointerdown", (event) => this.#down(event));
    on("pointermove", (event) => this.#move(event));
    for (const name of ["pointerup", "pointercancel"]) on(name, (event) => this.#up(event));
    on("pointerleave", () => this.#panel.point(null));
    on("dblclick", (event) => this.#zoom(1 / (2 * FACTOR), this.#where(event)));
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { shown, bounds, selected } = this.#panel;
    const step = event.shiftKey ? 5 * STEP : STEP;
    const actions = {
      ArrowLeft: () => this.#panel.show(moved(shown, -step, bounds)),
      ArrowRight: () => this.#panel.show(moved(shown, step, bounds)),
      ArrowUp: () => this.#panel.select(selected === undefined ? 0 : selected - 1),
      ArrowDown: () => this.#panel.select(selected === undefined ? 0 : selected + 1),
      Home: () => this.#panel.show(moved(shown, -1e9, bounds)),
      End: () => this.#panel.show(latest(bounds, shown.to - shown.from)),
      "+": () => this.#zoom(1 / FACTOR),
      "=": () => this.#zoom(1 / FACTOR),
      "-": () => this.#zoom(FACTOR),
      Enter: () => this.#panel.open(selected),
      Escape: () => this.#panel.select(null),
    };
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  }

  /** The wheel scrolls the page, as everywhere; with a key it zooms, and sideways it moves in time. */
  #wheel(event) {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      this.#zoom(Math.exp(Math.max(-1, Math.min(1, event.deltaY / 200))), this.#where(event));
    } else if (event.deltaX || event.shiftKey) {
      event.preventDefault();
      const { shown, bounds, width } = this.#panel;
      this.#panel.show(moved(shown, (event.deltaX || event.deltaY) / width, bounds));
    }
  }

  #down(event) {
    if (event.button) return;
    this.#pointers.set(event.pointerId, this.#where(event));
    this.#canvas.setPointerCapture(event.pointerId);
    this.#begin();
    this.#drag.isClick = this.#pointers.size === 1;
  }

  #begin() {
    this.#drag = { shown: this.#panel.shown, at: middle(this.#pointers), apart: apart(this.#pointers), isClick: false };
  }

  #move(event) {
    const where = this.#where(event);
    if (!this.#pointers.has(event.pointerId)) return this.#panel.point(where);
    this.#pointers.set(event.pointerId, where);
    const { shown, at, apart: before } = this.#drag;
    const { bounds, width } = this.#panel;
    const by = (at - middle(this.#pointers)) / width;
    if (Math.abs(by * width) > 3) this.#drag.isClick = false;
    if (this.#drag.isClick) return;
    const there = this.#pointers.size > 1 ? this.#pinched(shown, before, bounds) : shown;
    this.#panel.show(moved(there, by, bounds));
  }

  #pinched(shown, before, bounds) {
    const factor = before / Math.max(10, apart(this.#pointers));
    return zoomed({ ...shown, isLive: false }, factor, this.#panel.partAt({ x: middle(this.#pointers) }), bounds);
  }

  #up(event) {
    const [where, wasClick] = [this.#where(event), this.#drag?.isClick && event.type === "pointerup"];
    if (!this.#pointers.delete(event.pointerId)) return;
    if (this.#pointers.size) return this.#begin();
    this.#drag = null;
    if (!wasClick) return;
    const row = this.#panel.rowAt(where);
    // The first click points a row out, the second opens it; a double click zooms, and its row must not open.
    this.#panel.select(row ?? null);
  }

  #zoom(factor, where = null) {
    const { shown, bounds } = this.#panel;
    this.#panel.show(zoomed(shown, factor, where ? this.#panel.partAt(where) : 0.5, bounds));
  }

  #where(event) {
    const box = this.#canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  }
}

const middle = (pointers) => [...pointers.values()].reduce((sum, { x }) => sum + x, 0) / pointers.size;

function apart(pointers) {
  const found = [...pointers.values()].map(({ x }) => x);
  return Math.max(10, Math.max(...found) - Math.min(...found));
}
