// The catalogue, and the check of a changed one against customers.

import { post } from "./api.js";
import { accessWords } from "./customer.js";
import { el, name, number, plural, problem, replace, sentence, table, visible } from "./dom.js";
import { customerLink } from "./search.js";

export const title = "Catalogue";

const kindWords = (product) =>
  ({
    consumable: `${product.units ?? 1} units`,
    nonConsumable: "for good",
    nonRenewing: `${product.duration} in ${product.group}`,
    autoRenewable: `${product.duration} in ${product.group}, level ${product.level ?? 1}, renews`,
  })[product.type] ?? product.type;

const effects = {
  keep: "keep all access",
  lose: "lose access",
  gain: "gain access",
  shorter: "have shorter access",
  longer: "have longer access",
};

export async function show(place, _, session) {
  const { catalog } = session;
  if (catalog === null) {
    return replace(
      place,
      el("h1", { tabindex: "-1" }, "Catalogue"),
      el("p", null, "This server has no catalogue. Start it with --catalog."),
    );
  }
  const groups = [...new Set(catalog.products.map((each) => each.group).filter(Boolean))];
  const sold = new Map(groups.map((group) => [group, catalog.products.filter((each) => each.group === group)]));
  const text = el("textarea", {
    id: "changed",
    rows: "12",
    spellcheck: "false",
    dir: "ltr",
    "aria-describedby": "changed-hint",
  });
  const file = el("input", { type: "file", id: "file", accept: ".json,.storekit,application/json" });
  const button = el("button", { type: "submit", class: "main" }, "Check against customers");
  const stop = el("button", { type: "button", hidden: true }, "Stop");
  const result = el("div", { "aria-live": "polite" });
  const form = el(
    "form",
    { class: "stack" },
    el("label", { for: "changed" }, "Changed catalogue"),
    el(
      "p",
      { id: "changed-hint", class: "quiet" },
      "Paste it, open a file, or edit the current one. Nothing is put in place: the check replays what customers have.",
    ),
    text,
    el(
      "div",
      { class: "acts" },
      button,
      stop,
      el("button", {
        type: "button",
        onclick: () => {
          text.value = JSON.stringify(catalog, null, 2);
          text.focus();
        },
      }, "Edit the current one"),
      el("label", { class: "file", for: "file" }, "Open a file ", file),
    ),
  );
  file.addEventListener("change", async () => {
    text.value = await file.files[0]?.text() ?? text.value;
  });
  let attempt = null;
  stop.addEventListener("click", () => attempt?.abort());

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (attempt) return;
    if (text.value.trim() === "") {
      replace(result, problem(new Error("paste a catalogue, or open a file")));
      return text.focus();
    }
    attempt = new AbortController();
    [stop.hidden, button.disabled] = [false, true];
    try {
      await check(attempt.signal);
    } catch (error) {
      if (error.name === "AbortError") {
        result.prepend(
          el("p", { class: "notice warn" }, "Stopped. The numbers are of the customers that were checked."),
        );
      } else {
        replace(result, problem(error));
        result.scrollIntoView({ block: "nearest" });
        mark(error.message);
      }
    } finally {
      [attempt, stop.hidden, button.disabled] = [null, true, false];
    }
  });

  /** Selects the place of a syntax error. */
  function mark(message) {
    const [, line, column] = /line (\d+), column (\d+)/.exec(message) ?? [];
    if (!line) return;
    const before = text.value.split("\n").slice(0, Number(line) - 1).join("\n").length + (line > 1 ? 1 : 0);
    text.focus();
    text.setSelectionRange(before + Number(column) - 1, before + Number(column));
  }

  /** Checks all pages of customers, and shows the counts so far. */
  async function check(signal) {
    // All pages are of one catalogue and one instant.
    const changed = text.value;
    let sum = null;
    try {
      for (let after;;) {
        const page = await post(["catalog", "check"], { after, at: sum?.at }, changed, { raw: true, signal });
        sum = sum === null ? page : add(sum, page);
        replace(result, outcome(sum, page.next !== null));
        if (page.next === null) return;
        after = page.next;
      }
    } catch (error) {
      if (sum === null || error.name === "AbortError") throw error;
      result.prepend(problem(error), el("p", { class: "notice warn" }, "The numbers are of the customers before it."));
    }
  }

  replace(
    place,
    el("h1", { tabindex: "-1" }, "Catalogue"),
    el("section", { "aria-labelledby": "check" }, el("h2", { id: "check" }, "Check a change"), form, result),
    el(
      "section",
      { "aria-labelledby": "entitlements" },
      el("h2", { id: "entitlements" }, `Entitlements (${number(catalog.entitlements?.length ?? 0)})`),
      table(
        "Entitlements",
        ["Entitlement", "Granted by"],
        (catalog.entitlements ?? []).map((
          each,
        ) => [name(each.id), el("bdi", null, visible(each.grantedBy.join(" or ")))]),
      ),
    ),
    groups.length === 0 ? null : el(
      "section",
      { "aria-labelledby": "groups" },
      el("h2", { id: "groups" }, `Groups (${number(groups.length)})`),
      table(
        "Groups",
        ["Group", "Products"],
        groups.map((each) => [
          name(each),
          el(
            "bdi",
            null,
            sold.get(each).map((product) => visible(session.productName(product.id))).join(", "),
          ),
        ]),
      ),
    ),
    el(
      "section",
      { "aria-labelledby": "products" },
      el("h2", { id: "products" }, `Products (${number(catalog.products.length)})`),
      table(
        "Products",
        ["Product", "Id", "Gives", "For sale"],
        catalog.products.map((each) => [
          name(session.productName(each.id)),
          el("code", null, el("bdi", null, visible(each.id))),
          el("bdi", null, visible(kindWords(each))),
          each.forSale === false ? "no" : "yes",
        ]),
      ),
    ),
  );
  return {
    leave() {
      attempt?.abort();
    },
  };
}

/** The sums of two pages. */
function add(one, other) {
  const sum = { ...other, customers: { ...one.customers }, examples: [...one.examples, ...other.examples] };
  for (const [key, count] of Object.entries(other.customers)) sum.customers[key] += count;
  const rows = new Map(one.entitlements.map((each) => [each.entitlement, { ...each }]));
  for (const each of other.entitlements) {
    const known = rows.get(each.entitlement);
    if (!known) rows.set(each.entitlement, each);
    else for (const effect of Object.keys(effects)) known[effect] += each[effect];
  }
  sum.entitlements = [...rows.values()];
  const weight = ({ changes }) =>
    changes.some((each) => each.effect === "lose") ? 0 : changes.some((each) => each.effect === "shorter") ? 1 : 2;
  sum.examples.sort((left, right) => weight(left) - weight(right)).splice(20);
  return sum;
}

function outcome(sum, isRunning) {
  const { customers } = sum;
  const parts = Object.entries(effects).filter(([effect]) =>
    effect === "keep" || effect === "lose" || customers[effect] > 0
  )
    .map(([effect, words]) => `${number(customers[effect])} ${words}`);
  if (customers.without > 0) parts.push(`${number(customers.without)} have no access before and after`);
  const changes = [["products", "product"], ["groups", "group"], ["entitlementNames", "entitlement"]].flatMap((
    [key, word],
  ) =>
    Object.entries(sum[key]).filter(([, names]) => names.length > 0).map(([what, names]) =>
      el(
        "li",
        null,
        `${plural(names.length, word)} ${what}: `,
        names.slice(0, 10).map((each, index) => [index ? ", " : "", name(each)]),
        names.length > 10 ? "\u2026" : "",
      )
    )
  );
  return [
    el("p", { class: `summary ${customers.lose > 0 ? "bad" : ""}`, id: "outcome" }, `${parts.join(", ")}.`),
    el(
      "p",
      { class: "quiet" },
      isRunning
        ? `${plural(customers.checked, "customer")} checked so far\u2026`
        : `All ${plural(customers.checked, "customer")} checked.`,
      customers.damaged > 0 ? ` ${plural(customers.damaged, "customer")} could not be read.` : "",
    ),
    changes.length === 0
      ? el("p", null, "Products, groups and entitlements are the same.")
      : el("ul", { class: "list" }, changes),
    sum.entitlements.length === 0 ? null : table(
      "By entitlement",
      ["Entitlement", "Keep", "Lose", "Gain", "Shorter", "Longer"],
      sum.entitlements.map((each) => [
        name(each.entitlement),
        ...Object.keys(effects).map((effect) =>
          el("span", { class: effect === "lose" && each.lose > 0 ? "bad" : "" }, number(each[effect]))
        ),
      ]),
    ),
    sum.examples.length === 0 ? null : el("h3", null, "Some of the customers"),
    sum.examples.length === 0 ? null : el(
      "ul",
      { class: "list" },
      sum.examples.map(({ account, changes: each }) =>
        el(
          "li",
          null,
          el("a", { href: customerLink(account) }, name(account)),
          ": ",
          each.slice(0, 3).map((
            change,
            index,
          ) => [
            index ? "; " : "",
            name(change.entitlement),
            ` ${accessWords(change.before)} \u2192 ${accessWords(change.after)}`,
          ]),
          each.length > 3 ? "\u2026" : "",
        )
      ),
    ),
  ];
}
