// Elements, dates and words. All text reaches the page through text nodes.

const svgNamespace = "http://www.w3.org/2000/svg";

function build(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (["value", "checked", "disabled", "open", "hidden", "required"].includes(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An element of HTML: `el("p", { class: "quiet", onclick }, "text", other)`. */
export const el = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);

/** An element of SVG. */
export const svg = (tag, attributes, ...children) =>
  build(document.createElementNS(svgNamespace, tag), attributes, children);

/** A text that was written by others, of any direction. */
export const name = (text) => el("bdi", { dir: "auto", class: "name" }, visible(text));

/** Control characters and changes of direction as visible symbols. */
export function visible(text) {
  return String(text).replace(
    /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    (character) => {
      const code = character.codePointAt(0);
      return code < 0x20 ? String.fromCodePoint(0x2400 + code) : "\u2423";
    },
  );
}

/** A text of limited length, for labels in drawings. */
export function short(text, length = 40) {
  const characters = [...visible(text)];
  return characters.length <= length ? characters.join("") : characters.slice(0, length - 1).join("") + "\u2026";
}

/**
 * Replaces the content of `place`. The control that had the focus gets it again, by its `data-key`, and open details
 * stay open.
 */
export function replace(place, ...children) {
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
  const open = new Set([...place.querySelectorAll("details[open]")].map((each) => each.dataset.key));
  place.replaceChildren(...children.flat(Infinity).filter(Boolean));
  for (const each of place.querySelectorAll("details")) if (open.has(each.dataset.key)) each.open = true;
  if (focused) place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  place.removeAttribute("aria-busy");
}

/** Shows `words` in an empty `place` if `work` takes longer than a blink. */
export async function waiting(place, words, work) {
  place.setAttribute("aria-busy", "true");
  const timer = setTimeout(() => {
    if (place.childElementCount === 0) place.append(el("p", { class: "quiet", role: "status" }, words));
  }, 120);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
    place.removeAttribute("aria-busy");
  }
}

/** The notice of an error, with advice. */
export const problem = (error, retry) =>
  el(
    "div",
    { class: "notice bad", role: "alert" },
    el("p", null, sentence(error.message)),
    error.advice ? el("p", null, error.advice) : null,
    retry ? el("button", { type: "button", onclick: retry }, "Try again") : null,
  );

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?\u2026]$/.test(text) ? "" : ".");

const dayFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", year: "numeric" });
const timeFormat = new Intl.DateTimeFormat(undefined, {
  day: "numeric",
  month: "short",
  year: "numeric",
  hour: "2-digit",
  minute: "2-digit",
});
const numberFormat = new Intl.NumberFormat(undefined);

export const number = (value) => numberFormat.format(value);
export const plural = (count, word, words = word + "s") => `${number(count)} ${count === 1 ? word : words}`;

const isDate = (text) => text && !Number.isNaN(Date.parse(text));
export const dayText = (text) => isDate(text) ? dayFormat.format(new Date(text)) : "unknown";
export const timeText = (text) => isDate(text) ? timeFormat.format(new Date(text)) : "unknown";

/** A date with its exact instant as a hint. */
export const date = (text, format = dayText) =>
  isDate(text) ? el("time", { datetime: text, title: text }, format(text)) : "\u2013";

/** Instants in a text of the server, as dates of this page. */
export const withDates = (text) =>
  visible(text).replace(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, (instant) => timeText(instant));

/** The time from now to `text`: "in 3 days", "2 hours ago". */
export function relative(text, now = Date.now()) {
  if (!isDate(text)) return "";
  const seconds = (Date.parse(text) - now) / 1000;
  const format = new Intl.RelativeTimeFormat(undefined, { numeric: "auto" });
  for (
    const [unit, size] of [["year", 31_557_600], ["month", 2_629_800], ["day", 86_400], ["hour", 3600], ["minute", 60]]
  ) {
    if (Math.abs(seconds) >= size) return format.format(Math.trunc(seconds / size), unit);
  }
  return format.format(Math.trunc(seconds), "second");
}

/** Lets the keyboard scroll tables that are larger than their place. */
const sizes = new ResizeObserver((entries) => {
  for (const { target } of entries) {
    const scrolls = target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight;
    if (!scrolls) { for (const name of ["tabindex", "role", "aria-label"]) target.removeAttribute(name); }
    else {for (
        const [name, value] of [["tabindex", "0"], ["role", "region"], [
          "aria-label",
          `${target.dataset.caption}, table`,
        ]]
      ) target.setAttribute(name, value);}
  }
});

/** A table with a caption. Cells are texts or elements; the first of a row is its header. */
export function table(caption, columns, rows) {
  const box = el(
    "div",
    { class: "scroll", "data-caption": caption },
    el(
      "table",
      null,
      el("caption", { class: "unseen" }, caption),
      el("thead", null, el("tr", null, columns.map((column) => el("th", { scope: "col" }, column)))),
      el(
        "tbody",
        null,
        rows.map((cells) =>
          el(
            "tr",
            null,
            cells.map((cell, index) =>
              index === 0 ? el("th", { scope: "row" }, cell) : el("td", { "data-label": columns[index] }, cell)
            ),
          )
        ),
      ),
    ),
  );
  sizes.observe(box);
  return box;
}

let toastTimer = 0;

/** Shows a short message, also to screen readers. */
export function toast(text) {
  const place = document.querySelector("#toast");
  clearTimeout(toastTimer);
  place.textContent = text;
  toastTimer = setTimeout(() => {
    place.textContent = "";
  }, 8_000);
}
