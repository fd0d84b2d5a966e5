// Which view is shown, to whom, and what holds the parts together.

import { Api } from "./api.js";
import { areCodesShown, bindAccount, forgetCodes, showAccount, showSince } from "./account-view.js";
import { OwlView } from "./owl-view.js";
import { $, busy, clockText, toast } from "./page.js";
import { Shop } from "./shop.js";
import { ShopView } from "./shop-view.js";

const titles = {
  loading: "", login: "Log in", signup: "Create an account", forgot: "Forgotten password", codes: "Recovery codes",
  shop: "Shop", owls: "A random owl", account: "Account", device: "Let a device in",
};
const forGuests = ["login", "signup", "forgot"];
const forMembers = ["shop", "owls", "account", "device"];

const api = new Api();
const shopView = new ShopView();
const owlView = new OwlView();
let shop = null;
let incarnation = null;
let isOpening = false;
let current = null;

// A device that waits for somebody to let it in (RFC 8628) has sent its owner here.
const userCode = new URLSearchParams(location.search).get("user_code");
let wantsDevice = userCode !== null;
if (wantsDevice) history.replaceState(null, "", location.pathname + location.hash);

// Views

/** The view that the address names, as far as it is for whoever is here. */
function wanted() {
  const name = location.hash.replace(/^#\//, "");
  const member = api.session !== null;
  // Codes are shown once: the way away from them is their own button.
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
}

// Whose shop

function settle() {
  const session = api.session;
  if (session?.incarnation === incarnation) return;
  incarnation = session?.incarnation ?? null;
  shop?.close();
  shop = null;
  forgetCodes();
  shopView.show(null);
  owlView.show(null);
  showAccount(session);
  if (!session) {
    if (!forGuests.includes(location.hash.replace(/^#\//, ""))) location.hash = "#/login";
    route();
    return;
  }
  shop = new Shop(api);
  shop.addEventListener("change", () => { if (shop?.catalog) { route({ isQuiet: true }); renderAll(); } });
  shop.addEventListener("erased", () => {
    toast("This account was erased.", { isBad: true });
    api.forget();
  });
  shopView.show(shop);
  owlView.show(shop);
  open();
  route({ isQuiet: true });
}

async function open() {
  const opened = shop;
  isOpening = true;
  $("#loading-text").textContent = "One moment…";
  $("#loading-again").hidden = true;
  try {
    await opened.open();
  } catch (error) {
    if (opened !== shop) return;
    $("#loading-text").textContent = error.status === 404
      ? "This server sells nothing: it runs without a catalogue." : error.message;
    $("#loading-again").hidden = false;
  } finally {
    if (opened === shop) isOpening = false;
  }
}

api.addEventListener("session", settle);
api.addEventListener("over", (event) => {
  toast("Your session has ended. Please log in again.", { isBad: true });
  $("#login-name").value = event.detail.account;
});

// Whether the server answers

let isUnreachable = false;

function showReach(isReached) {
  if (isUnreachable === !isReached) return;
  isUnreachable = !isReached;
  const notice = $("#offline");
  notice.hidden = isReached;
  notice.textContent = isReached ? "" : shop?.snapshot
    ? `The server does not answer. You see what held at ${clockText(shop.snapshot.at)}; nothing can be bought or `
      + "spent until it is back."
    : "The server does not answer.";
  if (isReached && shop && !shop.snapshot && !isOpening) open();
}

api.addEventListener("reached", () => showReach(true));
api.addEventListener("unreachable", () => showReach(false));
window.addEventListener("offline", () => showReach(false));

// Go

$("#loading-again").addEventListener("click", (event) => busy(event.currentTarget, open));
window.addEventListener("hashchange", () => route());
bindAccount(api, { go, done: () => go(wantsDevice ? "device" : "shop") });
settle();
route({ isQuiet: true });
