// The acts of support: each is asked a reason, previewed by a dry run, and confirmed.

import { request } from "./api.js";
import { accessWords } from "./customer.js";
import { dayText, el, name, problem, replace, sentence, short, toast, visible, waiting } from "./dom.js";

const lengths = [["P1W", "a week"], ["P1M", "a month"], ["P3M", "three months"], ["P1Y", "a year"], [
  "until",
  "until a date",
]];

const entitlements = (session) => session.catalog?.entitlements ?? [];
export const mayGrant = (session) => entitlements(session).length > 0;

/** The end of a day where the operator is. */
function endOf(day) {
  const end = new Date(`${day}T00:00`);
  end.setDate(end.getDate() + 1);
  return end.toISOString();
}

/** True if a grant of the entitlement has an end: it is given by its first source of time. */
const takesTime = (entitlement) => entitlement.grantedBy.some((source) => source.startsWith("group:"));

const field = (label, control, hint) => {
  control.id ||= `act-${label.toLowerCase().replace(/\W+/g, "-")}`;
  return el(
    "p",
    { class: "field" },
    el("label", { for: control.id }, label),
    control,
    hint ? el("span", { class: "quiet" }, hint) : null,
  );
};

const purchaseOf = (given) => given.purchase ?? null;

/** The fields that name a purchase, unless one was chosen. */
function purchaseFields(given) {
  const purchase = purchaseOf(given);
  if (purchase) {
    return {
      nodes: [
        el(
          "p",
          { class: "chosen" },
          name(given.session.productName(purchase.product)),
          `, ${dayText(purchase.purchased)}, `,
          el("code", null, el("bdi", null, visible(purchase.transaction))),
          ` (${visible(purchase.store)})`,
        ),
      ],
      values: () => ({ store: purchase.store, transaction: purchase.transaction, environment: purchase.environment }),
    };
  }
  const choice = el(
    "select",
    { required: true },
    given.choices.map((each, index) =>
      el(
        "option",
        { value: index },
        `${short(given.session.productName(each.product), 30)}, ${dayText(each.purchased)}, ${
          short(each.transaction, 24)
        }${each.revoked ? " (refunded)" : ""}`,
      )
    ),
  );
  return {
    nodes: [field("Purchase", choice)],
    values: () => {
      const each = given.choices[choice.value];
      return { store: each.store, transaction: each.transaction, environment: each.environment };
    },
  };
}

const acts = {
  grant: {
    title: "Grant access",
    verb: "Grant",
    form(given) {
      const known = entitlements(given.session);
      const denied = known.find((each) => takesTime(each) && given.access?.[each.id]?.granted === false);
      const choice = el("select", null, known.map((each) => el("option", { value: each.id }, visible(each.id))));
      choice.value = (denied ?? known.find(takesTime) ?? known[0]).id;
      const length = el("select", null, lengths.map(([value, words]) => el("option", { value }, words)));
      length.value = "P1M";
      const until = el("input", { type: "date" });
      const [lengthField, untilField] = [field("How long", length), field("Until the end of", until)];
      const forGood = el("p", { class: "quiet" }, "This gives a product that does not end.");
      const arrange = () => {
        const hasTime = takesTime(known.find((each) => each.id === choice.value));
        [lengthField.hidden, forGood.hidden] = [!hasTime, hasTime];
        untilField.hidden = !hasTime || length.value !== "until";
      };
      choice.addEventListener("change", arrange);
      length.addEventListener("change", arrange);
      arrange();
      return {
        nodes: [field("What", choice), lengthField, untilField, forGood],
        values: () => ({
          entitlement: choice.value,
          environment: given.environment,
          ...(lengthField.hidden ? {} : length.value === "until" ? { until: endOf(until.value) } : { for: length.value }),
        }),
        objection: () =>
          !untilField.hidden && !until.value ? [until, "Choose the date until which access is given."] : null,
      };
    },
    request: (values) => ["POST", "grants", {}, values],
  },
  refund: {
    title: "Refund a purchase",
    verb: "Refund",
    form: purchaseFields,
    request: (values) => ["POST", "refunds", {}, values],
  },
  reinstatement: {
    title: "Reinstate a refunded purchase",
    verb: "Reinstate",
    form: purchaseFields,
    request: (values) => ["POST", "refunds", {}, { ...values, reinstate: true }],
  },
  transfer: {
    title: "Transfer a purchase",
    verb: "Transfer",
    form(given) {
      const purchase = purchaseFields(given);
      const to = el("input", { type: "text", autocomplete: "off", spellcheck: "false", dir: "auto", maxlength: "255" });
      return {
        nodes: [
          ...purchase.nodes,
          field("To the account", to, "Its exact name, an alias or the external id. All renewals move, too."),
        ],
        values: () => ({ ...purchase.values(), to: to.value }),
        objection: () => to.value === "" ? [to, "Name the account that gets the purchase."] : null,
      };
    },
    request: (values) => ["POST", "transfers", {}, values],
  },
  sessions: {
    title: "End sessions",
    verb: "End",
    form: (given) => ({
      nodes: [
        el(
          "p",
          null,
          given.sessionID
            ? ["The device of session ", el("code", null, given.sessionID.slice(0, 8)), " must sign in again."]
            : "All devices must sign in again.",
        ),
      ],
      values: () => ({}),
    }),
    request: (values, given) => ["DELETE", "sessions", given.sessionID ? { session: given.sessionID } : {}, values],
  },
  recovery: {
    title: "Recovery code",
    verb: "Create the code",
    form: () => ({
      nodes: [
        el("p", null, "With the code the customer chooses a new password once. Check the person's identity first."),
      ],
      values: () => ({}),
    }),
    request: (values) => ["POST", "recovery", {}, values],
  },
  erasure: {
    title: "Erase the account",
    verb: "Erase for good",
    isDangerous: true,
    form() {
      const sure = el("input", { type: "checkbox", id: "act-sure" });
      return {
        nodes: [
          el(
            "p",
            null,
            "Purchases, sessions and stored values are erased. It cannot be undone. The audit list keeps the name.",
          ),
          el(
            "p",
            { class: "field check" },
            sure,
            el("label", { for: "act-sure" }, "The customer has asked for the erasure"),
          ),
        ],
        values: () => ({}),
        objection: () => sure.checked ? null : [sure, "Confirm that the customer has asked for it."],
      };
    },
    request: (values) => ["POST", "erasure", {}, values],
  },
};

/** The access of an account before and after an act. Only what changes is shown. */
function comparison({ account, before, after }) {
  const [old, next] = [before?.access ?? {}, after?.access ?? {}];
  const changed = [...new Set([...Object.keys(old), ...Object.keys(next)])]
    .filter((id) => JSON.stringify(old[id]) !== JSON.stringify(next[id]));
  const others = Object.keys(before ?? {}).filter((key) =>
    key !== "access" && JSON.stringify(before[key]) !== JSON.stringify(after?.[key])
  );
  const counts = { sessions: "Sessions", recoveryCodes: "Recovery codes" };
  const rows = [
    ...changed.map((
      id,
    ) => [name(id), old[id] ? accessWords(old[id]) : "nothing", next[id] ? accessWords(next[id]) : "nothing"]),
    ...others.map((key) => [counts[key] ?? key, String(before[key]), String(after?.[key] ?? "none")]),
  ];
  return [
    el("h3", null, name(account)),
    rows.length === 0 ? el("p", null, "Nothing changes for this account.") : el(
      "table",
      { class: "before-after" },
      el(
        "thead",
        null,
        el(
          "tr",
          null,
          ["", "Before", "After"].map((each) => each === "" ? el("td") : el("th", { scope: "col" }, each)),
        ),
      ),
      el(
        "tbody",
        null,
        rows.map(([what, one, other]) =>
          el("tr", null, el("th", { scope: "row" }, what), el("td", null, one), el("td", null, other))
        ),
      ),
    ),
  ];
}

/** Opens the dialog of an act. `refresh` is called when it is done. */
export function act(kind, given, refresh) {
  const plan = acts[kind];
  if ((kind === "refund" || kind === "transfer") && !given.purchase) {
    const choices = given.purchases.filter((each) => kind === "transfer" || !each.revoked);
    given = { ...given, choices };
    if (given.choices.length === 0) return toast("There is no purchase to refund.");
  }
  const form = plan.form(given);
  const reason = el("input", {
    type: "text",
    maxlength: "1000",
    autocomplete: "off",
    dir: "auto",
    placeholder: "ticket 4711: what happened",
  });
  const result = el("div", { class: "preview", "aria-live": "polite" });
  const error = el("div");
  const preview = el("button", { class: "main", type: "submit" }, "Preview");
  const confirm = el(
    "button",
    { class: plan.isDangerous ? "danger" : "main", type: "button", hidden: true },
    plan.verb,
  );
  const cancel = el("button", { type: "button", class: "plain" }, "Cancel");
  const body = el(
    "form",
    { novalidate: true },
    el("h2", { id: "act-title" }, plan.title),
    el("p", { class: "quiet" }, "Customer ", name(given.account)),
    ...form.nodes,
    field("Reason", reason, "For the audit list: one line."),
    error,
    result,
    el("div", { class: "acts end" }, cancel, preview, confirm),
  );
  const dialog = el("dialog", { "aria-labelledby": "act-title" }, body);
  // What was previewed, which is what a confirmation sends.
  let [key, asked, edits, isFinal] = [null, null, 0, false];

  /** A changed field makes the preview void. */
  function forget() {
    if (isFinal) return;
    edits += 1;
    [key, confirm.hidden, preview.hidden] = [null, true, false];
    result.replaceChildren();
    error.replaceChildren();
  }

  function object(input, words) {
    error.replaceChildren(el("p", { class: "bad", role: "alert" }, words));
    input.setAttribute("aria-invalid", "true");
    input.focus();
  }

  async function ask(isDryRun) {
    const [method, part, query, values] = asked;
    return request(
      method,
      ["customers", given.account, part],
      { ...query, "dry-run": isDryRun ? "true" : undefined },
      values,
      isDryRun ? {} : { "Idempotency-Key": key },
    );
  }

  async function busy(button, words, work) {
    if (body.getAttribute("aria-busy") === "true") return;
    body.setAttribute("aria-busy", "true");
    const label = button.textContent;
    const timer = setTimeout(() => {
      button.textContent = words;
    }, 150);
    error.replaceChildren();
    try {
      await work();
    } catch (refusal) {
      const isUnknown = refusal.status === 0 || refusal.status >= 500;
      if (!isUnknown || button === preview) {
        // A refused act was not done, and needs another preview.
        forget();
        error.replaceChildren(problem(refusal));
      } else {
        error.replaceChildren(
          el(
            "div",
            { class: "notice warn", role: "alert" },
            el("p", null, sentence(visible(refusal.message))),
            el(
              "p",
              null,
              `It is not known whether this has been done. Press \u201c${plan.verb}\u201d again: it happens only once.`,
            ),
          ),
        );
      }
    } finally {
      clearTimeout(timer);
      button.textContent = label;
      body.removeAttribute("aria-busy");
    }
  }

  body.addEventListener("input", (event) => {
    event.target.removeAttribute("aria-invalid");
    forget();
  });
  body.addEventListener("submit", (event) => {
    event.preventDefault();
    if (isFinal || !confirm.hidden) return;
    if (reason.value.trim() === "") return object(reason, "Give a reason, such as the number of the ticket.");
    const objection = form.objection?.();
    if (objection) return object(...objection);
    busy(preview, "Trying it\u2026", async () => {
      asked = plan.request({ ...form.values(), reason: reason.value }, given);
      const former = edits;
      const outcome = await waiting(result, "Trying it on a copy of the store\u2026", ask(true));
      if (edits !== former) return result.replaceChildren();
      key = crypto.randomUUID();
      replace(
        result,
        el("h3", { class: "unseen" }, "Preview"),
        el("p", { class: "quiet" }, "Nothing is done yet. This would be the result:"),
        comparison(outcome),
        outcome.to ? comparison(outcome.to) : null,
        warnings(outcome),
      );
      [preview.hidden, confirm.hidden] = [true, false];
      confirm.focus();
    });
  });
  confirm.addEventListener("click", () =>
    busy(confirm, "Working\u2026", async () => {
      // What is sent cannot be changed any more, unless it is refused.
      isFinal = true;
      const outcome = await ask(false).catch((refusal) => {
        isFinal = refusal.status === 0 || refusal.status >= 500;
        throw refusal;
      });
      // A second Escape closes a dialog in spite of the listener.
      if (!dialog.open && outcome.recovery_code) {
        document.body.append(dialog);
        dialog.showModal();
      }
      refresh();
      if (outcome.recovery_code) {
        replace(
          result,
          el("p", null, "Read the code to the customer. It works once, and is not shown again:"),
          el("p", { class: "code" }, el("code", null, outcome.recovery_code)),
          warnings(outcome),
        );
        [confirm.hidden, cancel.textContent] = [true, "Close"];
        cancel.focus();
      } else {
        dialog.close();
      }
      toast(`${plan.title}: done, entry ${outcome.entry} of the audit list.`);
    }));
  cancel.addEventListener("click", () => {
    if (body.getAttribute("aria-busy") !== "true") dialog.close();
  });
  dialog.addEventListener("cancel", (event) => {
    if (body.getAttribute("aria-busy") === "true") event.preventDefault();
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  (body.querySelector("select, input:not([type=checkbox])") ?? reason).focus();
}

const warnings = (outcome) =>
  outcome.warnings.length === 0
    ? null
    : el("ul", { class: "notice warn" }, outcome.warnings.map((each) => el("li", null, visible(each))));
