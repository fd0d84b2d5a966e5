// The purchase history: each purchase with its date, what it gave, and its state.

import { counted, dateText } from "./dates.js";
import { $ } from "./page.js";
import { make, nameOf, pictureOf } from "./shop-view.js";

/** {text, kind} of a purchase's state; `kind` is a class of style.css. */
function stateOf(purchase, shop) {
  if (purchase.revoked !== null) return { text: `Refunded on ${dateText(purchase.revoked)}`, kind: "bad" };
  if (purchase.refused !== undefined) return { text: `Not accepted: ${purchase.refused}`, kind: "bad" };
  if (purchase.isTransferred) return { text: "Belongs to another account", kind: "bad" };
  if (purchase.transaction.environment !== "production") return { text: "Test purchase", kind: "past" };
  if (purchase.kind === "nonConsumable") return { text: "Owned", kind: "good" };
  if (purchase.kind === "consumable") return { text: "Added", kind: "good" };
  const period = shop.period(purchase);
  if (!period) return { text: "Not active", kind: "past" };
  if (period.end <= shop.now()) return { text: "Ended", kind: "past" };
  return period.start <= shop.now() ? { text: "Active", kind: "good" } : { text: "Starts later", kind: "past" };
}

/** What a purchase gave: a period, units, or an owl to keep. */
function contentOf(purchase, shop) {
  if (purchase.kind === "consumable") return counted(purchase.units, "owl");
  if (purchase.kind === "nonConsumable") return "One owl to keep";
  const period = shop.period(purchase);
  return period ? `${dateText(period.start)} – ${dateText(period.end)}` : "";
}

/** Shows the purchases of a shop. */
export class HistoryView {
  #shop = null;
  #shown = "";

  /** Shows `shop` from now on; null for none. */
  show(shop) {
    this.#shop = shop;
    this.#shown = "";
    $("#history").replaceChildren();
    $("#history-empty").hidden = true;
  }

  render() {
    const shop = this.#shop;
    if (!shop?.catalog || !shop.snapshot) return;
    const { purchases } = shop;
    // While the first answer is on its way, nothing is shown.
    $("#history-empty").hidden = purchases === null ? !shop.isCurrent : purchases.length > 0;
    $("#history-empty").textContent = purchases === null
      ? "Your purchases cannot be read at the moment." : "You have not bought anything yet.";
    const rows = (purchases ?? []).map((purchase) => ({
      id: purchase.transaction.id, product: purchase.product, date: purchase.date,
      content: contentOf(purchase, shop), state: stateOf(purchase, shop),
    }));
    // Unchanged rows are not replaced, so that selected text stays selected.
    if (JSON.stringify(rows) === this.#shown) return;
    this.#shown = JSON.stringify(rows);
    $("#history").replaceChildren(...rows.map((row) => this.#row(row)));
  }

  #row({ id, product, date, content, state }) {
    const known = this.#shop.product(product) ?? { id: product };
    const row = make("li", "purchase");
    row.dataset.transaction = id;
    const picture = make("div", "picture");
    picture.append(pictureOf(known));
    const time = make("time", "", dateText(date));
    time.dateTime = new Date(date).toISOString();
    const bought = make("p", "about", "Bought on ");
    bought.append(time);
    const text = make("div", "what");
    text.append(make("h2", "name", nameOf(known)), ...(content ? [make("p", "content", content)] : []), bought);
    row.append(picture, text, make("p", `state ${state.kind}`, state.text));
    return row;
  }
}
