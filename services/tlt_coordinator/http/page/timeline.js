/**
 * Draws documents of the format `tlt-timeline/1`. Needs no network and no page around it, only CSS variables on the
 * canvas: `--ink`, `--soft`, `--line`, `--surface` and one per state, each #rrggbb.
 */

import { cellsOf, prepared, Raster, readable, shadesOf } from "./raster.js";

const AXIS = 26;
const STRIP = 22;
const MARKS = 16;
const STEPS_S = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400];

/** Returns the height that suits a document, in CSS pixels. */
export function heightOf(document, options = {}) {
  return top(document, options) + Math.max(1, document.rows.length) * pitch(document) + AXIS;
}

/**
 * Draws a document, and returns where it is: {left, top, width, pitch, rows, from, to}.
 *
 * Options:
 *   from, to: what is shown, in Unix seconds; default: all of the document.
 *   spans: [{from_unix_s, to_unix_s, label, shade, faded}] in a strip above; shade names a CSS variable; below one that
 *     is faded, the rows are.
 *   origin: label the axis with the time since then; default: with the time of day.
 *   selected: index of a row to point out.
 *   cursor: a time to point out, in Unix seconds.
 */
export function draw(canvas, document, options = {}) {
  const paper = prepared(canvas);
  const place = placed(paper, document, options);
  states(paper, document, place);
  const shades = shadesOf(canvas);
  labels(paper.context, document, place, shades, options);
  axis(paper.context, place, shades, options);
  strip(paper.context, place, shades, options.spans ?? []);
  marks(paper.context, document.marks ?? [], place, shades);
  if (options.cursor !== undefined) line(paper.context, xOf(place, options.cursor), place, shades("ink"));
  return place;
}

function top(document, options) {
  return (options.spans?.length ? STRIP : 0) + (document.marks?.length ? MARKS : 4);
}

function pitch(document) {
  const rows = document.rows.length;
  return rows <= 12 ? 28 : rows <= 32 ? 20 : 14;
}

function placed({ canvas, context }, document, options) {
  const most = Math.min(190, canvas.clientWidth * 0.25);
  context.font = labelFont(document);
  const widths = document.rows.map((row) => 14 + context.measureText(named(row).slice(0, 60)).width);
  const left = Math.ceil(Math.min(most, Math.max(0, ...widths)));
  return {
    left,
    top: top(document, options),
    width: Math.max(1, canvas.clientWidth - left - 1),
    pitch: pitch(document),
    rows: document.rows.length,
    from: options.from ?? document.from_unix_s,
    to: options.to ?? document.to_unix_s,
  };
}

function states({ canvas, context }, document, place) {
  const raster = Raster.of(canvas, place.width, Math.max(1, place.rows * place.pitch));
  const cells = cellsOf(canvas, document.states);
  const columns = columnsOf(document, place);
  const height = place.pitch - (place.pitch > 16 ? 6 : 2);
  document.rows.forEach((row, index) => {
    const y = index * place.pitch;
    if (row.runs) raster.lane(y, height, statesOf(row.runs, document.columns, columns), cells);
    else raster.band(y, height, row.shares, columns, cells);
  });
  raster.drawOn(context, place.left, place.top);
}

/** Returns the column of each pixel; -1: outside the document. */
function columnsOf(document, { from, to, width }) {
  const columns = new Int32Array(width);
  for (let x = 0; x < width; x++) {
    const at = from + ((x + 0.5) / width) * (to - from);
    const column = Math.floor((at - document.from_unix_s) / document.column_s);
    columns[x] = column >= 0 && column < document.columns ? column : -1;
  }
  return columns;
}

function statesOf(runs, count, columns) {
  const byColumn = new Int16Array(count);
  let column = 0;
  for (const [state, length] of runs) byColumn.fill(state, column, (column += length));
  return columns.map((index) => (index < 0 ? -1 : byColumn[index]));
}

const xOf = (place, at) => place.left + ((at - place.from) / (place.to - place.from)) * place.width;
const labelFont = (document) => font(pitch(document) > 16 ? 12.5 : 10.5);
const font = (pixels) => `${pixels}px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif`;

function labels(context, document, place, shades, options) {
  context.font = labelFont(document);
  context.textBaseline = "middle";
  context.textAlign = "left";
  document.rows.forEach((row, index) => {
    const middle = place.top + (index + 0.5) * place.pitch - (place.pitch > 16 ? 3 : 1);
    const isSelected = index === options.selected;
    context.fillStyle = shades(isSelected ? "ink" : "soft");
    context.fillText(fitting(context, named(row), place.left - 10), 0, middle);
    if (!isSelected) return;
    context.strokeStyle = shades("ink");
    context.lineWidth = 2;
    context.strokeRect(place.left - 1, place.top + index * place.pitch - 1, place.width, place.pitch - 1);
  });
}

/** A band is named by its first worker. */
const named = (row) => (row.runs ? row.label : `${row.label.split(" … ")[0]} …`);

/** Cuts a text in its middle: ids of one fleet begin alike and end differently. */
function fitting(context, text, width) {
  if (text.length < 200 && context.measureText(text).width <= width) return text;
  for (let kept = Math.min(40, text.length - 1); kept > 1; kept--) {
    const half = Math.ceil(kept / 2);
    const cut = `${text.slice(0, half)}…${text.slice(text.length - kept + half)}`;
    if (context.measureText(cut).width <= width) return cut;
  }
  return "…";
}

function axis(context, place, shades, options) {
  const bottom = place.top + place.rows * place.pitch;
  const wanted = ((place.to - place.from) * 84) / place.width;
  const step = STEPS_S.find((seconds) => seconds >= wanted) ?? Math.ceil(wanted / 86400) * 86400;
  const zero = options.origin ?? new Date(place.from * 1000).setHours(0, 0, 0, 0) / 1000;
  context.font = font(11.5);
  context.textAlign = "center";
  context.textBaseline = "alphabetic";
  for (let at = zero + Math.ceil((place.from - zero) / step) * step; at <= place.to + 1e-6; at += step) {
    const x = xOf(place, at);
    context.fillStyle = shades("line");
    context.fillRect(Math.round(x), bottom, 1, 6);
    context.fillStyle = shades("soft");
    const text = options.origin === undefined ? clock(at, step) : elapsed(at - zero, step);
    const half = context.measureText(text).width / 2;
    const fits = Math.min(Math.max(x, half), place.left + place.width - half);
    context.fillText(text, fits, bottom + 19);
  }
}

function clock(at, step) {
  const time = new Date(at * 1000);
  const parts = [time.getHours(), time.getMinutes(), ...(step < 60 ? [time.getSeconds()] : [])];
  const text = parts.map((part) => String(part).padStart(2, "0")).join(":");
  return step < 1 ? `${text}.${Math.floor(time.getMilliseconds() / 100)}` : text;
}

function elapsed(seconds, step) {
  if (step < 60) return `${step < 1 ? seconds.toFixed(1) : Math.round(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}

function line(context, x, place, color) {
  context.fillStyle = color;
  context.fillRect(Math.round(x), place.top, 1, place.rows * place.pitch);
}

function strip(context, place, shades, spans) {
  context.font = font(11);
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const span of spans) {
    const left = Math.max(place.left, xOf(place, span.from_unix_s));
    const right = Math.min(place.left + place.width, xOf(place, span.to_unix_s));
    if (right <= left) continue;
    if (span.faded) fade(context, left, right, place, shades("surface"));
    context.fillStyle = shades(span.shade ?? "line");
    context.fillRect(left, 2, Math.max(1, right - left - 1), STRIP - 6);
    if (!span.label || context.measureText(span.label).width > right - left - 6) continue;
    context.fillStyle = readable(shades, span.shade ?? "line");
    context.fillText(span.label, (left + right) / 2, 2 + (STRIP - 6) / 2);
  }
}

function fade(context, left, right, place, color) {
  context.globalAlpha = 0.6;
  context.fillStyle = color;
  context.fillRect(left, place.top, right - left, place.rows * place.pitch);
  context.globalAlpha = 1;
}

const SHAPES = {
  step: (context, x, y) => context.rect(x - 1, y - 10, 2, 10),
  publication: (context, x, y) => polygon(context, [[x, y], [x - 5, y - 9], [x + 5, y - 9]]),
  update: (context, x, y) => polygon(context, [[x, y], [x - 4, y - 5], [x, y - 10], [x + 4, y - 5]]),
};
const SHADE_OF = { step: "ink", publication: "training", update: "updating" };

/** Labels are numbers of steps or versions, or names. */
const labelOf = ({ kind, label }) => (/^\d/.test(label) ? `${kind === "step" ? "step " : "v"}${label}` : label);

function polygon(context, corners) {
  corners.forEach(([x, y], index) => (index ? context.lineTo(x, y) : context.moveTo(x, y)));
  context.closePath();
}

function marks(context, found, place, shades) {
  let free = place.left;
  context.font = font(10.5);
  context.textAlign = "left";
  context.textBaseline = "alphabetic";
  const right = place.left + place.width;
  const known = found.filter((mark) => SHAPES[mark.kind]).map((mark) => ({ ...mark, x: xOf(place, mark.at_unix_s) }));
  const shown = known.filter(({ x }) => x >= place.left && x <= right);
  shown.forEach((mark, index) => {
    const { x } = mark;
    context.fillStyle = shades(SHADE_OF[mark.kind]);
    context.beginPath();
    SHAPES[mark.kind](context, x, place.top - 2);
    context.fill();
    const text = fitting(context, labelOf(mark), 60);
    const until = x + 12 + context.measureText(text).width;
    if (x < free || until > (shown[index + 1]?.x ?? right + 6) - 6) return;
    context.fillStyle = shades("soft");
    context.fillText(text, x + 7, place.top - 4);
    free = until;
  });
}
