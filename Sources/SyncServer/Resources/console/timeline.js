// The timeline of a customer: a lane for each group and each owned product, with the periods that were paid.

import { dayText, el, plural, replace, short, svg, timeText, visible } from "./dom.js";

const day = 86_400_000;
const lane = { height: 46, bar: 20, top: 22 };
/** The narrowest mark that is drawn on its own, in pixels. */
const narrow = 4;
const far = Date.UTC(9999, 0);

/** The lanes of a customer, from the periods of groups and the purchases of products without a group. */
export function lanesOf(groups, purchases, session, now) {
  const known = new Map(purchases.map((each) => [`${each.store} ${each.transaction}`, each]));
  const lanes = groups.map((group) => ({
    title: group.group,
    marks: group.periods.map((period) => {
      const purchase = known.get(`${period.store} ${period.transactionID}`);
      return {
        start: Date.parse(period.start),
        end: period.end === null ? far : Date.parse(period.end),
        product: period.productID,
        purchase,
        store: period.store,
        transaction: period.transactionID,
        revoked: period.revokedAt ?? purchase?.revoked ?? null,
        kind: period.grace
          ? "grace"
          : period.source
          ? "stated"
          : purchase?.introductory
          ? "trial"
          : period.store === "support"
          ? "support"
          : "paid",
      };
    }).sort((one, other) => one.start - other.start),
  }));
  // A purchase that was revoked before it began has no period.
  const shown = new Set(lanes.flatMap((each) => each.marks.map((mark) => `${mark.store} ${mark.transaction}`)));
  const owned = new Map();
  for (const purchase of purchases) {
    if (shown.has(`${purchase.store} ${purchase.transaction}`)) continue;
    const type = session.catalog?.products.find((each) => each.id === purchase.product)?.type;
    const title = session.productName(purchase.product);
    if (!owned.has(title)) owned.set(title, { title, marks: [] });
    const [start, revoked] = [Date.parse(purchase.purchased), purchase.revoked && Date.parse(purchase.revoked)];
    const isPoint = type !== "nonConsumable" || purchase.setAside !== null;
    owned.get(title).marks.push({
      start,
      end: isPoint ? start : revoked ?? far,
      isPoint,
      product: purchase.product,
      purchase,
      store: purchase.store,
      transaction: purchase.transaction,
      revoked: purchase.revoked,
      kind: purchase.setAside !== null
        ? "aside"
        : purchase.revoked
        ? "revoked"
        : purchase.store === "support"
        ? "support"
        : "paid",
    });
  }
  for (const each of owned.values()) each.marks.sort((one, other) => one.start - other.start);
  return [...lanes.filter((each) => each.marks.length > 0), ...owned.values()].slice(0, 40)
    .map((each) => ({ ...each, gaps: gapsOf(each.marks, now) }));
}

/** The gaps between periods that were paid. */
function gapsOf(marks, now) {
  const gaps = [];
  let end = null;
  for (const mark of marks.filter((each) => !each.isPoint)) {
    if (end !== null && mark.start - end > 60_000) gaps.push({ start: end, end: mark.start });
    end = Math.max(end ?? -Infinity, mark.end);
  }
  if (end !== null && end < now) gaps.push({ start: end, end: now, isLast: true });
  return gaps;
}

const kinds = {
  paid: "paid",
  support: "given by support",
  trial: "trial or introductory offer",
  grace: "grace period",
  stated: "stated by another system",
  revoked: "refunded",
  aside: "does not count",
  many: "several periods",
};

const rangeText = (mark) =>
  mark.isPoint
    ? dayText(new Date(mark.start).toISOString())
    : `${dayText(new Date(mark.start).toISOString())} to ${
      mark.end >= far ? "for good" : dayText(new Date(mark.end).toISOString())
    }`;

/**
 * Draws `lanes` into `place`. `facts(mark)` gives the facts of a mark, which open below the drawing.
 *
 * @returns a function that draws new lanes and keeps the view.
 */
export function drawTimeline(place, lanes, session, facts) {
  let now = Date.now();
  let view = null;
  let focused = null;
  const drawing = svg("svg", { class: "timeline", role: "group", "aria-label": "Timeline" });
  const details = el("div", {
    class: "facts",
    role: "region",
    "aria-label": "Facts of the chosen period",
    hidden: true,
  });
  const range = el("p", { class: "quiet range" });
  const button = (words, label, act) =>
    el("button", { type: "button", "aria-label": label, title: label, onclick: act }, words);
  const tools = el(
    "div",
    { class: "tools", role: "toolbar", "aria-label": "View of the timeline" },
    button("\u2212", "Zoom out", () => zoom(1.6)),
    button("+", "Zoom in", () => zoom(1 / 1.6)),
    button("\u2190", "Earlier", () => pan(-0.4)),
    button("\u2192", "Later", () => pan(0.4)),
    button("All", "Show everything", () => {
      view = whole();
      draw();
    }),
    button("Now", "Show the time around now", () => {
      view = { start: now - 60 * day, end: now + 60 * day };
      draw();
    }),
  );
  const scroll = el("div", { class: "drawing" }, drawing);
  place.replaceChildren(el("div", { class: "row" }, tools, range), scroll, legend(), details);

  function whole() {
    const starts = lanes.flatMap((each) => each.marks.map((mark) => mark.start)).filter(Number.isFinite);
    const ends = lanes.flatMap((each) => each.marks.map((mark) => mark.end)).filter((each) => each < far);
    let start = now - 30 * day, end = now + 30 * day;
    for (const each of starts) start = Math.min(start, each);
    for (const each of ends) end = Math.max(end, each);
    const margin = (end - start) * 0.04;
    return { start: start - margin, end: end + margin };
  }

  function zoom(factor, at = 0.5) {
    const { start, end } = view;
    const middle = start + (end - start) * at;
    const length = Math.min(Math.max((end - start) * factor, day / 4), 200 * 366 * day);
    view = { start: middle - length * at, end: middle + length * (1 - at) };
    draw();
  }

  function pan(part) {
    const shift = (view.end - view.start) * part;
    view = { start: view.start + shift, end: view.end + shift };
    draw();
  }

  function draw() {
    const width = Math.max(scroll.clientWidth, 280);
    const height = lanes.length * lane.height + 30;
    const x = (time) => (Math.min(Math.max(time, view.start), view.end) - view.start) / (view.end - view.start) * width;
    const isSeen = (mark) => mark.end >= view.start && mark.start <= view.end;
    drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    drawing.setAttribute("height", height);
    const marks = [];
    const content = [hatching(), ...axis(width, height, x, view)];
    lanes.forEach((each, index) => {
      const y = index * lane.height + lane.top;
      content.push(svg("text", { class: "lane", x: 4, y: y - 6 }, short(each.title, Math.floor(width / 8))));
      content.push(svg("line", { class: "base", x1: 0, x2: width, y1: y + lane.bar, y2: y + lane.bar }));
      for (const gap of each.gaps.filter(isSeen)) {
        const [left, right] = [x(gap.start), x(gap.end)];
        if (right - left < 2) continue;
        const words = `${gap.isLast ? "ended, nothing since" : "gap"}: ${rangeText(gap)}`;
        content.push(
          svg("rect", { class: "gap", x: left, y, width: right - left, height: lane.bar }, svg("title", null, words)),
        );
        if (right - left > 90) {
          content.push(svg("text", { class: "in", x: left + 6, y: y + 14 }, gap.isLast ? "no access" : "gap"));
        }
      }
      for (const mark of merged(each.marks.filter(isSeen), x)) marks.push(drawMark(mark, each, x, y, width));
    });
    const place = x(now);
    if (now > view.start && now < view.end) {
      content.push(svg("line", { class: "now", x1: place, x2: place, y1: 0, y2: height - 18 }));
      content.push(svg("text", { class: "now", x: Math.min(place + 4, width - 30), y: 10 }, "now"));
    }
    const former = focused;
    const hadFocus = drawing.contains(document.activeElement);
    drawing.replaceChildren(...content, ...marks.map((each) => each.node));
    rove(marks, former, hadFocus);
    range.textContent = `${dayText(new Date(view.start).toISOString())} to ${
      dayText(new Date(view.end).toISOString())
    }`;
  }

  /** Merges neighbours that would be too narrow to point at. */
  function merged(marks, x) {
    const result = [];
    let last = null;
    for (const mark of marks) {
      const isNarrow = !mark.isPoint && x(mark.end) - x(mark.start) < narrow;
      if (isNarrow && last?.isNarrow && x(mark.start) - x(last.end) < narrow) {
        last.end = Math.max(last.end, mark.end);
        last.count += 1;
        last.kind = "many";
      } else if (mark.isPoint && last?.isPoint && x(mark.start) - x(last.latest) < narrow * 2) {
        last.latest = mark.start;
        last.count += 1;
        if (last.kind !== mark.kind) last.kind = "many";
      } else {
        last = { ...mark, isNarrow, latest: mark.start, count: 1, first: mark };
        result.push(last);
      }
    }
    return result;
  }

  function drawMark(mark, each, x, y, width) {
    const [left, right] = [x(mark.start), x(mark.end)];
    const title = session.productName(mark.product ?? each.title);
    const label = mark.count > 1
      ? `${plural(mark.count, "purchase")} of ${short(each.title)}, ${rangeText(mark)}. Zoom in to see each.`
      : `${short(title)}, ${kinds[mark.kind]}, ${rangeText(mark)}${
        mark.revoked ? `, refunded ${dayText(mark.revoked)}` : ""
      }`;
    const node = svg("g", {
      class: `mark ${mark.kind}`,
      role: "button",
      tabindex: "-1",
      "aria-label": label,
      onclick: () => choose(mark),
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        event.stopPropagation();
        choose(mark);
      },
    }, svg("title", null, label));
    if (mark.isPoint) {
      node.append(
        svg("circle", { cx: Math.min(Math.max(left, 8), width - 8), cy: y + lane.bar / 2, r: mark.count > 1 ? 8 : 6 }),
      );
    } else {
      const size = Math.max(right - left, narrow);
      node.append(svg("rect", { x: left, y, width: size, height: lane.bar, rx: 3 }));
      if (mark.revoked) {
        const cut = Math.min(Math.max(x(Date.parse(mark.revoked)), left), left + size);
        node.append(svg("line", { class: "cut", x1: cut, x2: cut, y1: y - 3, y2: y + lane.bar + 3 }));
      }
      if (size > 60) {
        node.append(
          svg(
            "text",
            { x: left + 6, y: y + 14 },
            short(mark.count > 1 ? `${mark.count} purchases` : title, Math.floor((size - 8) / 7.5)),
          ),
        );
      }
    }
    return { node, mark };
  }

  /** Lets one mark at a time be reached with Tab, and the others with the arrow keys. */
  function rove(marks, former, hadFocus) {
    let index = marks.findIndex(({ mark }) => mark.first === former);
    if (index < 0) index = Math.max(0, marks.length - 1);
    marks[index]?.node.setAttribute("tabindex", "0");
    const go = (next) => {
      if (!marks[next]) return;
      for (const each of marks) each.node.setAttribute("tabindex", "-1");
      marks[next].node.setAttribute("tabindex", "0");
      marks[next].node.focus();
    };
    marks.forEach(({ node, mark }, position) => {
      node.addEventListener("focus", () => {
        focused = mark.first;
      });
      node.addEventListener("keydown", (event) => {
        const next = { ArrowRight: position + 1, ArrowLeft: position - 1, Home: 0, End: marks.length - 1 }[event.key];
        if (next === undefined) return;
        event.preventDefault();
        go(next);
      });
    });
    if (hadFocus) marks[index]?.node.focus({ preventScroll: true });
  }

  function choose(mark) {
    focused = mark.first;
    if (mark.count > 1) {
      // The view has as many of them as fit side by side.
      const end = mark.isPoint ? mark.latest : mark.end;
      const length = Math.max((end - mark.start) * Math.min(1.2, scroll.clientWidth / 24 / mark.count), day);
      const middle = length > end - mark.start
        ? (mark.start + end) / 2
        : Math.min(Math.max(now, mark.start + length / 2), end - length / 2);
      view = { start: middle - length / 2, end: middle + length / 2 };
      return draw();
    }
    details.hidden = false;
    replace(
      details,
      facts(mark.first),
      el("button", {
        type: "button",
        class: "plain",
        onclick: () => {
          details.hidden = true;
          drawing.querySelector("[tabindex='0']")?.focus();
        },
      }, "Close"),
    );
    details.setAttribute("tabindex", "-1");
    details.focus({ preventScroll: true });
    details.scrollIntoView({ block: "nearest" });
  }

  drawing.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      const box = drawing.getBoundingClientRect();
      zoom(event.deltaY > 0 ? 1.25 : 0.8, (event.clientX - box.left) / box.width);
    } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      event.preventDefault();
      pan((event.deltaX || event.deltaY) / 800);
    }
  }, { passive: false });
  drawing.addEventListener("keydown", (event) => {
    const act = {
      "+": () => zoom(1 / 1.6),
      "=": () => zoom(1 / 1.6),
      "-": () => zoom(1.6),
      PageUp: () => pan(-0.4),
      PageDown: () => pan(0.4),
      0: () => {
        view = whole();
        draw();
      },
    }[event.key];
    if (!act) {
      return;
    }
    event.preventDefault();
    act();
  });
  let width = 0;
  new ResizeObserver(() => {
    if (!scroll.isConnected || scroll.clientWidth === width) return;
    width = scroll.clientWidth;
    draw();
  }).observe(scroll);
  view = whole();
  draw();
  return (next) => {
    [lanes, now] = [next, Date.now()];
    draw();
  };
}

const hatching = () =>
  svg(
    "defs",
    null,
    svg("pattern", {
      id: "hatch",
      width: 7,
      height: 7,
      patternUnits: "userSpaceOnUse",
      patternTransform: "rotate(45)",
    }, svg("line", { class: "hatch", x1: 0, y1: 0, x2: 0, y2: 7 })),
  );

/** The marks of the time axis: years, months or days, as many as fit. */
function axis(width, height, x, { start, end }) {
  const count = Math.max(2, Math.floor(width / 90));
  const months = (end - start) / (30.44 * day);
  const marks = [];
  if (months > 2) {
    const step = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200].find((each) => months / each <= count) ?? 2400;
    const first = new Date(start);
    for (let month = Math.ceil((first.getUTCFullYear() * 12 + first.getUTCMonth()) / step) * step;; month += step) {
      const time = Date.UTC(Math.floor(month / 12), month % 12);
      if (time > end || marks.length > count + 2) break;
      marks.push([time, step >= 12 ? String(Math.floor(month / 12)) : monthText(time)]);
    }
  } else {
    const days = (end - start) / day;
    const step = [1, 2, 5, 7, 10, 15].find((each) => days / each <= count) ?? 30;
    for (let time = Math.ceil(start / day) * day; time <= end; time += step * day) marks.push([time, dayMonth(time)]);
  }
  return marks.filter(([time]) => time >= start).flatMap(([time, words]) => [
    svg("line", { class: "tick", x1: x(time), x2: x(time), y1: 12, y2: height - 16 }),
    svg("text", { class: "tick", x: Math.min(x(time) + 3, width - 44), y: height - 4 }, words),
  ]);
}

const monthFormat = new Intl.DateTimeFormat(undefined, { month: "short", year: "2-digit", timeZone: "UTC" });
const dayMonthFormat = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
const monthText = (time) => monthFormat.format(time);
const dayMonth = (time) => dayMonthFormat.format(time);

const legend = () =>
  el(
    "details",
    { class: "legend" },
    el("summary", null, "Signs and keys"),
    el(
      "ul",
      null,
      ["paid", "support", "trial", "grace", "revoked", "aside"].map((kind) =>
        el(
          "li",
          null,
          svg(
            "svg",
            { width: 26, height: 14, "aria-hidden": "true" },
            svg("g", { class: `mark ${kind}` }, svg("rect", { x: 1, y: 1, width: 24, height: 12, rx: 3 })),
          ),
          ` ${kinds[kind]}`,
        )
      ),
    ),
    el(
      "p",
      { class: "quiet" },
      "Arrow keys go from mark to mark, Enter opens one, + and \u2212 zoom, Page Up and Page Down " +
        "move, 0 shows everything. With the mouse: Ctrl and wheel zoom, Shift and wheel move.",
    ),
  );

/** The facts of a mark as a list of terms. */
export const terms = (pairs) =>
  el(
    "dl",
    null,
    pairs.filter(([, value]) => value !== null && value !== undefined)
      .map(([term, value]) => el("div", null, el("dt", null, term), el("dd", null, value))),
  );

export const factsOf = (mark, session) =>
  terms([
    ["Product", mark.product ? `${visible(session.productName(mark.product))}` : null],
    ["Kind", kinds[mark.kind]],
    ["From", timeText(new Date(mark.start).toISOString())],
    ["To", mark.isPoint ? null : mark.end >= far ? "for good" : timeText(new Date(mark.end).toISOString())],
    ["Refunded", mark.revoked ? timeText(mark.revoked) : null],
    ["Transaction", mark.transaction ? el("code", null, visible(mark.transaction)) : null],
    ["Store", mark.store ? visible(mark.store) : null],
    ["Origin", mark.purchase?.origin ?? null],
    ["Quantity", mark.purchase && mark.purchase.quantity !== 1 ? String(mark.purchase.quantity) : null],
    ["Does not count", mark.purchase?.setAside ? visible(mark.purchase.setAside) : null],
  ]);
