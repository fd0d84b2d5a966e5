// Random owls: unlimited while a subscription is active, otherwise one unit each.

import { counted, dateText } from "./dates.js";
import { drawOwl } from "./owl.js";
import { $, busy, toast } from "./page.js";

const entitlement = "random-owls";
const mostSeen = 8;

/** Shows owls of a shop. The owls seen so far are kept in memory only. */
export class OwlView {
  #shop = null;
  #current = null;
  #seen = [];

  constructor() {
    $("#another").addEventListener("click", (event) => busy(event.currentTarget, () => this.#another()));
  }

  show(shop) {
    this.#shop = shop;
    this.#current = null;
    this.#seen = [];
    this.#draw();
  }

  /** Shows the access, and what the next owl costs. */
  render() {
    const access = this.#access();
    if (!access) return;
    const { lead, cost, label } = this.#words(access);
    $("#owl-standing").replaceChildren(...lead);
    $("#owl-cost").textContent = cost;
    $("#another").textContent = label;
    $("#another").hidden = !access.granted;
    this.#draw();
  }

  /** Shows an owl when the view is opened, unless it costs a unit. */
  greet() {
    const access = this.#access();
    if (this.#current === null && access?.granted && access.units === undefined) this.#present();
  }

  #access() {
    return this.#shop?.snapshot ? this.#shop.access(entitlement) : null;
  }

  #words(access) {
    if (!access.granted) {
      const link = document.createElement("a");
      link.href = "#/shop";
      link.textContent = "in the shop";
      const hasPacks = this.#shop.packs.length > 0;
      const ways = hasPacks ? "Subscribe, or buy owls, " : "Subscribe ";
      const reason = {
        expired: access.until && `Your subscription ended on ${dateText(access.until)}. ${ways}`,
        usedUp: `You have used all your owls. ${hasPacks ? "Buy more, or subscribe, " : ways}`,
        unverified: "The server has not confirmed your purchase yet. See your purchases ",
        ownedByAnotherAccount: "Your purchase belongs to another account. Log in there, or see your purchases ",
        refusedByServer: "The server did not accept your purchase. Ask for help, or see your purchases ",
      }[access.reason] || `No owls yet. ${ways}`;
      return { lead: [reason, link, "."], cost: "", label: "Show an owl" };
    }
    const label = this.#current === null ? "Show an owl" : "Another owl";
    if (access.units !== undefined) {
      return { lead: [`${counted(access.units ?? 0, "owl")} left`], cost: "The next owl uses one of them.", label };
    }
    const lead = access.until ? `Unlimited owls until ${dateText(access.until)}` : "Unlimited owls";
    return { lead: [lead], cost: "", label };
  }

  async #another() {
    const outcome = await this.#shop.use(entitlement);
    if (!outcome.denied) this.#present();
    if (outcome.spent) toast(outcome.remaining === null ? "1 owl used." : `1 owl used, ${outcome.remaining} left.`);
    this.render();
  }

  #present() {
    if (this.#current !== null) this.#seen = [this.#current, ...this.#seen].slice(0, mostSeen);
    [this.#current] = crypto.getRandomValues(new Uint32Array(1));
    this.#draw(true);
  }

  #draw(isNew = false) {
    const frame = $("#owl");
    if (this.#current === null) {
      const empty = document.createElement("p");
      empty.className = "empty";
      empty.textContent = "No owl on the branch yet.";
      frame.replaceChildren(empty);
      $("#owl-words").textContent = "";
    } else if (isNew || !$("svg", frame)) {
      const owl = drawOwl(this.#current);
      frame.replaceChildren(owl);
      frame.dataset.seed = String(this.#current);
      $("#owl-words").textContent = `${owl.getAttribute("aria-label")}.`;
    }
    if (isNew || this.#seen.length === 0) this.#drawSeen();
  }

  #drawSeen() {
    $("#seen-part").hidden = this.#seen.length === 0;
    $("#seen").replaceChildren(...this.#seen.map((seed) => {
      const item = document.createElement("li");
      item.append(drawOwl(seed));
      return item;
    }));
  }
}
