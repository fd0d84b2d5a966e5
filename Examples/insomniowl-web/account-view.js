// The account: log-out, password, recovery codes, devices, and erasure.

import { dateText } from "./dates.js";
import { $, busy, clear, onSubmit, toast } from "./page.js";

/** Shortens the server's message about a wrong name or password, for forms that ask for the password only. */
async function withPassword(request) {
  try {
    return await request;
  } catch (error) {
    if (error.code === "invalid_grant") error.description = "the password is wrong";
    throw error;
  }
}

const passwordField = (error) => (error.code === "invalid_grant" ? "password" : null);

let leaveCodes = () => {};

/** Binds the forms. `calls` are those that change the account; `go(view)` shows a view. */
export function bindAccount(client, calls, go) {
  onSubmit($("#password"), async ({ password, new: changed }) => {
    await withPassword(client.changePassword(password, changed));
    toast("The password is changed, and all other devices are logged out. Your recovery codes have ended: "
      + "create new ones below.");
    $("#password").closest("details").open = false;
  }, passwordField);

  onSubmit($("#renew"), async ({ password }) => {
    showCodes(await withPassword(client.renewRecoveryCodes(password)), go, () => go("account"));
    $("#renew").closest("details").open = false;
  }, passwordField);

  onSubmit($("#erase"), async ({ password }) => {
    await withPassword(calls.deleteAccount(password));
    toast("The account is erased, with everything that belonged to it.");
  }, passwordField);

  onSubmit($("#device"), async ({ code, password }, button) => {
    const isApproved = button.value === "approve";
    if (isApproved && !password) {
      throw Object.assign(new Error("Please enter your password to approve the device."), { code: "invalid_grant" });
    }
    try {
      await withPassword(client.decideDevice(code.trim(), isApproved, password));
    } catch (error) {
      if (error.status !== 404) throw error;
      error.description = "No device waits with this code. A code is valid for ten minutes; get a new one on the device.";
      throw error;
    }
    toast(isApproved ? "The device is approved." : "The device is denied.");
    go("shop");
  }, (error) => (error.status === 404 ? "code" : passwordField(error)));

  bindCodes();
  $("#logout").addEventListener("click", (event) => busy(event.currentTarget, () => calls.logOut()));
  $("#logout-everywhere").addEventListener("click", (event) => busy(event.currentTarget, async () => {
    await calls.logOut({ everywhere: true });
    toast("You are logged out on all devices.");
  }));
}

// Recovery codes are shown only once, so the page asks before it removes them.

/** Makes the browser ask before it reloads or leaves the page. */
function warnOfLoss(event) {
  event.preventDefault();
  // Older browsers need this instead.
  event.returnValue = true;
}

/** Shows `codes`, and calls `next` when the user leaves them. */
export function showCodes(codes, go, next) {
  leaveCodes = next;
  $("#codes").replaceChildren(...codes.map((code) => {
    const item = document.createElement("li");
    item.textContent = code;
    return item;
  }));
  window.addEventListener("beforeunload", warnOfLoss);
  go("codes");
}

function bindCodes() {
  const saved = $("#codes-saved");
  const leave = () => {
    forgetCodes();
    leaveCodes();
  };
  $("#codes-done").addEventListener("click", () => { if (saved.checked) leave(); else confirmLeavingCodes(); });
  // After this confirmation the browser need not ask.
  saved.addEventListener("change", () => {
    window.removeEventListener("beforeunload", warnOfLoss);
    if (!saved.checked) window.addEventListener("beforeunload", warnOfLoss);
  });
  $("#codes-stay").addEventListener("click", () => $("#codes-dialog").close());
  $("#codes-leave").addEventListener("click", leave);
  $("#codes-print").addEventListener("click", () => window.print());
  $("#codes-copy").addEventListener("click", async () => {
    const text = [...$("#codes").children].map((item) => item.textContent).join("\n");
    try {
      await navigator.clipboard.writeText(text);
      toast("Copied.");
    } catch {
      toast("The browser does not allow copying. Please select the codes and copy them yourself.", { isBad: true });
    }
  });
}

/** Asks whether to leave the view of the codes. */
export function confirmLeavingCodes() {
  if (!$("#codes-dialog").open) $("#codes-dialog").showModal();
}

/** Removes the codes from the page. */
export function forgetCodes() {
  $("#codes").replaceChildren();
  $("#codes-saved").checked = false;
  $("#codes-dialog").close();
  window.removeEventListener("beforeunload", warnOfLoss);
}

export const areCodesShown = () => $("#codes").children.length > 0;

// The account that is logged in

/** Empties all forms, and shows the name of the account. */
export function showAccount(account) {
  for (const form of document.forms) clear(form);
  for (const part of document.querySelectorAll(".account-name")) part.textContent = account?.name ?? "";
  for (const input of document.querySelectorAll(".account-field")) input.defaultValue = account?.name ?? "";
  for (const part of document.querySelectorAll("details")) part.open = false;
  $("#account-since").textContent = "";
}

/** Shows the date when the account was created. */
export async function showSince(client) {
  try {
    const { account: { created } } = await client.export();
    $("#account-since").textContent = created ? `The account was created on ${dateText(created)}.` : "";
  } catch { /* The view works without the date. */ }
}
