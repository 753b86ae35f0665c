/** Two small charts, as SVG that takes its colors from the style sheet. Numbers are in the tables beside them. */

import { shape } from "./elements.js";

const [WIDTH, HEIGHT] = [720, 220];
const [LEFT, RIGHT, TOP, BOTTOM] = [52, 12, 16, 34];

/** Returns a picture of groups of bars: labels, and series [{name, values}], each of its own class (series-0, …). */
export function bars(description, labels, series) {
  const chart = framed(description);
  const most = Math.max(1, ...series.flatMap(({ values }) => values));
  const y = scaled(chart, 0, most, (value) => String(Math.round(value)));
  const pitch = (WIDTH - LEFT - RIGHT) / Math.max(1, labels.length);
  const wide = Math.min(34, (pitch * 0.8) / series.length);
  labels.forEach((label, index) => {
    const middle = LEFT + (index + 0.5) * pitch;
    series.forEach(({ values }, which) => {
      if (!values[index]) return;
      const at = { x: middle + (which - series.length / 2) * wide + 1, y: y(values[index]), width: wide - 2 };
      chart.append(shape("rect", { ...at, height: HEIGHT - BOTTOM - at.y, rx: 2, class: `series-${which}` }));
    });
    const isShown = labels.length <= 12 || index % 2 === 0;
    if (isShown) chart.append(text(middle, HEIGHT - BOTTOM + 18, label, "middle"));
  });
  return chart;
}

/** Returns a picture of a line through points [{x, y, label}]. */
export function lineThrough(description, points, formatX, formatY) {
  const chart = framed(description);
  const [xs, ys] = [points.map((point) => point.x), points.map((point) => point.y)];
  const spread = Math.max(...ys) - Math.min(...ys) || 0.1;
  const y = scaled(chart, Math.min(...ys) - spread * 0.15, Math.max(...ys) + spread * 0.15, formatY);
  const [first, last] = [Math.min(...xs), Math.max(...xs)];
  const x = (at) => LEFT + 12 + ((at - first) / (last - first || 1)) * (WIDTH - LEFT - RIGHT - 40);
  chart.append(shape("polyline", { points: points.map((point) => `${x(point.x)},${y(point.y)}`).join(" ") }));
  let free = -Infinity;
  for (const point of points) {
    chart.append(shape("circle", { cx: x(point.x), cy: y(point.y), r: 4 }));
    if (x(point.x) < free) continue;
    chart.append(text(x(point.x), y(point.y) - 10, point.label, "middle"));
    free = x(point.x) + 44;
  }
  chart.append(text(x(first), HEIGHT - 10, formatX(first), "start"));
  if (last > first) chart.append(text(WIDTH - RIGHT, HEIGHT - 10, formatX(last), "end"));
  return chart;
}

function framed(description) {
  return shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": description, class: "chart" });
}

/** Draws a scale of three lines, and returns the function from values to y. */
function scaled(chart, low, high, format) {
  const y = (value) => TOP + (1 - (value - low) / (high - low)) * (HEIGHT - TOP - BOTTOM);
  for (const part of [0, 0.5, 1]) {
    const value = low + part * (high - low);
    chart.append(shape("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value) }));
    chart.append(text(LEFT - 8, y(value) + 4, format(value), "end"));
  }
  return y;
}

function text(x, y, words, anchor) {
  return shape("text", { x, y, "text-anchor": anchor }, words);
}
