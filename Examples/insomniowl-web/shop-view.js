// The shop: the account's entitlements, and the list of products.

import { counted, dateText } from "./dates.js";
import { drawPortrait, drawSign, portraits } from "./owl.js";
import { $, busy, toast } from "./page.js";
import { durationOf } from "./shop.js";

/** The product's name in the browser's language, else in English; its id if it has no name. */
export function nameOf(product) {
  const names = product.names ?? {};
  for (const language of [...navigator.languages, "en"]) {
    const name = names[language] ?? names[language.split("-")[0]];
    if (name) return name;
  }
  return Object.values(names)[0] ?? product.id;
}

function durationText(text) {
  const { months, days, seconds } = durationOf(text);
  return [months && counted(months, "month"), days && counted(days, "day"), seconds && counted(seconds, "second")]
    .filter(Boolean).join(", ");
}

const isTimed = (product) => product.type === "nonRenewing" || product.type === "autoRenewable";

/** An element with a class and a text. */
export function make(tag, className, text = "") {
  const node = document.createElement(tag);
  node.className = className;
  node.textContent = text;
  return node;
}

/** The picture of a product, which may no longer be in the catalogue. */
export function pictureOf(product) {
  const short = product.id.split(".").at(-1);
  if (portraits[short]) return drawPortrait(short);
  if (product.type === "consumable") return drawSign("eggs", product.units ?? 1);
  return isTimed(product) ? drawSign("moons", durationOf(product.duration).months || 1) : drawPortrait(short);
}

/** Shows a shop, and binds its buttons. */
export class ShopView {
  #shop;
  #rows = new Map();

  constructor() {
    $("#restore").addEventListener("click", (event) => busy(event.currentTarget, () => this.#restore()));
  }

  /** Shows `shop` from now on; null for none. */
  show(shop) {
    this.#shop = shop;
    this.#rows.clear();
    for (const list of ["#timed", "#kept", "#standing"]) $(list).replaceChildren();
  }

  render() {
    const shop = this.#shop;
    if (!shop?.catalog || !shop.snapshot) return;
    if (this.#rows.size === 0) this.#build();
    this.#renderStanding();
    for (const [id, row] of this.#rows) this.#renderRow(shop.product(id), row);
  }

  #build() {
    for (const product of this.#shop.catalog.products) {
      const row = $("#product").content.firstElementChild.cloneNode(true);
      row.dataset.product = product.id;
      $(".name", row).textContent = nameOf(product);
      $(".picture", row).append(pictureOf(product));
      $(product.type === "nonConsumable" ? "#kept" : "#timed").append(row);
      this.#rows.set(product.id, row);
    }
  }

  #renderStanding() {
    const shop = this.#shop;
    const groups = [...new Set(shop.catalog.products.filter(isTimed).map((product) => product.group))];
    const standing = $("#standing");
    standing.replaceChildren(...groups.flatMap((group) => this.#groupStanding(shop.subscription(group))));
    const units = shop.catalog.products.filter((product) => product.type === "consumable" && shop.sharesUnits)
      .map((product) => `${counted(shop.balance(product.id), "owl")} left`);
    const keepable = shop.catalog.products.filter((product) => product.type === "nonConsumable");
    const owned = keepable.filter((product) => shop.isOwned(product.id));
    const pills = make("div", "pills");
    const texts = [...units, `${owned.length} of ${keepable.length} owls owned`];
    pills.append(...texts.map((text) => make("span", "pill", text)));
    standing.append(pills);
  }

  #groupStanding(subscription) {
    const text = make("div", "text");
    const big = (words) => make("p", "big", words);
    const small = (words) => make("p", "small", words);
    if (!subscription?.expires) {
      const sizes = [...new Set(this.#shop.packs.map((product) => product.units ?? 1))].sort((a, b) => a - b);
      const list = [sizes.slice(0, -1).join(", "), sizes.at(-1)].filter((part) => part !== "").join(" or ");
      const packs = sizes.length > 0 ? `, or buy ${list} at a time` : "";
      text.append(big("No subscription yet"), small(`Subscribe for unlimited owls${packs}.`));
      return [text];
    }
    if (!subscription.active) {
      text.append(big(`Your subscription ended on ${dateText(subscription.expires)}`),
        small("Subscribe again for unlimited owls."));
      return [text];
    }
    text.append(big(`Subscribed until ${dateText(subscription.expires)}`),
      small(`${counted(subscription.daysRemaining, "day")} left${this.#shop.isStale ? " at your last visit" : ""}`));
    const end = Date.parse(subscription.expires);
    // The start of the first of the periods that follow one another without a gap.
    let start = end;
    const lastFirst = (left, right) => Date.parse(right.end) - Date.parse(left.end);
    for (const period of [...subscription.periods].sort(lastFirst)) {
      if (Date.parse(period.end) >= start) start = Math.min(start, Date.parse(period.start));
    }
    const left = (end - Date.parse(this.#shop.snapshot.at)) / Math.max(1, end - start);
    const time = make("div", "time");
    const filled = document.createElement("span");
    filled.style.width = `${Math.round(Math.min(1, Math.max(0, left)) * 100)}%`;
    time.append(filled);
    return [text, time];
  }

  #renderRow(product, row) {
    const state = this.#state(product);
    row.hidden = product.forSale === false && !state.note;
    row.classList.toggle("locked", product.type === "nonConsumable" && !state.note);
    $(".about", row).textContent = state.about;
    const action = $(".action", row);
    const button = $("button", action);
    if (state.note) {
      if (action.textContent === state.note) return;
      const hadFocus = button !== null && button === document.activeElement;
      action.replaceChildren(make("span", "owned", state.note));
      if (hadFocus) {
        $(".name", row).tabIndex = -1;
        $(".name", row).focus();
      }
      return;
    }
    if (button) {
      button.textContent = state.label;
      button.setAttribute("aria-label", `${state.label}: ${nameOf(product)}`);
      button.disabled = !state.isPossible;
      return;
    }
    const made = make("button", "", state.label);
    made.type = "button";
    made.disabled = !state.isPossible;
    made.setAttribute("aria-label", `${state.label}: ${nameOf(product)}`);
    made.addEventListener("click", () => busy(made, () => this.#buy(product)));
    action.replaceChildren(made);
  }

  /** The contents of a row: {about, label, isPossible}, or {about, note} if there is nothing to buy. */
  #state(product) {
    const shop = this.#shop;
    switch (product.type) {
      case "nonConsumable":
        return shop.isOwned(product.id)
          ? { about: "Yours on every device.", note: "Owned" }
          : { about: "One owl, yours forever.", label: "Buy", isPossible: true };
      case "consumable":
        return shop.sharesUnits
          ? {
            about: `Adds ${counted(product.units ?? 1, "owl")}. You have ${shop.balance(product.id)} left.`,
            label: "Buy", isPossible: true,
          }
          : { about: "Sold in the app only: these owls stay on one device.", label: "Buy", isPossible: false };
      default: {
        const isActive = shop.subscription(product.group)?.active ?? false;
        const bonus = shop.catalog.policy?.bonus;
        const extra = bonus && bonus !== "P0D" ? ` and ${durationText(bonus)} free` : "";
        return {
          about: `${isActive ? "Adds" : "Lasts"} ${durationText(product.duration)}${extra}.`,
          label: isActive ? "Renew" : "Subscribe", isPossible: true,
        };
      }
    }
  }

  async #buy(product) {
    const shop = this.#shop;
    const isRead = await shop.buy(product);
    if (product.type === "consumable") {
      const added = `${counted(product.units ?? 1, "owl")} added`;
      return toast(isRead ? `${added}, ${shop.balance(product.id)} left.` : `${added}.`);
    }
    const until = isTimed(product) && isRead ? shop.subscription(product.group)?.expires : null;
    return toast(until ? `Subscribed until ${dateText(until)}.` : `${nameOf(product)} is yours.`);
  }

  async #restore() {
    const { purchases, isNew } = await this.#shop.restore();
    if (purchases === 0) toast("This account has no purchases yet.");
    else toast(`${counted(purchases, "purchase")} restored${isNew ? "." : ". There is nothing new."}`);
  }
}
