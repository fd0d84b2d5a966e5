/** The kinds of errors. More may be added. */
export type ErrorKind =
  /** The catalogue lacks the product or the entitlement. A mistake of the app. */
  | "catalog"
  /** The address of the server is wrong, another kind of server answers there, or it signs for another root. */
  | "noServer"
  /** The server cannot be reached. What was reported is safe on this device. */
  | "offline"
  /** The name, the password or the recovery code is wrong. */
  | "wrongPassword"
  /** The server has counted too many attempts. */
  | "tooManyAttempts"
  /** The name is taken by another account. */
  | "nameTaken"
  /** The name, the new password, an item or another value is not allowed. */
  | "invalid"
  /** The server does not allow this to the user. */
  | "notAllowed"
  /** The certificate of the server is not trusted. Node.js only: a browser reports `offline`. */
  | "untrusted"
  /** No account is logged in, or its session has ended. */
  | "logInNeeded"
  /** The function for the tokens of the app's own issuer threw an error, or returned no text. */
  | "noToken"
  /** The account was deleted. */
  | "accountDeleted"
  /** The storage is full. Nothing that was confirmed is lost. */
  | "full"
  /** 1,000 items wait for the server. Nothing was stored: connect, so that they can be sent, and repeat the call. */
  | "outboxFull"
  /** The storage cannot be read or written. */
  | "storage"
  /** The data in the storage is damaged. Nothing was changed. */
  | "damaged"
  /** A later version of the app wrote the data in the storage. Nothing was changed. */
  | "newerVersion"
  /** Only what a store has signed counts, and this item was reported by the app. */
  | "unverified"
  /** Another account has the purchase. */
  | "ownedByAnotherAccount"
  /** The server refuses the item for another reason; `code` and `description` have it. */
  | "refusedByServer"
  /** Another account has logged in before the call was done. Show nothing. */
  | "cancelled"
  /** Any other error. */
  | "other";

/** An error of a shop. `message` is for the user, in English; an app in another language words it by `kind`. */
export class ShopError extends Error {
  kind: ErrorKind;
  /** The problem and its technical cause, for a log. */
  description: string;
  /** True if the same call may succeed later. */
  isTransient: boolean;
  /** The time in seconds that the server asks to wait. */
  retryAfter: number | null;
  /** The HTTP status, if the server answered. */
  status: number | null;
  /** The server's name of the problem, such as `evidence-required`. */
  code: string | null;
}

/** The data of a shop on this device: one document, and locks that all tabs or processes share. */
export interface Storage {
  /** Returns the document, or null. Throws if it cannot be read: a failure is not an absence. */
  read(): Promise<object | null>;
  /** Replaces the document durably by `change(document)`. Nothing else changes it meanwhile. */
  update(change: (document: object | null) => object): Promise<void>;
  /** Calls `body` while no other tab or process holds the lock `name`. */
  exclusively<Value>(name: string, body: () => Promise<Value>): Promise<Value>;
  /** Reports changes by other tabs. Returns a function that stops. */
  watch(listener: () => void): () => void;
}

/** A storage in IndexedDB, for pages and workers. All tabs of an origin share it. */
export function browserStorage(name?: string): Storage;
/** 128 random bits in hexadecimal, for the transaction of a purchase that has no other id. */
export function randomID(): string;

export interface Options {
  /** The address of the server. A browser resolves it against the page. */
  server: string;
  /** By default `browserStorage()`. */
  storage?: Storage;
  /**
   * Public root keys, as `syncd keys root` prints them: only what the server has signed for this device grants access,
   * and without a connection only until the grant ends. By default the last answer of the server is believed.
   */
  trust?: { roots: string[] } | null;
  /** The environment whose purchases count, by default `production`. */
  environment?: string;
  /** Returns a token of the app's own issuer, if the user has logged in with one. */
  token?: (() => Promise<string>) | null;
  /** For tests. */
  fetch?: typeof fetch;
  /** The device's clock in milliseconds since 1970, for tests. */
  clock?: () => number;
  /** The time in milliseconds after which a request counts as unanswered, by default 15,000. */
  timeout?: number;
}

export interface LogInOptions {
  /**
   * `adopt` moves what was reported on this device without an account to the account, permanently. By default it stays
   * on the device, until an account adopts it.
   */
  earlierPurchases?: "adopt" | "leaveOnDevice";
}

/** An item of `POST /v1/transactions` that no store has signed. */
export type Item =
  | {
    kind?: "reported"; product: string; transaction: string; date?: string; quantity?: number; expires?: string;
    original?: string; store?: string; environment?: string;
  }
  | { kind: "refunded"; transaction: string; date?: string; reason?: string; store?: string; environment?: string }
  | { kind: "reinstated"; transaction: string; reason?: string; store?: string; environment?: string }
  | { kind: "flag"; product: string; set: boolean }
  | { kind: "pending" | "withdrawn"; product: string };

/** What a store has signed. */
export type Evidence =
  | { kind: "app-store-transaction" | "app-store-renewal"; jws: string }
  | { kind: "app-store-receipt"; data: string }
  | { kind: "google-play"; data: string; signature: string };

/** The server's refusal of an item. */
export interface Problem { code: string; detail: string; check?: string }

export interface Recorded {
  /** True if the server has the item, false while it waits on this device. */
  recorded: boolean;
  /** The reason for which it waits, or for which the purchases could not be read afterwards. */
  failure?: ShopError | null;
}

export type Denial =
  | "notPurchased" | "usedUp" | "logInNeeded" | "restoreNeeded" | "pendingApproval" | "expired" | "revoked"
  /** A purchase is known that the server has not confirmed: no evidence, or no grant covers it. */
  | "unverified"
  /** A purchase is known that another account has. */
  | "ownedByAnotherAccount"
  /** A purchase is known that the server refused for another reason. */
  | "refusedByServer";

export type Access =
  /** `until` is null for access without an end; `units` is the number left, if only units grant access. */
  | { granted: true; until: Date | null; units?: number; source: string }
  /** `until` is the date of the end or of the refund, and `detail` the server's reason for `refusedByServer`. */
  | { granted: false; reason: Denial; until: Date | null; detail?: string };

export type Use =
  /** `remaining` is the number of units left; null if a period or an ownership grants access now. */
  | { granted: true; spent: 0 | 1; remaining?: number | null; failure: ShopError | null }
  | { granted: false; reason: Denial; until: Date | null; failure?: ShopError | null };

export interface Overview {
  /** The name of the account that is logged in. */
  account: string | null;
  /** True if the last sync of this shop has succeeded, false for what an earlier one has read. */
  isCurrent: boolean;
  /** The last answer of `GET /v1/entitlements`. */
  snapshot: Record<string, any> | null;
  /** The last catalogue that was read. */
  catalog: Record<string, any> | null;
  /** The access to each entitlement of the catalogue, now. */
  access: Record<string, Access>;
  /** The number of items that the server has not answered. */
  waiting: number;
  /** The latest items that the server refused, at most 100. */
  refusals: { id: string; item: object; problem: Problem }[];
  failure: ShopError | null;
}

/** The purchases of an app's user on every device. All calls throw `ShopError`. */
export class Shop {
  private constructor();
  /** Opens the purchases of this device. Sends no request. */
  static open(options: Options): Promise<Shop>;
  /** The failure of the last sync; null after a success. */
  readonly failure: ShopError | null;
  /** Ends the observers. Requests under way are finished. */
  close(): void;

  /** The account that is logged in; null for none. */
  account(): Promise<{ name: string; incarnation: string } | null>;
  /**
   * Creates an account and logs in. Returns the recovery codes, which the user sees once: none if the account existed
   * with this password. If the purchases could not be read, the call succeeds, and `failure` has the reason.
   */
  signUp(name: string, password: string, options?: LogInOptions): Promise<string[]>;
  /** Logs in, and reads the purchases. If only that failed, it throws, and the account is logged in. */
  logIn(name: string, password: string, options?: LogInOptions): Promise<void>;
  /**
   * Logs in with a token of the app's own issuer. `token` is called again when the server refuses the token. Pass it to
   * `open` after a restart.
   */
  logIn(token: () => Promise<string>, options?: LogInOptions): Promise<void>;
  /** Sets a new password with a recovery code, and logs in. All recovery codes of the account become invalid. */
  resetPassword(name: string, recoveryCode: string, newPassword: string, options?: LogInOptions): Promise<void>;
  /**
   * Logs out. What was not sent stays on this device, for the same account. Without a network this succeeds too, and
   * the session ends at the server when it expires. `everywhere` ends all sessions of the account; it needs the server.
   */
  logOut(options?: { everywhere?: boolean }): Promise<void>;
  /** Changes the password, which ends all other sessions and invalidates the recovery codes. */
  changePassword(password: string, newPassword: string): Promise<void>;
  /** Replaces the recovery codes, and returns the new ones. */
  renewRecoveryCodes(password: string): Promise<string[]>;
  /** Approves or denies the log-in of a device by the code that it shows. Approving requires the password. */
  decideDevice(userCode: string, approve: boolean, password?: string): Promise<void>;
  /**
   * Deletes the account and its purchases, at the server and on all devices. This cannot be undone. An account of the
   * app's own issuer has no password; the server requires a token that is at most five minutes old, so the function for
   * tokens is called first.
   */
  deleteAccount(password?: string): Promise<void>;

  /**
   * Reports a purchase, a refund or another item that no store has signed. It is durable on this device when this
   * returns, and its transaction counts once however often it is reported. Throws if the server refuses it.
   */
  report(item: Item): Promise<Recorded>;
  /** Sends what stores have signed. Returns a result for each item, with `problem` for one that the server refused. */
  sendEvidence(items: Evidence[]): Promise<(Recorded & { problem?: Problem })[]>;
  /**
   * Reads the account again, after the user has asked for it. Purchases of `evidence` move to this account where the
   * server's rule of ownership allows it. Returns the server's results for the evidence.
   */
  restore(evidence?: Evidence[]): Promise<{ facts?: object[]; problem?: Problem }[]>;
  /** Sends what waits, and reads the account. */
  refresh(): Promise<void>;
  /** The access to an entitlement, now and without a request. A thrown error is not a denial. */
  access(entitlement: string): Promise<Access>;
  /**
   * Uses an entitlement, and spends one unit if only units grant it. Repetitions with the same `id` spend one unit.
   * Without a connection a unit of the last known balance is spent, and the spend waits. If another device has spent
   * the same unit first, the server refuses the spend.
   */
  use(entitlement: string, options?: { id?: string }): Promise<Use>;
  /** The number of items that the server has not answered. */
  waiting(): Promise<number>;
  /** Everything to show, without a request. */
  overview(): Promise<Overview>;
  /**
   * Yields an overview now and after each change, and keeps the purchases current meanwhile: follows the changes of the
   * server, sends what waits, and reads again when a period ends. `signal` ends it, or a `break` in the loop.
   */
  observe(options?: { signal?: AbortSignal }): AsyncGenerator<Overview, void, undefined>;
  /** The catalogue of the server; without a connection the last one that was read. */
  catalog(): Promise<Record<string, any>>;
  /** Everything that the server keeps of the account, such as all facts for a history. */
  export(): Promise<Record<string, any>>;
  /** The present time in milliseconds since 1970, corrected by the server's clock. */
  now(): Promise<number>;
}
