// Connects the session, the shop and the views, and chooses the view to show.

import {
  areCodesShown, bindAccount, confirmLeavingCodes, forgetCodes, showAccount, showSince,
} from "./account-view.js";
import { Shop as Client } from "./entitlement-sync.js";
import { HistoryView } from "./history-view.js";
import { OwlView } from "./owl-view.js";
import { $, busy, momentText, textOf, toast } from "./page.js";
import { Shop } from "./shop.js";
import { ShopView } from "./shop-view.js";

const titles = {
  loading: "", login: "Log in", signup: "Create an account", forgot: "Forgotten password", codes: "Recovery codes",
  shop: "Shop", owls: "A random owl", purchases: "Purchases", account: "Account", device: "Approve a device",
};
const forGuests = ["login", "signup", "forgot"];
const forMembers = ["shop", "owls", "purchases", "account", "device"];

const client = await Client.open({ server: "/" });
const shopView = new ShopView();
const owlView = new OwlView();
const historyView = new HistoryView();
let shop = null;
let incarnation;
let session = null;
let settling = Promise.resolve();
let current = null;

// The link that a waiting device shows to its owner (RFC 8628) has this parameter.
const userCode = new URLSearchParams(location.search).get("user_code");
let wantsDevice = userCode !== null;
if (wantsDevice) history.replaceState(null, "", location.pathname + location.hash);

// Views

/** The view that the address names, if the session allows it; else the one to show instead. */
function wanted() {
  const name = location.hash.replace(/^#\//, "");
  const member = session !== null;
  // Codes are shown once, until the user confirms to leave them.
  if (member && areCodesShown()) return "codes";
  if (!member) return forGuests.includes(name) ? name : "login";
  if (!shop?.catalog || !shop.snapshot) return "loading";
  if (wantsDevice) return "device";
  return forMembers.includes(name) ? name : "shop";
}

function route({ isQuiet = false } = {}) {
  const view = wanted();
  const isOther = view !== current;
  for (const section of document.querySelectorAll("main > section")) section.hidden = section.id !== `view-${view}`;
  $("#tabs").hidden = !forMembers.includes(view);
  for (const tab of document.querySelectorAll("#tabs a")) {
    if (tab.hash === `#/${view}`) tab.setAttribute("aria-current", "page"); else tab.removeAttribute("aria-current");
  }
  document.title = titles[view] ? `${titles[view]} · InsomniOwl` : "InsomniOwl";
  if (!isOther) return;
  current = view;
  if (view === "owls") owlView.greet();
  if (view === "account") showSince(api);
  if (view === "device" && wantsDevice) {
    $("#device-code").value = userCode;
    wantsDevice = false;
    history.replaceState(null, "", "#/device");
  }
  renderAll();
  if (!isQuiet) $(`#view-${view} h1`).focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function go(view) {
  if (location.hash === `#/${view}` || view === "codes") route();
  else location.hash = `#/${view}`;
}

function renderAll() {
  shopView.render();
  owlView.render();
  historyView.render();
}

// The session's shop

/** Shows the account that is logged in. Calls follow one another. */
function settle() {
  settling = settling.then(async () => {
    const account = await client.account();
    session = account && { account: account.name, incarnation: account.incarnation };
    if ((session?.incarnation ?? null) === incarnation) return;
    incarnation = session?.incarnation ?? null;
    shop?.close();
    shop = session && new Shop(client, incarnation);
    shop?.addEventListener("change", () => {
      showConnection();
      if (!shop?.catalog) return;
      route({ isQuiet: true });
      renderAll();
    });
    forgetCodes();
    shopView.show(shop);
    owlView.show(shop);
    historyView.show(shop);
    showAccount(session);
    $("#loading-text").textContent = "One moment…";
    $("#loading-again").hidden = true;
    if (!session && !forGuests.includes(location.hash.replace(/^#\//, ""))) location.hash = "#/login";
    route({ isQuiet: session !== null });
  });
  return settling;
}

/** Follows the client until the page is left. */
async function follow() {
  for await (const overview of client.observe()) {
    const { failure } = overview;
    const former = session?.account ?? "";
    await settle();
    if (failure?.kind === "accountDeleted") toast("This account was erased.", { isBad: true });
    if (failure?.kind === "logInNeeded" && session) {
      await client.logOut();
      await settle();
      toast("Your session has ended. Please log in again.", { isBad: true });
      $("#login-name").value = former;
      continue;
    }
    isReachable = failure?.kind !== "offline";
    await shop?.update(overview);
    showConnection();
    if (failure && shop && !shop.catalog) {
      $("#loading-text").textContent = failure.status === 404
        ? "This server has no catalogue, so there is nothing to buy." : textOf(failure);
      $("#loading-again").hidden = false;
    }
  }
}

/** The calls of the client that change the account. The page shows the new account before they return. */
const api = {
  settled: async (call) => {
    const outcome = await call;
    await settle();
    return outcome;
  },
  signUp: (...fields) => api.settled(client.signUp(...fields)),
  logIn: (...fields) => api.settled(client.logIn(...fields)),
  resetPassword: (...fields) => api.settled(client.resetPassword(...fields)),
  logOut: (options) => api.settled(client.logOut(options)),
  deleteAccount: (password) => api.settled(client.deleteAccount(password)),
  changePassword: (...fields) => client.changePassword(...fields),
  renewRecoveryCodes: (password) => client.renewRecoveryCodes(password),
  decideDevice: (...fields) => client.decideDevice(...fields),
  export: () => client.export(),
};

// The connection

let isReachable = true;

function showConnection() {
  const notice = $("#offline");
  const isShown = !isReachable || shop?.isStale === true;
  notice.hidden = !isShown;
  let cause = "Offline: the server does not answer.";
  if (isReachable) cause = "The server has not answered yet.";
  if (!navigator.onLine) cause = "Offline: there is no connection.";
  const state = shop?.snapshot
    ? ` You see your purchases as of ${momentText(shop.snapshot.at)}. You can buy and spend owls again once the `
      + "connection is back."
    : "";
  const text = isShown ? cause + state : "";
  // Screen readers announce each change of this text.
  if (notice.textContent !== text) notice.textContent = text;
}

window.addEventListener("offline", () => {
  isReachable = false;
  showConnection();
});

// Start

$("#loading-again").addEventListener("click", (event) => busy(event.currentTarget, () => client.refresh()));
window.addEventListener("hashchange", (event) => {
  if (!areCodesShown()) return route();
  history.replaceState(null, "", event.oldURL);
  return confirmLeavingCodes();
});
// Service workers exist in secure contexts only; elsewhere the page needs a connection.
navigator.serviceWorker?.register("service-worker.js").catch(() => {});
bindAccount(api, { go, done: () => go(wantsDevice ? "device" : "shop") });
follow();
