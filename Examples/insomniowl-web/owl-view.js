// A random owl: a new one as often as you like while the subscription is active, else for a unit each.

import { $, busy, counted, dateText } from "./page.js";
import { drawOwl } from "./owl.js";

const entitlement = "random-owls";
const mostSeen = 8;

/** Shows owls of a shop. What was seen is forgotten with the page. */
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

  /** What stands beside the owl. */
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

  /** An owl for whoever opens the view; one that costs a unit only comes when asked for. */
  greet() {
    const access = this.#access();
    if (this.#current === null && access?.granted && !access.because.startsWith("units:")) this.#present();
  }

  #access() {
    if (!this.#shop?.snapshot) return null;
    return this.#shop.snapshot.access[entitlement] ?? { granted: false, reason: "notPurchased" };
  }

  #words(access) {
    if (!access.granted) {
      const link = document.createElement("a");
      link.href = "#/shop";
      link.textContent = "in the shop";
      const reason = access.reason === "expired" && access.date
        ? `Your subscription ended on ${dateText(access.date)}. ` : "No owl has come. ";
      return { lead: [`${reason}Subscribe, or buy owls, `, link, "."], cost: "", label: "Show an owl" };
    }
    const label = this.#current === null ? "Show an owl" : "Another owl";
    if (access.because.startsWith("units:")) {
      return { lead: [`${counted(access.units ?? 0, "owl")} left`], cost: "The next one uses one of them.", label };
    }
    const lead = access.until ? `As many as you like until ${dateText(access.until)}` : "As many as you like";
    return { lead: [lead], cost: "", label };
  }

  async #another() {
    const outcome = await this.#shop.use(entitlement);
    if (outcome.denied) return this.render();
    this.#present();
    return this.render();
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
      empty.textContent = "Nobody on the branch yet.";
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
