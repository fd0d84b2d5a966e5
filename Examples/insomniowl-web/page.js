// Small things that all views use.

export const $ = (selector, root = document) => root.querySelector(selector);

// The page is English: dates are as the browser's kind of English has them.
const locale = navigator.languages.find((language) => /^en-/.test(language)) ?? "en-GB";
// A date is not torn apart where a line ends.
const noBreak = "\u00a0";
const longDate = new Intl.DateTimeFormat(locale, { dateStyle: "long" });
const clock = new Intl.DateTimeFormat(locale, { timeStyle: "short" });
const utf8 = new TextEncoder();

/** A date (RFC 3339, or milliseconds) as a person reads it, in the time zone of the browser. */
export const dateText = (date) => longDate.format(new Date(date)).replaceAll(" ", noBreak);
export const clockText = (date) => clock.format(new Date(date));
export const counted = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;

let toastTimer = 0;

/** A word about what was done, or why it was not. */
export function toast(text, { isBad = false } = {}) {
  const place = $("#toast");
  clearTimeout(toastTimer);
  place.classList.toggle("bad", isBad);
  place.textContent = text;
  toastTimer = setTimeout(() => { place.textContent = ""; }, isBad ? 12_000 : 7_000);
}

/** Runs `work` for a press of `button`; a second press meanwhile does nothing. The button keeps the focus. */
export async function busy(button, work) {
  if (button.getAttribute("aria-busy") === "true") return;
  button.setAttribute("aria-busy", "true");
  try {
    await work();
  } catch (error) {
    toast(error.message, { isBad: true });
  } finally {
    button.removeAttribute("aria-busy");
  }
}

/** What is wrong with a field, in words; null for nothing. */
function fault(input) {
  const label = input.labels[0]?.textContent.trim().replace(/\s+/g, " ") ?? input.name;
  if (input.type === "checkbox") return input.required && !input.checked ? `Please tick: ${label}.` : null;
  if (input.required && input.value === "") return `Please fill in: ${label}.`;
  const length = utf8.encode(input.value).length;
  if (input.autocomplete === "new-password" && length < 8) return "The password is too short: 8 characters or more.";
  if (input.autocomplete === "new-password" && length > 1024) return "The password is too long.";
  if (input.autocomplete === "username" && length > 255) return "The name is too long.";
  return null;
}

/** Lets `work(fields, button)` do what `form` is for, once at a time, and shows in the form what went wrong. */
export function onSubmit(form, work) {
  const message = $(".error", form);
  const inputs = [...form.querySelectorAll("input")];
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
    const wrong = inputs.find((input) => fault(input) !== null);
    show(wrong ? fault(wrong) : null, wrong);
    if (wrong) return;
    form.setAttribute("aria-busy", "true");
    button.setAttribute("aria-busy", "true");
    const fields = Object.fromEntries(inputs.map((input) => [input.name, input.value]));
    try {
      await work(fields, button);
      clear(form);
    } catch (error) {
      show(error.message, inputs.find((input) => input.type === "password" && !input.hidden));
      if (error.status === 429) wait(button, error.retryAfter ?? 60);
    } finally {
      form.removeAttribute("aria-busy");
      button.removeAttribute("aria-busy");
    }
  });
}

/** Empties a form: no password stays on a page that somebody has left. */
export function clear(form) {
  form.reset();
  const message = $(".error", form);
  message.hidden = true;
  message.textContent = "";
  for (const input of form.querySelectorAll("input")) input.removeAttribute("aria-invalid");
}

/** Nothing to press until the server listens again. */
function wait(button, seconds) {
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
