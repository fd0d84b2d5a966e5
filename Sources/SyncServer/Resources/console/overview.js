// The overview: customers with access, purchases and refunds, ends to come, webhooks, and the server.

import { get, post } from "./api.js";
import { bars, days, lines } from "./charts.js";
import {
  date,
  el,
  name,
  number,
  plural,
  problem,
  relative,
  replace,
  sentence,
  table,
  timeText,
  toast,
  visible,
  waiting,
} from "./dom.js";
import { customerLink } from "./search.js";

export const title = "Overview";

export async function show(place, _, session) {
  const tiles = el("div", { class: "tiles" });
  const charts = el("div", { class: "charts" });
  const hooks = el("div");
  const server = el("div");
  const attempt = new AbortController();
  const { signal } = attempt;
  replace(
    place,
    el("h1", { tabindex: "-1" }, "Overview"),
    tiles,
    charts,
    el("section", { "aria-labelledby": "hooks" }, el("h2", { id: "hooks" }, "Webhooks"), hooks),
    el("section", { "aria-labelledby": "server" }, el("h2", { id: "server" }, "Server"), server),
  );

  /** Shows a part, or the reason why it cannot be shown. */
  async function part(where, words, read, draw) {
    try {
      replace(where, draw(await waiting(where, words, read())));
    } catch (error) {
      if (error.name !== "AbortError") replace(where, problem(error, refresh));
    }
  }

  function drawFigures([statistics, access]) {
    const { total, products, days: each } = statistics;
    replace(
      tiles,
      [
        ["active", "with access", "customers, counted once for each product"],
        ["expiring", "end within 7 days", "subscriptions, unless they are renewed"],
        ["purchased", "purchases", "of all time"],
        ["refunded", "refunds", "of all time"],
      ].map(([measure, words, hint]) =>
        el(
          "div",
          { class: "tile" },
          el("strong", null, number(total[measure])),
          el("span", null, words),
          el("small", { class: "quiet" }, hint),
        )
      ),
    );
    const label = (id) => visible(id === "" ? "other systems" : session.productName(id));
    const active = products.filter((product) => product.active > 0).sort((one, other) => other.active - one.active);
    const past = each.filter((day) => day.day <= statistics.projected.slice(0, 10));
    const next = each.filter((day) => day.expiring > 0);
    if (total.active + total.purchased === 0) {
      return el("p", { class: "quiet" }, "No purchases yet. The first one appears here by itself.");
    }
    return [
      lines(
        "Customers with access, last 30 days",
        "Each line is a product, at midnight UTC.",
        access.days,
        access.products.slice(0, 6).map((product) => ({ label: label(product.product), values: product.customers })),
      ),
      bars(
        "Customers with access now",
        "One bar for each product.",
        active.slice(0, 12).map((product) => [label(product.product), product.active]),
      ),
      days("Purchases, last 30 days", past.map((day) => [day.day, day.purchased]), statistics.projected, -30),
      days("Refunds, last 30 days", past.map((day) => [day.day, day.refunded]), statistics.projected, -30, "bad"),
      days(
        "Ends within 7 days, unless renewed",
        next.map((day) => [day.day, day.expiring]),
        statistics.projected,
        7,
        "warn",
      ),
    ];
  }

  function drawHooks({ webhooks, deadLetters }) {
    if (webhooks.length === 0) return el("p", { class: "quiet" }, "No webhooks are configured.");
    return [
      table(
        "Webhooks",
        [
          "Name",
          "State",
          "Delivered",
          "Waiting",
          "Dead letters",
          "Last delivery",
          ...(session.mayAct ? ["Actions"] : []),
        ],
        webhooks.map((each) => [
          name(each.name),
          el(
            "span",
            null,
            el("span", { class: `tag ${each.state === "failing" ? "bad" : ""}` }, each.state),
            each.error ? [" ", el("span", { class: "quiet" }, visible(each.error))] : null,
          ),
          number(each.delivered),
          each.oldest ? `${number(each.pending)}, the oldest ${relative(each.oldest)}` : number(each.pending),
          number(each.deadLetters),
          date(each.lastDelivery, timeText),
          ...(session.mayAct
            ? [
              each.deadLetters === 0 ? "" : el("button", {
                type: "button",
                "data-key": `again-${each.name}`,
                onclick: () => again(each.name, { deadLetters: true }),
              }, "Send all again"),
            ]
            : []),
        ]),
      ),
      deadLetters.length === 0 ? null : el("h3", null, "Dead letters"),
      deadLetters.length === 0 ? null : table(
        "Dead letters",
        ["Event", "Customer", "Webhook", "Attempts", "Given up", "Error", ...(session.mayAct ? ["Actions"] : [])],
        deadLetters.map((each) => [
          each.type,
          el("a", { href: customerLink(each.account) }, name(each.account)),
          name(each.webhook),
          number(each.attempts),
          date(each.died, timeText),
          visible(each.error ?? ""),
          ...(session.mayAct
            ? [
              el("button", {
                type: "button",
                "data-key": `again-${each.webhook}-${each.id}`,
                "aria-label": `Send ${each.type} of ${visible(each.account)} again`,
                onclick: () => again(each.webhook, { event: each.id }),
              }, "Send again"),
            ]
            : []),
        ]),
      ),
    ];
  }

  async function again(webhook, body) {
    try {
      const { events } = await post(["webhooks", webhook, "deliveries"], {}, body);
      toast(`${plural(events, "event")} will be sent again.`);
      refresh();
    } catch (error) {
      toast(sentence(visible(error.message)));
    }
  }

  function drawServer(known) {
    const { projection } = known;
    const lag = projection.lag === null
      ? "has not begun"
      : projection.lag < 5_000
      ? "up to date"
      : `${number(Math.round(projection.lag / 1000))} seconds behind`;
    return el(
      "dl",
      { class: "wide" },
      [
        ["Name", visible(known.name)],
        ["Version", known.version || "unknown"],
        [
          "Search and statistics",
          el(
            "span",
            { class: projection.lag > 60_000 ? "bad" : "" },
            projection.rebuilding ? "being derived again" : lag,
          ),
        ],
        ["Trust", known.policy === "verified" ? "what stores have signed" : "what clients report"],
        [
          "Parked notifications",
          known.parkedBytes === 0 ? "none" : `${number(known.parkedBytes)} bytes wait for their account`,
        ],
        ["Your token", [
          name(known.caller.name),
          ` (${known.caller.scope})`,
          known.caller.expires ? [", until ", date(known.caller.expires)] : "",
        ]],
      ].map(([term, value]) => el("div", null, el("dt", null, term), el("dd", null, value))),
    );
  }

  let running = null;

  /** Reads everything again, unless it is being read. */
  function refresh() {
    running ??= readAll().finally(() => {
      running = null;
    });
    return running;
  }

  async function readAll() {
    await Promise.all([
      part(charts, "Counting\u2026", () =>
        Promise.all([
          get(["statistics"], {}, { signal }),
          get(["statistics", "access"], {}, { signal }),
        ]), drawFigures),
      session.server.webhooks
        ? part(hooks, "Asking for the webhooks\u2026", () => get(["webhooks"], {}, { signal }), drawHooks)
        : replace(hooks, el("p", { class: "quiet" }, "This server sends no webhooks.")),
      part(server, "Asking the server\u2026", () => get(["server"], {}, { signal }), drawServer),
    ]);
  }

  let timer = 0;
  const clock = setInterval(refresh, 30_000);
  await refresh();
  return {
    refresh,
    event() {
      timer ||= setTimeout(() => {
        timer = 0;
        refresh();
      }, 1_000);
    },
    leave() {
      clearInterval(clock);
      clearTimeout(timer);
      attempt.abort();
    },
  };
}
