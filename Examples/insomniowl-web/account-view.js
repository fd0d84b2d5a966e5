// Everything about the account: making one, logging in, lost passwords, devices, and the end of it.

import { $, busy, clear, dateText, onSubmit, toast } from "./page.js";
import { drawPortrait } from "./owl.js";

/** Wires the forms. `go(view)` shows a view, `done()` shows what comes after a log-in. */
export function bindAccount(api, { go, done }) {
  $("[data-hero='55']").append(drawPortrait("GoodNightOwl"));
  $("[data-hero='88']").append(drawPortrait("NightOwl"));

  onSubmit($("#login"), async ({ name, password }) => {
    await api.logIn(name, password);
    done();
  });

  onSubmit($("#signup"), async ({ name, password }) => {
    const codes = await api.signUp(name, password);
    if (codes) return showCodes(codes);
    toast("You had this account already: you are logged in. New recovery codes are under Account.");
    return done();
  });

  onSubmit($("#forgot"), async ({ name, code, password }) => {
    await api.recover(name, code, password);
    toast("The password is set. All other devices are logged out. New recovery codes are under Account.");
    done();
  });

  onSubmit($("#password"), async ({ password, new: changed }) => {
    await api.changePassword(password, changed);
    toast("The password is changed. All other devices are logged out. New recovery codes are under Account.");
    $("#password").closest("details").open = false;
  });

  onSubmit($("#renew"), async ({ password }) => {
    showCodes(await api.renewRecoveryCodes(password));
    $("#renew").closest("details").open = false;
  });

  onSubmit($("#erase"), async ({ password }) => {
    await api.erase(password);
    toast("The account is erased, and everything that belonged to it.");
  });

  onSubmit($("#device"), async ({ code, password }, button) => {
    const isApproved = button.value === "approve";
    if (isApproved && !password) throw new Error("Please enter your password: it is asked for to let a device in.");
    try {
      await api.decideDevice(code, isApproved, password);
    } catch (error) {
      if (error.status !== 404) throw error;
      throw new Error("No device waits with this code. Codes count for ten minutes; let it show a new one.");
    }
    toast(isApproved ? "The device is let in." : "The device is refused.");
    go("shop");
  });

  bindCodes(done);
  $("#logout").addEventListener("click", (event) => busy(event.currentTarget, () => api.logOut()));
  $("#logout-everywhere").addEventListener("click", (event) => busy(event.currentTarget, async () => {
    await api.logOutEverywhere();
    toast("You are logged out on all devices.");
  }));

  function showCodes(codes) {
    $("#codes").replaceChildren(...codes.map((code) => {
      const item = document.createElement("li");
      item.textContent = code;
      return item;
    }));
    go("codes");
  }
}

function bindCodes(done) {
  const kept = $("#codes-kept");
  const button = $("#codes-done");
  kept.addEventListener("change", () => { button.disabled = !kept.checked; });
  button.addEventListener("click", () => {
    forgetCodes();
    done();
  });
  $("#codes-print").addEventListener("click", () => window.print());
  $("#codes-copy").addEventListener("click", async () => {
    const text = [...$("#codes").children].map((item) => item.textContent).join("\n");
    try {
      await navigator.clipboard.writeText(text);
      toast("Copied.");
    } catch {
      toast("The browser does not let this page copy. Please select them.", { isBad: true });
    }
  });
}

/** Takes the codes off the page. */
export function forgetCodes() {
  $("#codes").replaceChildren();
  $("#codes-kept").checked = false;
  $("#codes-done").disabled = true;
}

export const areCodesShown = () => $("#codes").children.length > 0;

/** Empties all forms, and shows whose account it is. */
export function showAccount(session) {
  for (const form of document.forms) clear(form);
  for (const part of document.querySelectorAll(".account-name")) part.textContent = session?.account ?? "";
  for (const input of document.querySelectorAll(".account-field")) input.defaultValue = session?.account ?? "";
  for (const part of document.querySelectorAll("details")) part.open = false;
  $("#account-since").textContent = "";
}

/** Since when the account is there, which the server knows. */
export async function showSince(api) {
  try {
    const { created } = await api.self();
    $("#account-since").textContent = created ? `The account is from ${dateText(created)}.` : "";
  } catch { /* Nobody needs it. */ }
}
