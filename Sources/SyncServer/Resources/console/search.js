// The search for customers: a combobox with a list, after the pattern of ARIA.

import { get } from "./api.js";
import { el, name, plural, short, visible } from "./dom.js";

const words = { name: "name", alias: "alias", externalId: "external id", transaction: "transaction" };

export const customerLink = (account) => `#/customer/${encodeURIComponent(account)}`;

export function makeSearch(place) {
  const list = el("ul", { id: "found", role: "listbox", "aria-label": "Customers", hidden: true });
  const status = el("p", { class: "unseen", role: "status" });
  const input = el("input", {
    id: "query",
    type: "text",
    role: "combobox",
    autocomplete: "off",
    spellcheck: "false",
    maxlength: "255",
    dir: "auto",
    placeholder: "Name, external id or transaction",
    "aria-label": "Search customers",
    "aria-expanded": "false",
    "aria-controls": "found",
    "aria-autocomplete": "list",
  });
  const note = el("p", { class: "note", hidden: true });
  let [timer, attempt, active, found] = [0, null, -1, []];

  function close() {
    clearTimeout(timer);
    attempt?.abort();
    [active, list.hidden, note.hidden] = [-1, true, true];
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function activate(index) {
    active = index;
    [...list.children].forEach((each, place) => {
      each.setAttribute("aria-selected", String(place === active));
    });
    const option = list.children[active];
    if (option) input.setAttribute("aria-activedescendant", option.id);
    else input.removeAttribute("aria-activedescendant");
    option?.scrollIntoView({ block: "nearest" });
  }

  function open(customer) {
    input.value = "";
    close();
    location.hash = customerLink(customer.account);
  }

  function say(text) {
    [note.textContent, note.hidden, list.hidden] = [text, false, true];
    input.setAttribute("aria-expanded", "false");
    status.textContent = text;
  }

  function show({ customers, next }) {
    found = customers;
    if (found.length === 0) {
      return say("No customer found. A transaction must be whole; names and ids match from their beginning.");
    }
    note.hidden = true;
    list.replaceChildren(...found.map((customer, index) =>
      el(
        "li",
        {
          id: `found-${index}`,
          role: "option",
          "aria-selected": "false",
          onmousedown: (event) => event.preventDefault(),
          onclick: () => open(customer),
        },
        name(customer.account),
        el(
          "span",
          { class: "quiet" },
          [
            customer.matched === "name" ? null : `by ${words[customer.matched] ?? "another text"}`,
            customer.externalId === null ? null : `id ${short(customer.externalId, 30)}`,
            plural(customer.sessions, "session"),
          ].filter(Boolean).join(" \u00b7 "),
        ),
      )
    ));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    status.textContent = next === null
      ? `${plural(found.length, "customer")}. Use the arrow keys.`
      : `The first ${found.length} customers. Type more to narrow the search.`;
    activate(-1);
  }

  async function search() {
    attempt?.abort();
    const query = input.value;
    if (query.trim() === "") return close();
    attempt = new AbortController();
    const { signal } = attempt;
    const slow = setTimeout(() => say("Searching\u2026"), 180);
    try {
      show(await get(["customers"], { query, limit: 10 }, { signal }));
    } catch (error) {
      if (error.name !== "AbortError") say(`The search failed: ${visible(error.message)}.`);
    } finally {
      clearTimeout(slow);
    }
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 100);
  });
  input.addEventListener("focus", () => {
    if (input.value !== "" && list.hidden) search();
  });
  input.addEventListener("blur", () =>
    setTimeout(() => {
      if (document.activeElement !== input) close();
    }, 150));
  input.addEventListener("keydown", async (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && !list.hidden) {
      event.preventDefault();
      activate((active + step + found.length) % found.length);
    } else if (event.key === "Escape") {
      if (list.hidden && note.hidden) input.value = "";
      close();
    } else if (event.key === "Enter" && !event.isComposing && input.value.trim() !== "") {
      event.preventDefault();
      if (active >= 0) return open(found[active]);
      clearTimeout(timer);
      await search();
      if (found.length > 0 && !list.hidden) {
        if (found.length === 1) open(found[0]);
        else activate(0);
      }
    }
  });
  place.replaceChildren(input, list, note, status);
}
