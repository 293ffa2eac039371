// The page: combines the graph and the panels and keeps their selections in sync.

const element = (id) => document.getElementById(id);
const state = { stage: 0, view: 0, work: -1, tab: 0, sorted: "order" };
const graph = new Graph(element("canvas"), element("map"), onNode);
let data = null; // the data from Python, once unpacked
const fused = () => data.stages.length - 1; // the last stage: what runs

function facts() {
  const [before, after] = [data.stages[0].count, data.work.length];
  const times = data.work.map((work) => work.seconds).filter((time) => time !== null);
  const compiling = Object.values(data.seconds).reduce((total, time) => total + time, 0);
  const arrow = () => make("span", { class: "arrow" }, "→");
  const fact = (label, ...value) => make("div", { class: "fact" }, make("b", {}, ...value), make("span", {}, label));
  element("facts").replaceChildren(...[
    fact("steps → what runs", String(before), arrow(), String(after)),
    fact("memory moved", amount(data.bytes.before, "B"), arrow(), amount(data.bytes.after, "B")),
    fact("peak memory", amount(data.native.peak, "B")),
    times.length ? fact("a call", duration(times.reduce((total, time) => total + time, 0))) : null,
    fact("compiled in", duration(compiling)),
  ].filter(Boolean));
}

function showStage(index, selected = -1) {
  state.stage = index;
  const names = data.stages.map((stage) => [stage.title, stage.count]);
  const chosen = tabs(names, index, (other) => showStage(other, sameIn(other)), "Stages");
  chosen.id = "stages";
  element("stages").replaceWith(chosen);
  element("search").value = "";
  graph.show(data.stages[index], selected);
  const cards = "Each card is one kernel, BLAS call or host step. Darker cards take more time; a green dot marks results.";
  const notes = ["Dashed boxes are gone after simplification.", "Boxes of one colour run in one kernel."];
  element("note").textContent = index === fused() ? cards : notes[Math.min(index, 1)];
}

// The box of another stage that corresponds to the selected entry of the program.
function sameIn(stage) {
  const group = state.work >= 0 ? data.work[state.work].group : -1;
  if (group < 0 || stage === 0) return -1;
  return data.stages[stage].nodes.findIndex((node) => node.group === group);
}

function onNode(index) {
  const node = index >= 0 ? data.stages[state.stage].nodes[index] : null;
  if (!node) {
    state.work = -1;
    element("details").replaceChildren(make("p", { class: "muted" }, "Choose a box of the graph, or a row of the table."));
  } else if (node.card && node.work.length) {
    showWork(node.work[0]);
    return;
  } else if (node.card) {
    state.work = -1;
    element("details").replaceChildren(make("h2", {}, node.title), make("p", { class: "muted" }, "It hands on what is there already."));
  } else {
    const work = data.work.findIndex((each) => node.group >= 0 && each.group === node.group);
    state.work = work;
    const link = work < 0 ? null : make("button", { class: "chip", onclick: () => openWork(work) }, `${data.work[work].kind} ${work}: ${data.work[work].name}`);
    element("details").replaceChildren(nodeDetails(data.stages[state.stage], index, (other) => graph.select(other, true), link));
  }
  showView(state.view);
}

// Selects an entry of the program in the table and in the graph of kernels.
function openWork(index) {
  state.work = index;
  if (state.stage !== fused()) showStage(fused(), sameIn(fused()));
  else {
    const box = sameIn(fused());
    graph.selected = box;
    if (box >= 0) graph.reveal(box);
    graph.draw();
  }
  showWork(index);
}

function showWork(index) {
  state.work = index;
  const choose = (tab) => {
    state.tab = tab;
    showWork(index);
  };
  element("details").replaceChildren(workDetails(data, index, state.tab, choose));
  showView(state.view);
}

function showView(index) {
  const same = state.view === index && element("view").childElementCount > 0;
  state.view = index;
  const names = [["Program", data.work.length], ["Memory"], ["Cache"], ["Text"]];
  const chosen = tabs(names, index, showView, "Views");
  chosen.id = "views";
  element("views").replaceWith(chosen);
  if (same && index === 0) {
    for (const row of element("view").querySelectorAll("tr.row")) {
      const chosenRow = Number(row.dataset.work) === state.work;
      row.setAttribute("aria-selected", chosenRow);
      if (chosenRow) scrollToRow(row, element("view"));
    }
    return;
  }
  if (same) return;
  const panels = [() => workTable(data, state.work, openWork, state.sorted, sortBy), () => memoryPanel(data), () => cachePanel(data), () => textPanel(data)];
  element("view").replaceChildren(panels[index]());
}

// Scrolls a list to one of its rows; the page stays where it is.
function scrollToRow(row, list) {
  const { top, bottom } = row.getBoundingClientRect(), frame = list.getBoundingClientRect();
  const head = list.querySelector("th").getBoundingClientRect().height;
  list.scrollTop += Math.min(0, top - head - frame.top) + Math.max(0, bottom - frame.bottom);
}

function sortBy(column) {
  state.sorted = column;
  element("view").replaceChildren();
  showView(0);
}

// The share of the time of each card, for the graph to colour, and the entry that takes the most.
function heat() {
  const total = data.work.reduce((sum, work) => sum + (work.seconds || 0), 0);
  if (!total) return -1;
  for (const node of data.stages[fused()].nodes) {
    if (node.card) node.share = node.work.reduce((sum, index) => sum + (data.work[index].seconds || 0), 0) / total;
  }
  return data.work.reduce((most, work, index) => (work.seconds > (data.work[most].seconds || 0) ? index : most), 0);
}

function search(text) {
  const wanted = text.trim().toLowerCase();
  const nodes = data.stages[state.stage].nodes;
  const words = (node) => [node.title, node.below, node.line, ...(node.card || []), node.source ? node.source.place : ""].join(" ").toLowerCase();
  const hits = nodes.flatMap((node, index) => (words(node).includes(wanted) ? [index] : []));
  graph.found = wanted ? new Set(hits) : null;
  graph.draw();
  return hits;
}

element("search").addEventListener("input", (event) => search(event.target.value));
element("search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  const hits = search(event.target.value);
  if (hits.length) graph.select(hits[(hits.indexOf(graph.selected) + 1) % hits.length], true);
});
element("in").addEventListener("click", () => graph.zoomAt(1.3));
element("out").addEventListener("click", () => graph.zoomAt(1 / 1.3));
element("fit").addEventListener("click", () => graph.fit(true));
element("view").addEventListener("keydown", (event) => {
  const row = event.target.closest("tr.row");
  if (row && event.key === "Enter") openWork(Number(row.dataset.work));
});

// Light or dark: follows the system until the user chooses.
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
function theme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  graph.draw();
}
prefersDark.addEventListener("change", (event) => theme(event.matches));
element("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme !== "dark"));

element("divider").addEventListener("pointerdown", (event) => {
  const divider = event.target;
  divider.setPointerCapture(event.pointerId);
  const move = (moved) => document.documentElement.style.setProperty("--side", `${Math.max(320, innerWidth - moved.clientX)}px`);
  divider.addEventListener("pointermove", move);
  divider.addEventListener("pointerup", () => divider.removeEventListener("pointermove", move), { once: true });
});

theme(prefersDark.matches);
unpack("data").then((unpacked) => {
  data = unpacked;
  document.title = `${data.name} · ingot explain`;
  element("name").textContent = data.name;
  facts();
  state.work = heat();
  showStage(fused(), sameIn(fused()));
  showView(0);
  if (state.work < 0) onNode(-1);
  else showWork(state.work);
  document.body.dataset.ready = "yes";
});
