// Choose a kernel; link lines of PTX, SASS, findings, tables and boxes of the CFG. No library, no network.
const all = (q, root = document) => [...root.querySelectorAll(q)];
function show(id) {
  all(".kernel").forEach(k => k.classList.toggle("on", k.id === id));
  const chooser = document.querySelector("header select");
  if (chooser) chooser.value = id;
}
function tab(button) {
  const pane = button.closest(".pane");
  all(".tabs button", pane).forEach(b => b.classList.toggle("on", b === button));
  all(".tab", pane).forEach(t => t.classList.toggle("on", t.dataset.tab === button.dataset.tab));
}
function mark(kernel, line, from) {
  all(".mark", kernel).forEach(e => e.classList.remove("mark"));
  const rows = all(`.row[data-line="${line}"]`, kernel), sass = all(`.sline[data-line="${line}"]`, kernel);
  [...rows, ...sass].forEach(e => e.classList.add("mark"));
  if (rows[0] && from !== "ptx") centre(rows[0]);
  if (sass[0] && from !== "sass" && sass[0].closest(".tab").classList.contains("on")) centre(sass[0]);
}
// Scroll the pane of an element, and never the page.
function centre(element) {
  const pane = element.closest(".pane");
  pane.scrollTop += element.getBoundingClientRect().top - pane.getBoundingClientRect().top - pane.clientHeight / 2;
}
document.addEventListener("click", event => {
  const button = event.target.closest(".tabs button");
  if (button) return tab(button);
  const target = event.target.closest("[data-line]");
  if (!target) return;
  const from = target.classList.contains("row") ? "ptx" : target.classList.contains("sline") ? "sass" : "";
  mark(target.closest(".kernel"), target.dataset.line, from);
});
all(".overview").forEach(svg => svg.addEventListener("click", event => {
  const box = svg.getBoundingClientRect(), first = +svg.dataset.first, last = +svg.dataset.last;
  const line = Math.round(first + (event.clientX - box.left) / box.width * (last - first));
  const kernel = svg.closest(".kernel");
  const row = kernel.querySelector(`.row[data-line="${line}"]`);
  if (row) mark(kernel, line, "");
}));
const chooser = document.querySelector("header select");
if (chooser) chooser.addEventListener("change", () => { show(chooser.value); location.hash = chooser.value; });
const wanted = location.hash.slice(1).split("/");
show(document.getElementById(wanted[0]) ? wanted[0] : document.querySelector(".kernel").id);
if (wanted[1]) { const b = document.querySelector(`.kernel.on button[data-tab="${wanted[1]}"]`); if (b) tab(b); }
if (wanted[2]) mark(document.querySelector(".kernel.on"), wanted[2], "");
// A wide CFG starts with its entry in view.
all("svg.cfg").forEach(svg => {
  const entry = svg.querySelector("rect"), pane = svg.closest(".wide");
  if (!entry) return;
  const box = entry.getBoundingClientRect(), frame = pane.getBoundingClientRect();
  if (box.width) pane.scrollLeft += box.left + box.width / 2 - frame.left - pane.clientWidth / 2;
});
