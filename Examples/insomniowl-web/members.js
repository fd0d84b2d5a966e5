// The views that need an account. main.js loads this module when there is one.

import {
  areCodesShown, bindAccount, confirmLeavingCodes, forgetCodes, showAccount, showCodes, showSince,
} from "./account-view.js";
import { momentText } from "./dates.js";
import { HistoryView } from "./history-view.js";
import { OwlView } from "./owl-view.js";
import { Shop } from "./shop.js";
import { ShopView } from "./shop-view.js";

/** Shows one account after another. */
export class Members {
  #client;
  #go;
  #changed;
  #shop = null;
  #owls = new OwlView();
  #views = [new ShopView(), this.#owls, new HistoryView()];

  /** `calls` are those that change the account. `go(view)` shows a view; `changed()` is called after each change. */
  constructor(client, calls, { go, changed }) {
    [this.#client, this.#go, this.#changed] = [client, go, changed];
    bindAccount(client, calls, go);
  }

  /** Shows `account` from now on; null for none. */
  show(account) {
    this.#shop?.close();
    const shop = account && new Shop(this.#client, account.incarnation);
    this.#shop = shop;
    shop?.addEventListener("change", () => {
      this.#changed();
      this.#render();
    });
    forgetCodes();
    for (const view of this.#views) view.show(shop);
    showAccount(account);
  }

  /** Shows an overview of the client, which is of the account. */
  async update(overview) { await this.#shop?.update(overview); }

  /** Prepares a view that is shown now. */
  enter(view) {
    if (view === "owls") this.#owls.greet();
    if (view === "account") showSince(this.#client);
    this.#render();
  }

  #render() { for (const view of this.#views) view.render(); }

  /** True if there are purchases to show. */
  isReady() { return Boolean(this.#shop?.catalog && this.#shop.snapshot); }

  /** True while the data of an earlier visit is shown. */
  isStale() { return this.#shop?.isStale === true; }

  /** The time of the data that is shown, for the notice that there is no connection. */
  stateText() {
    if (!this.#shop?.snapshot) return "";
    return ` You see your purchases as of ${momentText(this.#shop.snapshot.at)}. You can buy and spend owls again once the `
      + "connection is back.";
  }

  /** Shows recovery codes, and calls `next` when the user leaves them. */
  showCodes(codes, next) { showCodes(codes, this.#go, next); }
  areCodesShown() { return areCodesShown(); }
  confirmLeavingCodes() { confirmLeavingCodes(); }
}
