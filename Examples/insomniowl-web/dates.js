// Dates and numbers for display.

// The page is in English. Dates follow the browser's variety of English.
const locale = navigator.languages.find((language) => /^en-/.test(language)) ?? "en-GB";
// Keeps dates on one line.
const noBreak = "\u00a0";
const longDate = new Intl.DateTimeFormat(locale, { dateStyle: "long" });
const clock = new Intl.DateTimeFormat(locale, { timeStyle: "short" });

/** A date (RFC 3339, or milliseconds) for display, in the browser's time zone. */
export const dateText = (date) => longDate.format(new Date(date)).replaceAll(" ", noBreak);

/** A date with its time of day; the time alone for today. */
export function momentText(date) {
  const time = clock.format(new Date(date)).replaceAll(" ", noBreak);
  return dateText(date) === dateText(Date.now()) ? time : `${dateText(date)}, ${time}`;
}

export const counted = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;
