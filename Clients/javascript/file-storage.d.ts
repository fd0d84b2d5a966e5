import type { Storage } from "./entitlement-sync.js";

/**
 * A storage in a folder, for Node.js. Processes of one machine may share it. It has the tokens of the session, so only
 * its owner may read it.
 */
export function fileStorage(folder: string): Storage;
