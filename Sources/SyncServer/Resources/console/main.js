// The frame of the console: the session, the pages, and the live connection.

import { follow, get, signIn, signOut, whenSignedOut } from "./api.js";
import { el, name, problem, replace, sentence, visible, waiting } from "./dom.js";
import { makeSearch } from "./search.js";

const main = document.querySelector("#main");
const bar = document.querySelector("#bar");
const connection = document.querySelector("#connection");

/** The knowledge that all pages share: the server, the caller, and the catalogue. */
export const session = {
  server: null,
  catalog: null,
  /** True if the token may act for customers. */
  get mayAct() {
    return this.server !== null && this.server.caller.scope !== "read";
  },
  /** The name of a product for people. */
  productName(id) {
    const product = this.catalog?.products.find((each) => each.id === id);
    if (!product && id === "support") return "Given by support";
    return product?.names?.[navigator.language] ?? product?.names?.[navigator.language.slice(0, 2)] ??
      product?.names?.en ?? id;
  },
};

let page = null;
let stream = null;

/** The pages by the first part of the address after the mark. Other pages are loaded when they are visited. */
const pages = {
  "": async () => ({ title: "Customers", show: start }),
  customer: () => import("./customer.js"),
  overview: () => import("./overview.js"),
  catalog: () => import("./catalog.js"),
};

const parts = () =>
  location.hash.replace(/^#\/?/, "").split("/").map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });

/** Shows the page of the address. */
async function route() {
  if (session.server === null) return;
  page?.leave?.();
  const [kind, ...rest] = parts();
  const current = { leave: null, event: null, refresh: null };
  page = current;
  for (const link of bar.querySelectorAll("nav a")) {
    const own = link.getAttribute("href").replace(/^#\//, "");
    if (own === (kind === "customer" ? "" : kind)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const place = el("div", { class: "page" });
  main.replaceChildren(place);
  scrollTo(0, 0);
  try {
    const module = await waiting(place, "Loading the page\u2026", (pages[kind] ?? missing)());
    if (page !== current) return;
    document.title = `${module.title} \u2013 Console`;
    Object.assign(current, await module.show(place, rest, session) ?? {});
    if (page !== current) current.leave?.();
    else main.querySelector("h1")?.focus({ preventScroll: true });
  } catch (error) {
    if (page !== current || error.name === "AbortError") return;
    replace(place, el("h1", { tabindex: "-1" }, "This page cannot be shown"), problem(error, route));
  }
}

const missing = async () => ({
  title: "Not found",
  show: (place) =>
    replace(
      place,
      el("h1", { tabindex: "-1" }, "There is no such page"),
      el("p", null, el("a", { href: "#/" }, "To the customers")),
    ),
});

function start(place) {
  replace(
    place,
    el("h1", { tabindex: "-1" }, "Find a customer"),
    el("p", { class: "lead" }, "Type the beginning of a name, an alias or an external id, or a whole transaction."),
    el(
      "ul",
      { class: "hints" },
      el("li", null, el("kbd", null, "/"), " goes to the search from anywhere."),
      el("li", null, el("kbd", null, "\u2193"), " and ", el("kbd", null, "Enter"), " open a result."),
      session.mayAct
        ? null
        : el("li", null, "Your token may read. To act for customers, sign in with a token of the scope support."),
    ),
  );
  document.querySelector("#search input")?.focus();
}

/** Shows the sign-in, with the reason for which the session has ended. */
function showSignIn(reason = "") {
  stream?.abort();
  page?.leave?.();
  [page, session.server, session.catalog] = [null, null, null];
  bar.hidden = true;
  connection.replaceChildren();
  document.querySelector("dialog")?.close();
  document.title = "Sign in \u2013 Console";
  const error = el("p", { class: "bad", role: "alert" }, reason);
  const field = el("input", {
    id: "token",
    type: "password",
    autocomplete: "off",
    spellcheck: "false",
    required: true,
    "aria-describedby": "token-hint",
  });
  const button = el("button", { class: "main" }, "Sign in");
  const form = el(
    "form",
    { class: "sign-in", novalidate: true },
    el("h1", { tabindex: "-1" }, "Console"),
    el("label", { for: "token" }, "Operator token"),
    field,
    el(
      "p",
      { id: "token-hint", class: "quiet" },
      "It begins with est_. An administrator makes one with ",
      el("code", null, "syncd token create"),
      ". The browser keeps it for 12 hours, out of reach of scripts.",
    ),
    isSecureContext ? null : el(
      "p",
      { class: "notice bad" },
      "This connection is not encrypted, so the browser will not keep the token. Open the console over https.",
    ),
    error,
    button,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (form.getAttribute("aria-busy") === "true") return;
    if (field.value.trim() === "") {
      error.textContent = "Paste a token.";
      field.focus();
      return;
    }
    form.setAttribute("aria-busy", "true");
    error.textContent = "Signing in\u2026";
    try {
      await signIn(field.value);
      await begin().catch((refusal) => {
        if (refusal.status !== 401) throw refusal;
        throw new Error("The token is right, but the browser did not keep it. Allow cookies, and open the page over https");
      });
    } catch (refusal) {
      error.textContent = refusal.status === 401 && !/was revoked|expired at/.test(refusal.message)
        ? "The server does not know this token. Paste the whole text, from est_ on."
        : sentence(visible(refusal.message));
      field.focus();
      field.select();
    } finally {
      form.removeAttribute("aria-busy");
    }
  });
  main.replaceChildren(form);
  field.focus();
}

/** Begins with the session that the browser keeps. */
async function begin() {
  const [server, catalog] = await Promise.all([
    get(["server"]),
    get(["catalog"]).catch((error) => {
      if (error.status === 404) return null;
      throw error;
    }),
  ]);
  [session.server, session.catalog] = [server, catalog];
  const { caller } = server;
  document.querySelector("#who").replaceChildren(
    el("span", { class: "quiet" }, name(caller.name), ` (${caller.scope})`),
    el("button", { type: "button", class: "plain", onclick: leave }, "Sign out"),
  );
  bar.hidden = false;
  makeSearch(document.querySelector("#search"));
  watch();
  await route();
}

async function leave() {
  await signOut().catch(() => {});
  showSignIn();
}

/** Follows the events of all customers, for the page that is shown. */
function watch() {
  stream?.abort();
  stream = new AbortController();
  let isLost = false;
  follow((event) => page?.event?.(event), (works) => {
    if (works && isLost) page?.refresh?.();
    if (works) connection.replaceChildren();
    else if (!isLost) {
      connection.replaceChildren(
        el(
          "p",
          { class: "notice warn" },
          "Connection lost. This page may be out of date; it refreshes itself as soon as the server answers.",
        ),
      );
    }
    isLost = !works;
  }, stream.signal);
}

whenSignedOut((refusal) => {
  if (session.server !== null) showSignIn(`You were signed out: ${visible(refusal.message)}.`);
});

addEventListener("hashchange", route);
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || session.server === null) return;
  if (event.target.closest?.("input, select, textarea, dialog")) return;
  event.preventDefault();
  document.querySelector("#search input")?.focus();
});

async function resume() {
  main.replaceChildren();
  try {
    await waiting(main, "Connecting to the server\u2026", begin());
  } catch (error) {
    if (error.status === 401) {
      showSignIn(/was revoked|expired at/.test(error.message) ? sentence(visible(error.message)) : "");
    } else main.replaceChildren(problem(error, resume));
  }
}

resume();
