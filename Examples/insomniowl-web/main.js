// Connects the client and the views, and chooses the view to show.

import { Shop } from "./entitlement-sync.js";
import { bindGuests } from "./guest-view.js";
import { $, busy, textOf, toast } from "./page.js";

const titles = {
  loading: "", login: "Log in", signup: "Create an account", forgot: "Forgotten password", codes: "Recovery codes",
  shop: "Shop", owls: "A random owl", purchases: "Purchases", account: "Account", device: "Approve a device",
};
const forGuests = ["login", "signup", "forgot"];
const forMembers = ["shop", "owls", "purchases", "account", "device"];

const client = await Shop.open({ server: "/" });
/** The views that need an account (members.js). They are loaded when there is one. */
let members = null;
/** The account that the page shows: {name, incarnation}, or null for none; undefined until it is known. */
let account;
let settling = Promise.resolve();
let current = null;

// The link that a waiting device shows to its owner (RFC 8628) has this parameter.
const userCode = new URLSearchParams(location.search).get("user_code");
let wantsDevice = userCode !== null;
if (wantsDevice) history.replaceState(null, "", location.pathname + location.hash);

// Views

/** The view that the address names, if the account allows it; else the one to show instead. */
function wanted() {
  const name = location.hash.replace(/^#\//, "");
  if (account === undefined) return "loading";
  if (account === null) return forGuests.includes(name) ? name : "login";
  // Codes are shown once, until the user confirms to leave them.
  if (members.areCodesShown()) return "codes";
  if (!members.isReady()) return "loading";
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
  if (view === "device" && wantsDevice) {
    $("#device-code").value = userCode;
    wantsDevice = false;
    history.replaceState(null, "", "#/device");
  }
  members?.enter(view);
  if (!isQuiet) $(`#view-${view} h1`).focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function go(view) {
  if (location.hash === `#/${view}` || view === "codes") route();
  else location.hash = `#/${view}`;
}

const done = () => go(wantsDevice ? "device" : "shop");

// The account

/** Shows the account that is logged in. Calls follow one another. */
function settle() {
  const settled = settling.then(async () => {
    const present = await client.account();
    if (account !== undefined && present?.incarnation === account?.incarnation) return;
    if (present) members ??= await openedMembers();
    account = present;
    members?.show(account);
    showLoading("One moment…", { canRepeat: false });
    if (!account && !forGuests.includes(location.hash.replace(/^#\//, ""))) location.hash = "#/login";
    route({ isQuiet: account !== null });
  });
  settling = settled.catch(() => {});
  return settled;
}

async function openedMembers() {
  try {
    const { Members } = await import("./members.js");
    return new Members(client, calls, { go, changed });
  } catch (error) {
    throw new Error("A part of this page is missing. Check the connection, then reload the page.", { cause: error });
  }
}

/** Shows new data of the account. */
function changed() {
  showConnection();
  if (members.isReady()) route({ isQuiet: true });
}

function showLoading(text, { canRepeat }) {
  $("#loading-text").textContent = text;
  $("#loading-again").hidden = !canRepeat;
}

/** Follows the client until the page is left. */
async function follow() {
  for await (const overview of client.observe()) {
    const { failure } = overview;
    const former = account?.name ?? "";
    await settle();
    if (failure?.kind === "accountDeleted") toast("This account was erased.", { isBad: true });
    if (failure?.kind === "logInNeeded" && account) {
      await client.logOut();
      await settle();
      toast("Your session has ended. Please log in again.", { isBad: true });
      $("#login-name").value = former;
      continue;
    }
    isReachable = failure?.kind !== "offline";
    // The overview may be of an account that has just logged out.
    if (account && overview.account === account.name) await members.update(overview);
    showConnection();
    if (!failure || !account || overview.catalog) continue;
    showLoading(failure.status === 404 ? "This server has no catalogue, so there is nothing to buy." : textOf(failure),
      { canRepeat: true });
  }
}

/** The calls of the client that change the account. The page shows the new account before they return. */
const settled = (name) => async (...options) => {
  const outcome = await client[name](...options);
  await settle();
  return outcome;
};
const changing = ["signUp", "logIn", "resetPassword", "logOut", "deleteAccount"];
const calls = Object.fromEntries(changing.map((name) => [name, settled(name)]));

// The connection

let isReachable = true;

function showConnection() {
  const notice = $("#offline");
  let text = members?.stateText() ?? "";
  if (!navigator.onLine) text = "Offline: there is no connection." + text;
  else text = (isReachable ? "The server has not answered yet." : "Offline: the server does not answer.") + text;
  notice.hidden = isReachable && members?.isStale() !== true;
  // Screen readers announce each change of this text.
  if (notice.hidden) notice.textContent = ""; else if (notice.textContent !== text) notice.textContent = text;
}

window.addEventListener("offline", () => {
  isReachable = false;
  showConnection();
});

// Start

$("#loading-again").addEventListener("click", (event) => busy(event.currentTarget, async () => {
  if (account === undefined) location.reload(); else await client.refresh();
}));
window.addEventListener("hashchange", (event) => {
  if (!members?.areCodesShown()) return route();
  history.replaceState(null, "", event.oldURL);
  return members.confirmLeavingCodes();
});
// Service workers exist in secure contexts only; elsewhere the page needs a connection.
navigator.serviceWorker?.register("service-worker.js").catch(() => {});
bindGuests(calls, { done, showCodes: (codes) => members.showCodes(codes, done) });
follow().catch((error) => {
  showLoading(textOf(error), { canRepeat: true });
  route();
});
