// Data that this browser keeps besides the session (see api.js).

const replicaKey = "insomniowl.replica";
const lastKnownKey = "insomniowl.lastKnown";

/** The id of this browser among the account's devices: 16 random bytes, kept in localStorage. */
export function replica() {
  const stored = localStorage.getItem(replicaKey);
  if (/^[0-9a-f]{32}$/.test(stored ?? "")) return Uint8Array.from(stored.match(/../g), (pair) => parseInt(pair, 16));
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  localStorage.setItem(replicaKey, Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join(""));
  return bytes;
}

/** The data of the last visit to the account with `incarnation`: {catalog, snapshot, purchases}; null for none. */
export function lastKnown(incarnation) {
  try {
    const stored = JSON.parse(localStorage.getItem(lastKnownKey) ?? "null");
    return stored?.incarnation === incarnation && stored.catalog && stored.snapshot ? stored : null;
  } catch {
    return null;
  }
}

/** Keeps data for visits without a connection. Only one account's data is kept. */
export function keepLastKnown(incarnation, { catalog, snapshot, purchases }) {
  try {
    localStorage.setItem(lastKnownKey, JSON.stringify({ incarnation, catalog, snapshot, purchases }));
  } catch { /* The storage is full or disabled: the page works without it. */ }
}

/** Deletes that data. */
export function forgetLastKnown() { localStorage.removeItem(lastKnownKey); }
