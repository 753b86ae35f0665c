/** Documents of the format `tlt-timeline/1`: joined, read, and put into words. Pure. */

/** Returns a document with the columns of a later one put in place of its own, and as many dropped at its beginning. */
export function appended(document, later) {
  const known = Math.round((later.from_unix_s - document.from_unix_s) / document.column_s);
  const isSame =
    later.kind === document.kind &&
    later.rows.length === document.rows.length &&
    later.rows.every((row, index) => row.label === document.rows[index].label) &&
    Math.abs(later.column_s / document.column_s - 1) < 1e-3 &&
    known >= 0 && known <= document.columns;
  if (!isSame) return null;
  const drop = Math.max(0, known + later.columns - document.columns);
  const from = document.from_unix_s + drop * document.column_s;
  return {
    ...document,
    from_unix_s: from,
    to_unix_s: later.to_unix_s,
    columns: known + later.columns - drop,
    workers: later.workers,
    rows: document.rows.map((row, index) => joined(row, later.rows[index], drop, known, later.columns)),
    marks: [
      ...document.marks.filter((mark) => mark.at_unix_s >= from && mark.at_unix_s < later.from_unix_s),
      ...later.marks,
    ],
  };
}

function joined(row, later, drop, known, count) {
  if (row.runs) return { ...later, runs: merged([...cut(row.runs, drop, known), ...later.runs]) };
  const shares = {};
  for (const state of new Set([...Object.keys(row.shares), ...Object.keys(later.shares)])) {
    const [before, after] = [row.shares[state], later.shares[state]];
    const kept = before ? before.slice(drop, known) : new Array(known - drop).fill(0);
    shares[state] = kept.concat(after ?? new Array(count).fill(0));
  }
  return { ...later, shares };
}

/** Returns the runs of the columns `begin` to `end`. */
function cut(runs, begin, end) {
  const found = [];
  let at = 0;
  for (const [state, length] of runs) {
    const inside = Math.min(end, at + length) - Math.max(begin, at);
    if (inside > 0) found.push([state, inside]);
    at += length;
  }
  return found;
}

function merged(runs) {
  const found = [];
  for (const [state, length] of runs) {
    if (found.at(-1)?.[0] === state) found.at(-1)[1] += length;
    else found.push([state, length]);
  }
  return found;
}

/** Returns the share of each state in a row between two times, {state: share}, and of what is not known under "". */
export function sharesOf(document, row, from, to) {
  const columnAt = (at) => Math.round((at - document.from_unix_s) / document.column_s);
  const [begin, end] = [Math.max(0, columnAt(from)), Math.min(document.columns, columnAt(to))];
  const found = {};
  const width = Math.max(1, end - begin);
  if (row.runs) {
    for (const [state, length] of cut(row.runs, begin, end)) {
      const name = document.states[state] ?? "";
      found[name] = (found[name] ?? 0) + length / width;
    }
    return found;
  }
  for (const [state, shares] of Object.entries(row.shares)) {
    found[document.states[state]] = shares.slice(begin, end).reduce((sum, part) => sum + part, 0) / 100 / width;
  }
  return found;
}

/** Returns what a row was at a time: [{state, share, from, to}]; a lane is in one state, and says since and until when. */
export function statesAt(document, row, at) {
  const column = Math.floor((at - document.from_unix_s) / document.column_s);
  if (column < 0 || column >= document.columns) return [];
  if (!row.runs) {
    return Object.entries(row.shares)
      .map(([state, shares]) => ({ state: document.states[state], share: shares[column] / 100 }))
      .filter((part) => part.share > 0);
  }
  let begin = 0;
  for (const [state, length] of row.runs) {
    if (column < begin + length) {
      const [from, to] = [begin, begin + length].map((edge) => document.from_unix_s + edge * document.column_s);
      return state < 0 ? [] : [{ state: document.states[state], share: 1, from, to }];
    }
    begin += length;
  }
  return [];
}
