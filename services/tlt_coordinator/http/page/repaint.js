/** Canvases do not follow the page's width and colors by themselves. */

const paints = new WeakMap();
const shown = new Set();

const watcher = new ResizeObserver((entries) => {
  for (const { target } of entries) if (target.clientWidth) paints.get(target)();
});

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const reference of shown) {
    const canvas = reference.deref();
    if (!canvas?.isConnected) shown.delete(reference);
    else if (canvas.clientWidth) paints.get(canvas)();
  }
});

/** Calls `paint` once the canvas has a size, and whenever that or the color scheme changes. */
export function onRepaint(canvas, paint) {
  paints.set(canvas, paint);
  shown.add(new WeakRef(canvas));
  watcher.observe(canvas);
}
