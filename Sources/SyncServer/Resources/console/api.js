// Requests to the server with the session of this page, and the stream of events.

const marker = { "EntitlementSync-Console": "1" };

/** A refusal of the server, or a failed connection (`status` 0). */
export class Problem extends Error {
  constructor(status, message, retryAfter) {
    super(message);
    [this.status, this.retryAfter] = [status, retryAfter];
  }

  get advice() {
    if (this.status === 0) return "Check the connection to the server. Nothing was lost; try again.";
    if (this.status === 403) return "Sign in with a token of a greater scope.";
    if (this.status === 429) return `Too many requests. Try again in ${this.retryAfter ?? 10} seconds.`;
    if (this.status >= 500) return "Try again. If it happens again, look into the log of the server.";
    return null;
  }
}

let onEnd = () => {};

/** Sets what happens when the server no longer accepts the session. */
export function whenSignedOut(act) {
  onEnd = act;
}

async function send(method, path, { body, fields, signal, raw } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method,
      signal,
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
      headers: { ...marker, ...(body === undefined ? {} : { "Content-Type": "application/json" }), ...fields },
      body: body === undefined ? undefined : raw ? body : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server does not answer");
  }
  if (response.ok) return response;
  const known = await response.json().catch(() => ({}));
  const problem = new Problem(
    response.status,
    known.detail ?? `the server refused this with status ${response.status}`,
    response.headers.get("Retry-After"),
  );
  if (response.status === 401 && path.startsWith("/v1/")) onEnd(problem);
  throw problem;
}

const json = async (...request) => {
  const response = await send(...request);
  try {
    return response.status === 204 ? null : await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The connection ended before the answer was complete");
  }
};

/** A path with its parts encoded, and a query without empty members. */
export function path(parts, query = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return "/v1/" + parts.map(encodeURIComponent).join("/") +
    (pairs.length ? "?" + new URLSearchParams(pairs).toString().replaceAll("+", "%20") : "");
}

export const get = (parts, query, options) => json("GET", path(parts, query), options);
export const post = (parts, query, body, options) => json("POST", path(parts, query), { ...options, body });
export const request = (method, parts, query, body, fields) => json(method, path(parts, query), { body, fields });
export const signIn = (token) => json("POST", "/console/session", { body: { token } });
export const signOut = () => send("DELETE", "/console/session");

/** The longest silence of a working stream, in milliseconds. The server sends a heartbeat every 15 seconds. */
const silence = 40_000;

/**
 * Follows the events of the server until `signal` aborts: calls `onEvent` with each, and `onState` with true when the
 * stream works and false when it is lost. A lost stream is resumed after the last event.
 */
export async function follow(onEvent, onState, signal) {
  let last = null;
  let pause = 500;
  while (!signal.aborted) {
    const attempt = new AbortController();
    const end = () => attempt.abort();
    signal.addEventListener("abort", end);
    let timer = setTimeout(end, silence);
    try {
      const fields = { Accept: "text/event-stream", ...(last === null ? {} : { "Last-Event-ID": last }) };
      const response = await send("GET", "/v1/events", { fields, signal: attempt.signal });
      onState(true);
      pause = 500;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (let text = "";;) {
        const { value, done } = await reader.read();
        if (done) break;
        clearTimeout(timer);
        timer = setTimeout(end, silence);
        const messages = (text + value).split("\n\n");
        text = messages.pop();
        for (const message of messages) last = read(message, onEvent) ?? last;
      }
    } catch (error) {
      if (error.status === 401) return;
      // The events after the last one were deleted.
      if (error.status === 410) last = null;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
    }
    if (signal.aborted) return;
    onState(false);
    await new Promise((resolve) => {
      setTimeout(resolve, pause);
    });
    pause = Math.min(pause * 2, 10_000);
  }
}

function read(message, onEvent) {
  const fields = {};
  for (const line of message.split("\n")) {
    const [, field, value] = /^(\w+): ?(.*)$/.exec(line) ?? [];
    if (field) fields[field] = value;
  }
  if (fields.data && fields.event !== "position" && fields.event !== "expired") {
    try {
      onEvent(JSON.parse(fields.data));
    } catch { /* A later server may send events of another form. */ }
  }
  return fields.id;
}
