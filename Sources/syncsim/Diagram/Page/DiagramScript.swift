import SyncSimulation

/// The page's script: highlights related events and switches between light and dark. It copies text only as text,
/// never as markup.
enum DiagramScript {
    static let text: StaticString = """

        "use strict";
        (() => {
          const root = document.documentElement, full = document.getElementById("full");
          const button = document.getElementById("theme");
          const dark = matchMedia("(prefers-color-scheme: dark)");
          const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
          const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
          button.hidden = false;
          button.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; name(); });
          dark.addEventListener("change", name);
          name();

          const rows = [...document.querySelectorAll(".rows .event")];
          const byKey = new Map();
          for (const element of document.querySelectorAll("[data-k]")) {
            const key = element.dataset.k;
            if (!byKey.has(key)) byKey.set(key, []);
            byKey.get(key).push(element);
          }
          let lit = null;
          const clear = () => {
            for (const element of byKey.get(lit) ?? []) element.classList.remove("lit");
            document.body.classList.remove("lighting");
            full.hidden = true;
            lit = null;
          };
          const light = key => {
            if (key === lit) return;
            clear();
            lit = key;
            const elements = byKey.get(key) ?? [];
            for (const element of elements) element.classList.add("lit");
            document.body.classList.toggle("lighting", key.startsWith("m"));
            const lines = elements.filter(element => element.matches(".event")).map(element =>
              [...element.querySelectorAll(".time, .words")].map(part => part.title).join("  "));
            full.textContent = lines.join("\\n");
            full.hidden = lines.length === 0;
          };
          const follow = event => {
            const element = event.target instanceof Element ? event.target.closest("[data-k]") : null;
            if (element) light(element.dataset.k); else if (event.type === "mouseover") clear();
          };
          document.addEventListener("mouseover", follow);
          document.addEventListener("focusin", follow);
          document.addEventListener("focusout", clear);

          // A narrow window shows only some of the lanes, between the times and the words; on a phone the
          // words scroll with the lanes.
          const phone = matchMedia("(max-width: 700px)");
          const reveal = row => {
            const mark = (byKey.get(row.dataset.k) ?? []).find(element => element.matches(".mark"));
            const box = mark?.getBoundingClientRect();
            if (box && (box.left < 130 || box.right > innerWidth - (phone.matches ? 20 : 240))) {
              mark.scrollIntoView({block: "nearest", inline: "center"});
            }
          };
          const arrive = () => {
            const row = rows.find(row => "#" + row.id === location.hash);
            if (row) reveal(row);
          };
          addEventListener("hashchange", arrive);
          addEventListener("load", arrive);

          const go = row => {
            if (!row) return;
            for (const other of rows) other.tabIndex = -1;
            row.tabIndex = 0;
            row.focus();
            reveal(row);
          };
          document.addEventListener("keydown", event => {
            const here = rows.indexOf(document.activeElement);
            if (event.key === "Escape") clear();
            if (here < 0 || event.altKey || event.ctrlKey || event.metaKey) return;
            const target = {
              ArrowDown: rows[here + 1], ArrowUp: rows[here - 1], Home: rows[0], End: rows[rows.length - 1],
              Enter: (() => {
                const group = rows.filter(row => row.dataset.k === rows[here].dataset.k);
                return group[(group.indexOf(rows[here]) + 1) % group.length];
              })(),
            }[event.key];
            if (!target) return;
            event.preventDefault();
            go(target);
          });
          document.addEventListener("click", event => {
            const element = event.target instanceof Element ? event.target.closest(".body [data-k]") : null;
            if (element) go(rows.find(row => row.dataset.k === element.dataset.k));
          });
        })();

        """
}
