"use strict";
(() => {
  const figures = JSON.parse(document.getElementById("figures").textContent);
  const shade = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // Plotly takes some tags in labels for markup: a label is text, whatever it says.
  const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
  const literal = (text) => text.replace(/[&<>]/g, (sign) => entities[sign]);

  // Colours are named as CSS variables, so that a figure follows the theme of the page.
  const resolve = (value) => {
    if (typeof value === "string") return value.startsWith("var(--") ? shade(value.slice(4, -1)) : literal(value);
    if (Array.isArray(value)) return value.map(resolve);
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, resolve(inner)]));
  };

  // Paper cannot be asked for its width, and its pages are counted before charts are drawn anew: the style sheet sets
  // their height, and the narrower of A4 and Letter their width.
  const paper = matchMedia("print");
  const size = (place) => (paper.matches
    ? { width: place.closest(".row") ? 325 : 680, height: place.clientHeight }
    : { autosize: true });

  const axis = (own) => ({
    gridcolor: shade("--rule"), zerolinecolor: shade("--rule"), linecolor: shade("--rule"), automargin: true, ...own,
    title: { standoff: 8, ...(own || {}).title },
  });

  const draw = (place) => {
    const figure = resolve(figures[place.dataset.figure]);
    const layout = {
      ...figure.layout, ...size(place),
      xaxis: axis(figure.layout.xaxis), yaxis: axis(figure.layout.yaxis),
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: shade("--ink"), family: getComputedStyle(document.body).fontFamily, size: paper.matches ? 9 : 12 },
      hoverlabel: { bgcolor: shade("--raised"), bordercolor: shade("--rule"), font: { color: shade("--ink") } },
      legend: { orientation: "h", x: 0, y: 1.02, xanchor: "left", yanchor: "bottom" },
      margin: { l: 50, r: 12, t: 16, b: 44 },
    };
    return Plotly.react(place, figure.data, layout, { displayModeBar: false, responsive: true });
  };

  const drawAll = () => Promise.all([...document.querySelectorAll(".chart")].map(draw));

  const key = (row, column) => {
    const cell = row.cells[column];
    return "sort" in cell.dataset ? Number(cell.dataset.sort) : cell.textContent.trim();
  };

  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    if (typeof a === typeof b) return a.localeCompare(b, "en", { numeric: true });
    return typeof a === "number" ? -1 : 1;
  };

  const sortBy = (header) => {
    const table = header.closest("table"), body = table.tBodies[0];
    const up = header.getAttribute("aria-sort") !== "ascending";
    for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...body.rows].map((row) => [key(row, header.cellIndex), row]);
    rows.sort((a, b) => (up ? 1 : -1) * compare(a[0], b[0]));
    body.append(...rows.map((entry) => entry[1]));
  };

  for (const header of document.querySelectorAll("table.sortable th"))
    header.querySelector("button").addEventListener("click", () => sortBy(header));

  drawAll().then(() => document.documentElement.setAttribute("data-drawn", "true"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  paper.addEventListener("change", drawAll);
  addEventListener("beforeprint", () => {
    for (const fold of document.querySelectorAll("details")) fold.open = true;
  });
})();
