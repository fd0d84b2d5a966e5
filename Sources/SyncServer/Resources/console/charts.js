// Charts whose marks are labelled where they are, each with a table of the same numbers.

import { el, number, short, svg, table } from "./dom.js";

const figure = (title, hint, drawing, columns, rows) =>
  el(
    "figure",
    null,
    el("figcaption", null, el("h2", null, title), hint ? el("p", { class: "quiet" }, hint) : null),
    rows.length === 0 ? el("p", { class: "quiet" }, "None.") : drawing,
    rows.length === 0 ? null : el(
      "details",
      { class: "numbers", "data-key": title },
      el("summary", { "data-key": `numbers-${title}` }, "Numbers"),
      table(title, columns, rows),
    ),
  );

const drawing = (label, width, height, ...content) =>
  svg("svg", { class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...content);

/** Horizontal bars, each with its name and its number. */
export function bars(title, hint, rows) {
  const [width, step] = [360, 34];
  const most = Math.max(1, ...rows.map(([, value]) => value));
  return figure(
    title,
    hint,
    drawing(
      `${title}: ${rows.map(([label, value]) => `${short(label, 30)} ${value}`).join(", ")}`,
      width,
      rows.length * step,
      rows.map(([label, value], index) => {
        const size = Math.max(2, value / most * (width - 70));
        return [
          svg("text", { x: 0, y: index * step + 12 }, short(label, 50)),
          svg("rect", { class: "bar", x: 0, y: index * step + 16, width: size, height: 12, rx: 2 }),
          svg("text", { class: "value", x: size + 6, y: index * step + 27 }, number(value)),
        ];
      }).flat(),
    ),
    ["Product", "Customers"],
    rows.map(([label, value]) => [label, number(value)]),
  );
}

const isoDay = (time) => new Date(time).toISOString().slice(0, 10);
const dayFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
const dayWords = (day) => dayFormat.format(new Date(`${day}T00:00:00Z`));

/** A column for each of `count` days, which are before (negative) or from today on. */
export function days(title, rows, today, count, kind = "") {
  const [width, height] = [360, 120];
  const first = Date.parse(today.slice(0, 10)) + (count < 0 ? count + 1 : 0) * 86_400_000;
  const known = new Map(rows);
  const all = Array.from(
    { length: Math.abs(count) + (count > 0 ? 1 : 0) },
    (_, index) => isoDay(first + index * 86_400_000),
  ).map((day) => [day, known.get(day) ?? 0]);
  const most = Math.max(...all.map(([, value]) => value));
  const sum = all.reduce((total, [, value]) => total + value, 0);
  const step = width / all.length;
  return figure(
    `${title}: ${number(sum)}`,
    null,
    drawing(
      `${title}: ${sum} in total, at most ${most} a day`,
      width,
      height,
      svg("line", { class: "base", x1: 0, x2: width, y1: height - 18, y2: height - 18 }),
      all.flatMap(([day, value], index) => {
        const size = most === 0 ? 0 : value / most * (height - 40);
        const isLabelled = value > 0 && (value === most || all.length < 10);
        return [
          value > 0
            ? svg("rect", {
              class: `bar ${kind}`,
              x: index * step + 1,
              y: height - 18 - size,
              width: Math.max(step - 2, 1),
              height: size,
            }, svg("title", null, `${dayWords(day)}: ${value}`))
            : null,
          isLabelled
            ? svg("text", {
              class: "value",
              x: index * step + step / 2,
              y: height - 22 - size,
              "text-anchor": "middle",
            }, number(value))
            : null,
          index === 0 || index === all.length - 1 || (all.length < 10 && index % 2 === 0 && index < all.length - 2) ||
            (index % 10 === 0 && index < all.length - 4)
            ? svg("text", {
              class: "tick",
              x: index * step + step / 2,
              y: height - 4,
              "text-anchor": index === 0 ? "start" : index === all.length - 1 ? "end" : "middle",
            }, dayWords(day))
            : null,
        ];
      }),
    ),
    ["Day", "Number"],
    sum === 0 ? [] : all.filter(([, value]) => value > 0).map(([day, value]) => [dayWords(day), number(value)]),
  );
}

/** Lines over days, each with its name and its last number at its end. */
export function lines(title, hint, dayNames, series) {
  const [width, height, right] = [360, 150, 130];
  const shown = series.filter(({ values }) => values.some((value) => value > 0));
  const most = Math.max(1, ...shown.flatMap(({ values }) => values));
  const x = (index) => index / Math.max(1, dayNames.length - 1) * (width - right);
  const y = (value) => 12 + (1 - value / most) * (height - 40);
  // The labels at the ends keep a distance.
  const ends = shown.map((each, index) => ({ each, index, at: y(each.values.at(-1)) + 4 })).sort((one, other) =>
    one.at - other.at
  );
  ends.forEach((end, place) => {
    if (place > 0) end.at = Math.max(end.at, ends[place - 1].at + 15);
  });
  const excess = (ends.at(-1)?.at ?? 0) - (height - 20);
  if (excess > 0) { for (const end of ends) end.at -= excess; }
  return figure(
    title,
    hint,
    drawing(
      `${title}: ${
        shown.map(({ label, values }) => `${short(label, 30)} from ${values[0]} to ${values.at(-1)}`).join(", ")
      }`,
      width,
      height,
      svg("line", { class: "base", x1: 0, x2: width - right, y1: height - 28, y2: height - 28 }),
      svg("text", { class: "tick", x: 0, y: height - 12 }, dayNames.length ? dayWords(dayNames[0]) : ""),
      svg(
        "text",
        { class: "tick", x: width - right, y: height - 12, "text-anchor": "end" },
        dayNames.length ? dayWords(dayNames.at(-1)) : "",
      ),
      shown.map(({ values }, index) =>
        svg("polyline", {
          class: `line c${index % 6}`,
          points: values.map((value, day) => `${x(day).toFixed(1)},${y(value).toFixed(1)}`).join(" "),
        })
      ),
      ends.map(({ each, index, at }) =>
        svg(
          "text",
          { class: `end c${index % 6}`, x: width - right + 6, y: at },
          `${number(each.values.at(-1))} ${short(each.label, 18)}`,
        )
      ),
    ),
    ["Day", ...shown.map(({ label }) => label)],
    shown.length === 0
      ? []
      : dayNames.map((day, index) => [dayWords(day), ...shown.map(({ values }) => number(values[index]))]),
  );
}
