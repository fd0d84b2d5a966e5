// Server-sent events over fetch: EventSource cannot send a bearer token.

import { SessionOver } from "./api.js";

const shortestPause = 1_000;
const longestPause = 30_000;
/** The server sends a heartbeat every 15 seconds; after three missed ones the connection counts as lost. */
const longestSilence = 50_000;

/** Parses a stream of events ("event stream interpretation" in the HTML standard) and reports each event. */
export class EventParser {
  #decoder = new TextDecoder();
  #rest = "";
  #data = [];
  #type = "";
  #onEvent;
  lastEventID = "";
  retry = null;

  constructor(onEvent) { this.#onEvent = onEvent; }

  push(bytes) {
    this.#rest += this.#decoder.decode(bytes, { stream: true });
    // A carriage return at the very end may be the first half of a line break.
    const lines = this.#rest.split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) this.#read(line);
  }

  #read(line) {
    if (line === "") return this.#dispatch();
    if (line.startsWith(":")) return undefined;
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#data.push(value);
    if (name === "event") this.#type = value;
    if (name === "id" && !value.includes("\0")) this.lastEventID = value;
    if (name === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
    return undefined;
  }

  #dispatch() {
    if (this.#data.length > 0) this.#onEvent(this.#type || "message", this.#data.join("\n"));
    this.#data = [];
    this.#type = "";
  }
}

/**
 * Follows `/v1/changes` until it is stopped. Reconnects with exponential back-off and resumes at the last event. It
 * disconnects while the page is hidden, because a browser allows six connections to a server and other tabs need some.
 *
 * Calls `onChange({key, version})` for each change, and `onOpen(isResumed)` for each connection. After `onOpen(false)`
 * the caller has to read the current state: earlier changes may have been missed.
 */
export class ChangeStream {
  #api;
  #onChange;
  #onOpen;
  #stop = new AbortController();
  #wake = () => {};
  #lastEventID = "";
  #connection = null;

  constructor(api, { onChange, onOpen }) {
    this.#api = api;
    this.#onChange = onChange;
    this.#onOpen = onOpen;
  }

  async run() {
    const { signal } = this.#stop;
    const again = () => this.#wake();
    const look = () => { if (document.hidden) this.#connection?.abort(); else this.#wake(); };
    window.addEventListener("online", again, { signal });
    document.addEventListener("visibilitychange", look, { signal });
    let pause = shortestPause;
    while (!signal.aborted) {
      if (document.hidden) {
        await this.#sleep(Infinity);
        continue;
      }
      const started = performance.now();
      let wanted = null;
      try {
        wanted = await this.#follow();
      } catch (error) {
        // The request that ended the session reports it.
        if (error instanceof SessionOver) return;
      }
      if (signal.aborted) return;
      // A connection that lasted for a while resets the back-off.
      pause = performance.now() - started > longestPause ? shortestPause : Math.min(pause * 2, longestPause);
      // Jitter, so that clients do not reconnect all at once.
      await this.#sleep(Math.max(wanted ?? 0, pause / 2) * (0.5 + Math.random()));
    }
  }

  stop() {
    this.#stop.abort();
    this.#connection?.abort();
    this.#wake();
  }

  /** Follows one connection until it ends. Returns the pause in milliseconds that the server asks for, or null. */
  async #follow() {
    const connection = new AbortController();
    this.#connection = connection;
    let watchdog = 0;
    const watch = () => {
      clearTimeout(watchdog);
      watchdog = setTimeout(() => connection.abort(), longestSilence);
    };
    try {
      const answer = await this.#api.changes(this.#lastEventID, connection.signal);
      if (answer.status === 410) {
        this.#lastEventID = "";
        return 0;
      }
      const parser = new EventParser((type, data) => this.#hear(type, data, parser));
      parser.lastEventID = this.#lastEventID;
      this.#onOpen(this.#lastEventID !== "");
      const reader = answer.body.getReader();
      for (;;) {
        watch();
        const { value, done } = await reader.read();
        if (done) return parser.retry;
        parser.push(value);
        this.#lastEventID = parser.lastEventID;
      }
    } finally {
      clearTimeout(watchdog);
      connection.abort();
      this.#connection = null;
    }
  }

  #hear(type, data, parser) {
    if (type === "change") this.#onChange(JSON.parse(data));
    // The next connection starts without a position, so the caller reads the current state.
    if (type === "expired") parser.lastEventID = "";
  }

  #sleep(milliseconds) {
    return new Promise((resolve) => {
      const timer = Number.isFinite(milliseconds) ? setTimeout(resolve, milliseconds) : 0;
      this.#wake = () => { clearTimeout(timer); resolve(); };
    });
  }
}
