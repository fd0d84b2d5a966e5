// The page of one customer.

import { get, path, Problem } from "./api.js";
import { act, mayGrant } from "./acts.js";
import {
  date,
  dayText,
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
  withDates,
} from "./dom.js";
import { drawTimeline, factsOf, lanesOf } from "./timeline.js";

export const title = "Customer";

/** The number of purchases that the timeline shows with their origin. */
const purchasesOfTimeline = 1000;

const reasons = {
  notPurchased: "never purchased",
  usedUp: "all units are used up",
  signInNeeded: "needs to sign in",
  restoreNeeded: "purchases must be restored first",
  pendingApproval: "waits for approval",
  expired: "expired",
  revoked: "refunded",
  unverified: "the store has not confirmed the purchase",
  ownedByAnotherAccount: "the purchase belongs to another account",
  refusedByServer: "the server refused the purchase",
};

/** Access in words, such as "until 28 Dec 2026". */
export function accessWords(access) {
  if (!access) return "not in the catalogue";
  if (access.granted) {
    if (access.units !== undefined) return `${plural(access.units, "unit")} left`;
    return access.until === null ? "for good" : `until ${dayText(access.until)}`;
  }
  const words = reasons[access.reason] ?? access.reason;
  return access.date
    ? `${words} on ${dayText(access.date)}`
    : words + (access.detail ? `: ${visible(access.detail)}` : "");
}

const sourceWords = (text, session) => {
  const [kind, ...rest] = text.split(":");
  const id = rest.join(":");
  return {
    product: `the product ${session.productName(id)}`,
    group: `time in ${id}`,
    units: `units of ${session.productName(id)}`,
  }[kind] ?? text;
};

/** The current access and its reasons, in one sentence. */
function summary(access, session) {
  const all = Object.entries(access);
  const granted = all.filter(([, each]) => each.granted);
  const lost = all.filter(([, each]) => !each.granted && each.reason !== "notPurchased");
  const list = (items) =>
    items.flatMap((item, index) => [index === 0 ? null : index === items.length - 1 ? " and " : ", ", item]);
  const parts = [];
  if (granted.length > 0) {
    const shown = granted.slice(0, 4).map((
      [id, each],
    ) => [el("strong", null, name(id)), ` ${accessWords(each)} (${visible(sourceWords(each.because, session))})`]);
    if (granted.length > 4) shown.push(`${granted.length - 4} more`);
    parts.push("Has ", list(shown), ".");
  }
  if (lost.length > 0) {
    const shown = lost.slice(0, 3).map(([id, each]) => [el("strong", null, name(id)), ` (${accessWords(each)})`]);
    if (lost.length > 3) shown.push(`${lost.length - 3} more`);
    parts.push(granted.length > 0 ? " No access to " : "Has no access to ", list(shown), ".");
  }
  if (all.length === 0) return ["The catalogue has no entitlements."];
  return parts.length > 0 ? parts : ["Has no access to anything: nothing was ever purchased."];
}

export async function show(place, [account], session) {
  const heading = el("h1", { tabindex: "-1" }, name(account));
  const section = (id, words, ...more) => {
    const body = el("div", { class: "body" });
    return {
      body,
      node: el(
        "section",
        { "aria-labelledby": id },
        el("div", { class: "row" }, el("h2", { id }, words), ...more),
        body,
      ),
    };
  };
  const head = el("div");
  const sections = {
    timeline: section("timeline", "Timeline"),
    access: section("access", "Access"),
    purchases: section("purchases", "Purchases"),
    sessions: section("sessions", "Sessions"),
    conflicts: section("conflicts", "Conflicts"),
    history: section("history", "History"),
  };
  const state = {
    environment: "production",
    customer: null,
    purchases: null,
    shown: 25,
    history: [],
    timeline: null,
    explained: new Map(),
  };
  const environments = el(
    "label",
    { class: "pick" },
    "Environment ",
    el("select", {
      onchange: (event) => {
        [state.environment, state.timeline, state.shown] = [event.target.value, null, 25];
        refresh();
      },
    }, ["production", "sandbox", "xcode"].map((each) => el("option", { value: each }, each))),
  );
  const attempt = new AbortController();
  const { signal } = attempt;
  replace(
    place,
    el("div", { class: "row title" }, heading, environments),
    head,
    ...Object.values(sections).map((each) => each.node),
  );
  for (const each of Object.values(sections)) each.node.hidden = true;

  /** Reads a part of the customer. */
  const read = (part, query) =>
    get(["customers", account, ...part], { environment: state.environment, ...query }, { signal });

  /** Begins an act, and shows its outcome. */
  const begin = (kind, given = {}) =>
    act(kind, {
      account,
      session,
      environment: state.environment,
      access: state.customer?.entitlements.access,
      purchases: state.purchases?.purchases ?? [],
      ...given,
    }, refresh);

  let running = null;
  let again = false;

  /** Reads everything again. Calls during a reading cause one more. */
  function refresh() {
    again = running !== null;
    running ??= readAll().finally(() => {
      running = null;
      if (again && !signal.aborted) refresh();
    });
    return running;
  }

  async function readAll() {
    try {
      await waiting(
        head,
        "Loading the customer\u2026",
        (async () => {
          const [customer, purchases] = await Promise.all([
            read([]),
            read(["purchases"], { limit: purchasesOfTimeline }),
          ]);
          Object.assign(state, { customer, purchases });
          state.explained.clear();
        })(),
      );
      showHead();
      showAccess();
      showPurchases();
      showSessions();
      for (const each of Object.values(sections)) each.node.hidden = false;
      await Promise.all([showTimeline(), showConflicts(), showHistory()]);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (error.status === 404 || error.status === 410) {
        for (const each of Object.values(sections)) each.node.hidden = true;
        environments.hidden = true;
        return replace(
          head,
          el(
            "p",
            { class: "summary" },
            error.status === 410
              ? "This account was erased. Its purchases and sessions are gone; the audit list keeps the name."
              : session.catalog === null
              ? "This server has no catalogue, from which access follows. Start it with --catalog."
              : "There is no account with this name, alias or external id.",
          ),
          el("p", null, el("a", { href: "#/" }, "Find another customer")),
        );
      }
      // The content that is shown stays, with the reason above it.
      replace(head, problem(error, refresh));
    }
  }

  function showHead() {
    const { customer } = state;
    const facts = [
      customer.account === account ? null : ["Name ", name(customer.account)],
      customer.externalId === null ? null : ["External id ", name(customer.externalId)],
      customer.aliases.length === 0
        ? null
        : ["Also ", customer.aliases.slice(0, 5).map((each, index) => [index ? ", " : "", name(each)])],
      ["Created ", date(customer.created)],
      customer.issuer === null ? null : ["Signs in through ", name(customer.issuer)],
    ].filter(Boolean);
    const button = (words, kind, attributes) =>
      el("button", { type: "button", "data-key": kind, onclick: () => begin(kind), ...attributes }, words);
    replace(
      head,
      el("p", { class: "quiet facts-line" }, facts.map((fact, index) => [index ? " \u00b7 " : "", fact])),
      el("p", { class: "summary", id: "summary" }, summary(customer.entitlements.access, session)),
      session.mayAct
        ? el(
          "div",
          { class: "acts", role: "group", "aria-label": "Actions" },
          mayGrant(session) ? button("Grant access", "grant", { class: "main" }) : null,
          state.purchases.count > 0 ? button("Refund a purchase", "refund") : null,
          state.purchases.count > 0 ? button("Transfer a purchase", "transfer") : null,
          customer.sessions.length > 0 ? button("End all sessions", "sessions") : null,
          customer.issuer === null ? button("Recovery code", "recovery") : null,
          button("Erase\u2026", "erasure", { class: "danger" }),
        )
        : el("p", { class: "quiet" }, "Your token may only read, so no actions are shown."),
    );
  }

  function showAccess() {
    const { access } = state.customer.entitlements;
    const rows = Object.entries(access).sort(([, one], [, other]) => Number(other.granted) - Number(one.granted));
    replace(
      sections.access.body,
      rows.length === 0
        ? el("p", { class: "quiet" }, "The catalogue of this server has no entitlements.")
        : el("ul", { class: "list" }, rows.map(([id, each]) => el("li", null, explanation(id, each)))),
    );
  }

  /** An entitlement, whose facts are read when it is opened. */
  function explanation(id, access) {
    const body = el("div", { class: "why" });
    const details = el(
      "details",
      { "data-key": `why-${id}` },
      el(
        "summary",
        { "data-key": `summary-${id}` },
        el("span", { class: `state ${access.granted ? "good" : "off"}` }, access.granted ? "Yes" : "No"),
        el("span", { class: "what" }, name(id)),
        el(
          "span",
          { class: "quiet" },
          accessWords(access),
          access.granted && access.until ? ` (${relative(access.until)})` : "",
        ),
        el("span", { class: "more" }, "Why?"),
      ),
      body,
    );
    details.addEventListener("toggle", async () => {
      if (!details.open || body.childElementCount > 0) return;
      try {
        if (!state.explained.has(id)) {
          state.explained.set(id, await waiting(body, "Loading the reasons\u2026", read(["explain", id])));
        }
        replace(body, why(state.explained.get(id)));
      } catch (error) {
        if (error.name !== "AbortError") replace(body, problem(error));
      }
    });
    return details;
  }

  function why({ sources }) {
    return sources.map((source) => {
      const counting = source.facts.filter((fact) => fact.counts).length;
      const shown = source.facts.slice(0, 200);
      return el(
        "div",
        null,
        el("h3", null, `By ${visible(sourceWords(source.source, session))}`),
        source.facts.length === 0 ? el("p", null, "Nothing was purchased here.") : el(
          "p",
          null,
          `${plural(source.facts.length, "fact")}, of which ${number(counting)} ${
            counting === 1 ? "counts" : "count"
          }.`,
        ),
        el(
          "ol",
          { class: "reasons" },
          shown.map((fact) =>
            el(
              "li",
              { class: fact.counts ? "" : "quiet" },
              el("span", { class: `state ${fact.counts ? "good" : "off"}` }, fact.counts ? "counts" : "no"),
              " ",
              `${fact.kind}: `,
              el("bdi", null, withDates(fact.fact)),
              el("br"),
              el("span", { class: "effect" }, withDates(fact.effect)),
            )
          ),
        ),
        source.facts.length > shown.length ? el("p", { class: "quiet" }, `The first ${shown.length} are shown.`) : null,
      );
    });
  }

  async function showTimeline() {
    const { groups } = await waiting(sections.timeline.body, "Drawing the timeline\u2026", read(["timeline"]));
    const lanes = lanesOf(groups, state.purchases.purchases, session, Date.now());
    if (lanes.length === 0) {
      state.timeline = null;
      return replace(sections.timeline.body, el("p", { class: "quiet" }, "No purchases yet."));
    }
    if (state.timeline) return state.timeline(lanes);
    state.timeline = drawTimeline(sections.timeline.body, lanes, session, (mark) => [
      factsOf(mark, session),
      mark.purchase && session.mayAct ? el("div", { class: "acts" }, purchaseActs(mark.purchase)) : null,
    ]);
  }

  const purchaseActs = (purchase, key = "mark") => {
    const given = { purchase };
    const id = `${purchase.store}/${purchase.transaction}`;
    const label = (words) =>
      `${words} ${visible(session.productName(purchase.product))}, ${visible(purchase.transaction)}`;
    return [
      purchase.revoked
        ? el("button", {
          type: "button",
          "data-key": `${key}-again-${id}`,
          "aria-label": label("Reinstate"),
          onclick: () => begin("reinstatement", given),
        }, "Reinstate")
        : el("button", {
          type: "button",
          "data-key": `${key}-refund-${id}`,
          "aria-label": label("Refund"),
          onclick: () => begin("refund", given),
        }, "Refund"),
      el("button", {
        type: "button",
        "data-key": `${key}-transfer-${id}`,
        "aria-label": label("Transfer"),
        onclick: () => begin("transfer", given),
      }, "Transfer"),
    ];
  };

  function showPurchases() {
    const { count, purchases } = state.purchases;
    const shown = purchases.slice(0, state.shown);
    sections.purchases.node.querySelector("h2").textContent = count === 0
      ? "Purchases"
      : `Purchases (${number(count)})`;
    if (count === 0) {
      return replace(sections.purchases.body, el("p", { class: "quiet" }, "No purchases in this environment."));
    }
    const rows = shown.map((each) => [
      el(
        "span",
        null,
        name(session.productName(each.product)),
        each.quantity === 1 ? "" : ` \u00d7 ${number(each.quantity)}`,
      ),
      date(each.purchased),
      each.expires ? date(each.expires) : "\u2013",
      el(
        "span",
        null,
        el("span", { class: `tag ${each.origin}` }, each.origin),
        " ",
        each.revoked ? el("span", { class: "tag bad" }, `refunded ${dayText(each.revoked)}`) : null,
        each.introductory ? el("span", { class: "tag" }, "introductory") : null,
        each.setAside ? el("span", { class: "tag off" }, withDates(each.setAside)) : null,
      ),
      el(
        "span",
        { class: "id" },
        el("code", null, el("bdi", null, visible(each.transaction))),
        " ",
        el("span", { class: "quiet" }, visible(each.store)),
      ),
      ...(session.mayAct ? [el("span", { class: "acts" }, purchaseActs(each, "row"))] : []),
    ]);
    const more = shown.length < count;
    replace(
      sections.purchases.body,
      table("Purchases, the latest first", [
        "Product",
        "Purchased",
        "Pays until",
        "Origin",
        "Transaction",
        ...(session.mayAct ? ["Actions"] : []),
      ], rows),
      more
        ? el("button", { type: "button", "data-key": "more-purchases", onclick: morePurchases }, "Show more purchases")
        : null,
    );
  }

  async function morePurchases() {
    const known = state.purchases;
    try {
      if (state.shown >= known.purchases.length) {
        const page = await read(["purchases"], { limit: purchasesOfTimeline, after: known.next });
        known.purchases.push(...page.purchases);
        known.next = page.next;
      }
    } catch (error) {
      if (error.name !== "AbortError") toast(sentence(visible(error.message)));
      return;
    }
    // The purchases were read again meanwhile.
    if (known !== state.purchases) return;
    state.shown += 100;
    showPurchases();
  }

  function showSessions() {
    const { sessions } = state.customer;
    replace(
      sections.sessions.body,
      sessions.length === 0 ? el("p", { class: "quiet" }, "No device is signed in.") : table(
        "Sessions",
        ["Device", "Signed in", "Last seen", "Ends", ...(session.mayAct ? ["Actions"] : [])],
        sessions.map((each) => [
          el("code", null, each.id.slice(0, 8)),
          date(each.created, timeText),
          el("span", null, date(each.refreshed, timeText), ` (${relative(each.refreshed)})`),
          date(each.expires),
          ...(session.mayAct
            ? [
              el("button", {
                type: "button",
                "data-key": `end-${each.id}`,
                "aria-label": `End the session ${each.id.slice(0, 8)}`,
                onclick: () => begin("sessions", { sessionID: each.id }),
              }, "End"),
            ]
            : []),
        ]),
      ),
    );
  }

  async function showConflicts() {
    const { conflicts } = await read(["conflicts"]);
    replace(
      sections.conflicts.body,
      conflicts.length === 0 ? el("p", { class: "quiet" }, "None: no facts contradict each other.") : el(
        "ul",
        { class: "list" },
        conflicts.slice(0, 50).map((each) =>
          el("li", null, el("span", { class: "tag" }, each.kind), " ", el("bdi", null, withDates(each.conflict)))
        ),
        conflicts.length > 50 ? el("li", { class: "quiet" }, `and ${number(conflicts.length - 50)} more`) : null,
      ),
    );
  }

  async function showHistory(after = null) {
    try {
      const page = await get(["customers", account, "history"], { limit: 25, after }, { signal });
      state.history = after ? [...state.history, ...page.history] : page.history;
      replace(
        sections.history.body,
        state.history.length === 0
          ? el("p", { class: "quiet" }, "Nothing yet.")
          : el("ol", { class: "list history" }, state.history.map(entry)),
        page.next
          ? el("button", {
            type: "button",
            "data-key": "more-history",
            onclick: () => showHistory(page.next),
          }, "Show earlier")
          : null,
      );
    } catch (error) {
      if (error.name !== "AbortError") replace(sections.history.body, problem(error, () => showHistory()));
    }
  }

  function entry(each) {
    const time = date(each.at, timeText);
    if (each.event === undefined) {
      return el(
        "li",
        null,
        time,
        " ",
        el("span", { class: "tag support" }, `${each.act} by ${visible(each.actor ?? "?")}`),
        " ",
        el("bdi", { dir: "auto" }, visible(each.reason ?? each.detail)),
      );
    }
    const [fact] = each.body?.facts ?? [];
    const what = each.body?.entitlement ?? (fact ? session.productName(fact.product) : null);
    return el(
      "li",
      null,
      time,
      " ",
      each.event.replace(".", " "),
      what ? [" ", name(what)] : null,
      each.body?.environment && each.body.environment !== "production" ? ` (${visible(each.body.environment)})` : "",
    );
  }

  let timer = 0;
  await refresh();
  if (signal.aborted) throw new Problem(0, path(["customers", account]));
  document.title = `${visible(account)} \u2013 Console`;
  return {
    refresh,
    event(event) {
      if (event.account !== (state.customer?.account ?? account)) return;
      clearTimeout(timer);
      timer = setTimeout(refresh, 100);
    },
    leave() {
      clearTimeout(timer);
      attempt.abort();
    },
  };
}
