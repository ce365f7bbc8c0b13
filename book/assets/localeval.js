/* Tables sort by a column, boxes that scroll can be reached by keyboard, controls are named by what they show.
   Pages are complete without this script. */
(() => {
  "use strict";

  const text = (row, column) => row.cells[column].textContent.trim();

  /* The number a cell begins with: "1,234", "−0.05", "71.2%", "0.71 [0.62, 0.80]". NaN for words. */
  const number = (cell) => parseFloat(cell.replace(/^[<>] /, "").replace(/−/g, "-").replace(/,(?=\d{3})/g, ""));

  const compare = (a, b) => {
    const [x, y] = [number(a), number(b)];
    if (!Number.isNaN(x) && !Number.isNaN(y)) return x - y;
    return a.localeCompare(b, "en", { numeric: true });
  };

  function sort(table, column, ascending) {
    const body = table.tBodies[0];
    const missing = (row) => text(row, column) === "—"; /* what is not defined stays last, either way */
    const rows = [...body.rows].sort((a, b) => {
      if (missing(a) || missing(b)) return missing(a) - missing(b);
      const order = compare(text(a, column), text(b, column));
      return ascending ? order : -order;
    });
    body.append(...rows);
  }

  function makeSortable(table) {
    const headers = [...table.tHead.rows[0].cells];
    headers.forEach((header, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "le-sort";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => {
        const ascending = header.getAttribute("aria-sort") !== "ascending";
        headers.forEach((other) => other.removeAttribute("aria-sort"));
        header.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        sort(table, column, ascending);
      });
    });
  }

  /* A box that scrolls says so; one that has nothing to scroll is not a stop for the tab key. */
  function keepReachable(box) {
    const update = () => {
      const more = box.scrollWidth > box.clientWidth + 1;
      if (more) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
      box.toggleAttribute("data-more", more);
    };
    new ResizeObserver(update).observe(box);
    update();
  }

  /* The theme names some controls with words that are not the ones to be seen on them; what is seen is the better name. */
  function nameAsSeen() {
    document.querySelectorAll("summary[aria-label], .search-button-field[aria-label]").forEach((control) => {
      control.removeAttribute("aria-label");
    });
    document.querySelectorAll("nav details > summary").forEach((summary) => {
      const page = summary.closest("li").querySelector("a");
      if (!summary.textContent.trim() && page) summary.setAttribute("aria-label", `Pages below ${page.textContent.trim()}`);
    });
    document.querySelectorAll(".theme-switch-button [title]").forEach((icon) => icon.removeAttribute("title"));
  }

  document.addEventListener("DOMContentLoaded", () => {
    nameAsSeen();
    document.querySelectorAll(".text_html:has(> table.dataframe, > div > table.dataframe)").forEach((box) => {
      box.classList.add("le-scroll");
    });
    document.querySelectorAll(".pst-scrollable-table-container").forEach((box) => box.classList.add("le-scroll"));
    document.querySelectorAll("table.le-sortable").forEach(makeSortable);
    document.querySelectorAll(".le-scroll").forEach(keepReachable);
  });
})();
