// The purchases that this browser keeps for visits without a connection. The client keeps everything else.

const lastKnownKey = "insomniowl.lastKnown";

/** The purchases of the last visit to the account with `incarnation`; null for none. */
export function lastKnown(incarnation) {
  try {
    const stored = JSON.parse(localStorage.getItem(lastKnownKey) ?? "null");
    return stored?.incarnation === incarnation ? stored.purchases ?? null : null;
  } catch {
    return null;
  }
}

/** Keeps purchases. Only one account's are kept. */
export function keepLastKnown(incarnation, purchases) {
  try {
    localStorage.setItem(lastKnownKey, JSON.stringify({ incarnation, purchases }));
  } catch { /* The storage is full or disabled: the page works without it. */ }
}

/** Deletes them. */
export function forgetLastKnown() { localStorage.removeItem(lastKnownKey); }
