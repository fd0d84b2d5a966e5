// Helpers that all views use: toasts and forms.

import { ShopError } from "./entitlement-sync.js";

export const $ = (selector, root = document) => root.querySelector(selector);

const utf8 = new TextEncoder();

let toastTimer = 0;

/** Shows a short message about a success or a failure. */
export function toast(text, { isBad = false } = {}) {
  const place = $("#toast");
  clearTimeout(toastTimer);
  place.classList.toggle("bad", isBad);
  place.textContent = text;
  toastTimer = setTimeout(() => { place.textContent = ""; }, isBad ? 12_000 : 7_000);
}

const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?…]$/.test(text) ? "" : ".");

/** The text of an error for the user: the server's own words where it refused something. */
export function textOf(error) {
  if (!(error instanceof ShopError)) return error.message;
  if (error.status === 429) {
    const seconds = error.retryAfter ?? 60;
    return `Too many attempts. Please wait ${seconds < 90 ? `${seconds} seconds` : `${Math.ceil(seconds / 60)} minutes`}.`;
  }
  if (error.kind === "offline") return "The server does not answer. Please check your connection and try again.";
  return error.status === null ? error.message : sentence(error.description);
}

/** Runs `work` for a press of `button`. Further presses are ignored until it is done. The button keeps the focus. */
export async function busy(button, work) {
  if (button.getAttribute("aria-busy") === "true") return;
  button.setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (error) {
    toast(textOf(error), { isBad: true });
  } finally {
    button.removeAttribute("aria-busy");
  }
}

/** The error message for an invalid field; null if it is valid. */
function faultOf(input) {
  const label = input.labels[0]?.textContent.trim().replace(/\s+/g, " ") ?? input.name;
  if (input.type === "checkbox") return input.required && !input.checked ? `Please tick: ${label}.` : null;
  if (input.required && input.value === "") return `Please fill in: ${label}.`;
  const length = utf8.encode(input.value).length;
  if (input.autocomplete === "new-password" && length < 8) return "The password is too short: 8 characters or more.";
  if (input.autocomplete === "new-password" && length > 1024) return "The password is too long.";
  if (input.autocomplete === "username" && length > 255) return "The name is too long.";
  return null;
}

/** Removes spaces at both ends of a name, which often come from pasting or from a keyboard's suggestions. */
function trimName(input) {
  if (input.autocomplete === "username" && !input.hidden) input.value = input.value.trim();
}

/**
 * Runs `work(fields, button)` when `form` is submitted, once at a time, and shows errors in the form.
 *
 * `fieldOf(error)` returns the name of the field that an error is about: it is marked and gets the focus. By default no
 * field is marked, which fits errors such as a wrong name or password, too many attempts, or an unreachable server.
 */
export function onSubmit(form, work, fieldOf = () => null) {
  const message = $(".error", form);
  const inputs = [...form.querySelectorAll("input")];
  for (const input of inputs) input.addEventListener("input", () => input.removeAttribute("aria-invalid"));
  const show = (text, input) => {
    for (const each of inputs) each.removeAttribute("aria-invalid");
    message.hidden = !text;
    message.textContent = text ?? "";
    input?.setAttribute("aria-invalid", "true");
    input?.focus();
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const button = event.submitter ?? $("button[type=submit]", form);
    if (form.getAttribute("aria-busy") === "true" || button.disabled) return;
    inputs.forEach(trimName);
    const invalid = inputs.find((input) => faultOf(input) !== null);
    show(invalid ? faultOf(invalid) : null, invalid);
    if (invalid) return;
    form.setAttribute("aria-busy", "true");
    button.setAttribute("aria-busy", "true");
    const fields = Object.fromEntries(inputs.map((input) => [input.name, input.value]));
    try {
      await work(fields, button);
      clear(form);
    } catch (error) {
      const field = fieldOf(error);
      show(textOf(error), inputs.find((input) => input.name === field));
      if (error.status === 429) disable(button, error.retryAfter ?? 60);
    } finally {
      form.removeAttribute("aria-busy");
      button.removeAttribute("aria-busy");
    }
  });
}

/** Empties a form, so that no password stays in the page. */
export function clear(form) {
  form.reset();
  const message = $(".error", form);
  message.hidden = true;
  message.textContent = "";
  for (const input of form.querySelectorAll("input")) input.removeAttribute("aria-invalid");
}

/** Disables a button while the server refuses further attempts, and shows the time left. */
function disable(button, seconds) {
  const label = button.textContent;
  const end = performance.now() + seconds * 1000;
  button.disabled = true;
  const tick = () => {
    const left = Math.ceil((end - performance.now()) / 1000);
    button.disabled = left > 0;
    button.textContent = left > 0
      ? `${label} (in ${Math.floor(left / 60)}:${String(left % 60).padStart(2, "0")})` : label;
    if (left > 0) setTimeout(tick, 1000);
  };
  tick();
}
