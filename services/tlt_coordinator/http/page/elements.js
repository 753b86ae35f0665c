/** Makes elements. Text is always text: ids and messages come from machines that may say anything. */

/** Returns an element. Properties are attributes, or listeners if they are functions (`onclick`); nulls are left out. */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (typeof value === "function") made.addEventListener(key.slice(2), value);
    else if (value === true) made.setAttribute(key, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

/** Returns an element of an SVG picture. */
export function shape(name, properties = {}, ...children) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(properties)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

/** Sets the text of an element, if it is another than before: what did not change is not laid out again. */
export function say(target, text) {
  if (target.textContent !== text) target.textContent = text;
}

/** Returns a table. Columns: [{name, of: row -> text or node, number: aligned to the right}]; the first names the row. */
export function table(caption, columns, rows) {
  const names = columns.map((column) => element("th", { scope: "col", class: kindOf(column) }, column.name));
  return element(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    element(
      "table",
      {},
      element("caption", { class: "unseen" }, caption),
      element("thead", {}, element("tr", {}, names)),
      element("tbody", {}, rows.map((row) => rowOf(columns, row))),
    ),
  );
}

/** Returns one row of a table. */
export function rowOf(columns, row) {
  return element("tr", {}, columns.map((column, index) =>
    element(index ? "td" : "th", { class: kindOf(column), scope: index ? null : "row" }, column.of(row) ?? "–")));
}

const kindOf = (column) => (column.number ? "number" : column.kind ?? null);

/** Returns names and values as a list of definitions. */
export function facts(pairs) {
  return element("dl", { class: "facts" }, pairs.map(([name, value]) =>
    element("div", {}, element("dt", {}, name), element("dd", {}, value ?? "–"))));
}

/** Returns a section with a heading. */
export function section(title, ...children) {
  return element("section", {}, element("h2", {}, title), ...children);
}

/** Returns a table that is shown on demand. */
export function asTable(label, ...children) {
  return element("details", {}, element("summary", {}, label), ...children);
}
