// Makes the page work without a connection after the first visit. Caches the page's files, never the server's data.
//
// The strategy is network first: a page and its modules must be of one version, and for unchanged files the server
// sends a short 304, so little is gained by using the cache earlier. Without a connection, or after three seconds
// without an answer, a page comes from the cache. The files are cached as one set whenever this file changes. A page's
// modules come from the same source as the page: all from the network, or all from one set in the cache.

/** A digest of the files. `check.py --update-version` computes it; `check.py` fails if it is out of date. */
const version = "f675d439b9552f35";
const files = [
  "./", "account-view.js", "dates.js", "entitlement-sync.js", "good-night-owl.svg", "guest-view.js",
  "history-view.js", "history.js", "icon.svg", "main.js", "members.js", "night-owl.svg", "owl-view.js", "owl.js",
  "page.js", "shop-view.js", "shop.js", "style.css",
];
const cachePrefix = "insomniowl-";
const cacheName = cachePrefix + version;
const networkTimeout = 3_000;

/** The paths that this worker handles. Requests to all other paths, such as `/v1`, bypass it. */
const paths = new Set(files.map((file) => new URL(file, self.registration.scope).pathname));
/** Ids of pages that were loaded from the cache. Their modules come from the cache too. */
const cachedClients = new Set();
/** Ids of pages that were loaded from the network. Their modules come from the network too, however slow it is. */
const networkClients = new Set();

async function install() {
  const cache = await caches.open(cacheName);
  await cache.addAll(files.map((file) => new Request(file, { cache: "no-cache" })));
  await self.skipWaiting();
}

async function activate() {
  for (const name of await caches.keys()) {
    if (name.startsWith(cachePrefix) && name !== cacheName) await caches.delete(name);
  }
  await self.clients.claim();
}

async function cached(event) {
  const cache = await caches.open(cacheName);
  const response = await cache.match(new URL(event.request.url).pathname);
  if (response && event.resultingClientId) cachedClients.add(event.resultingClientId);
  return response;
}

async function respond(event) {
  const isCachedClient = event.request.mode !== "navigate" && cachedClients.has(event.clientId);
  const early = isCachedClient ? await cached(event) : null;
  if (early) return early;
  const network = fetch(event.request);
  if (event.request.mode !== "navigate" && networkClients.has(event.clientId)) return network;
  const timeout = new Promise((resolve) => { setTimeout(resolve, networkTimeout, null); });
  const first = await Promise.race([network.catch(() => null), timeout]);
  if (first && first.status < 500) {
    if (event.resultingClientId) networkClients.add(event.resultingClientId);
    return first;
  }
  // Without a cached file, only the late answer of the network is left, or its error.
  return await cached(event) ?? network;
}

self.addEventListener("install", (event) => event.waitUntil(install()));
self.addEventListener("activate", (event) => event.waitUntil(activate()));
self.addEventListener("fetch", (event) => {
  const url = new URL(event.request.url);
  if (event.request.method !== "GET" || url.origin !== self.location.origin || !paths.has(url.pathname)) return;
  event.respondWith(respond(event));
});
