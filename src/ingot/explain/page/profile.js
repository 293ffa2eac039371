// The page of a profile: a time line of all threads, the time by place, and the table of what ran.

const element = (id) => document.getElementById(id);
const KINDS = { kernel: "--kernel", BLAS: "--BLAS", host: "--host", op: "--good", compile: "--edge", call: "--muted" };
const LANE = 26, GAP = 18; // the name of a thread is above its lane
const state = { sorted: "time", row: -1, begin: 0, end: 1 };
let data = null; // the data from Python, once unpacked

const colourOf = (kind) => getComputedStyle(document.documentElement).getPropertyValue(KINDS[kind] || "--kernel").trim();

// The time line

function lanes() {
  return element("spans").parentElement.clientWidth;
}

function drawSpans() {
  const canvas = element("spans"), ratio = window.devicePixelRatio || 1, width = lanes();
  const height = data.threads.length * (LANE + GAP);
  canvas.style.height = `${height}px`;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  const scale = width / (state.end - state.begin);
  const colours = Object.fromEntries([...new Set(data.rows.map((row) => row.kind))].map((kind) => [kind, colourOf(kind)]));
  const ink = colourOf("call");
  context.font = "11px system-ui, sans-serif";
  context.textBaseline = "middle";
  for (const [row, begin, length, thread] of data.spans) {
    const x = (begin - state.begin) * scale, wide = Math.max(0.6, length * scale);
    if (x + wide < 0 || x > width) continue;
    const y = GAP + thread * (LANE + GAP), { kind, name } = data.rows[row];
    context.globalAlpha = state.row < 0 || state.row === row ? 0.9 : 0.25;
    context.fillStyle = colours[kind];
    context.fillRect(x, y, wide, LANE);
    if (wide > 60) {
      context.save();
      context.beginPath();
      context.rect(x, y, wide - 4, LANE);
      context.clip();
      context.fillStyle = "#fff";
      context.fillText(name, Math.max(0, x) + 5, y + LANE / 2);
      context.restore();
    }
  }
  context.globalAlpha = 1;
  context.fillStyle = ink;
  data.threads.forEach((name, thread) => context.fillText(name, 4, GAP + thread * (LANE + GAP) - 8));
}

function spanAt(event) {
  const frame = element("spans").getBoundingClientRect();
  const at = state.begin + ((event.clientX - frame.left) / frame.width) * (state.end - state.begin);
  const thread = Math.floor((event.clientY - frame.top) / (LANE + GAP));
  const slack = (state.end - state.begin) / frame.width;
  // The shortest of those that contain it: nested runs lie inside of others.
  let best = null;
  for (const span of data.spans) {
    if (span[3] === thread && at >= span[1] - slack && at <= span[1] + span[2] + slack && (!best || span[2] < best[2])) best = span;
  }
  return best;
}

function say(span) {
  const row = span && data.rows[span[0]];
  element("under").textContent = row ? `${row.kind} ${row.name}: ${duration(span[2])} at ${duration(span[1])}${row.lines.length ? `, ${row.lines.join(", ")}` : ""}` : legend();
}

function legend() {
  const left = data.leftOut ? `; ${data.leftOut.toLocaleString("en")} later runs are in the table only` : "";
  return `${duration(state.begin)} to ${duration(state.end)}: drag to move, turn the wheel or use the buttons to zoom${left}`;
}

// Fewer or more seconds across the screen, with the moment at `at`, a share of its width, kept there.
function zoom(factor, at = 0.5) {
  const length = Math.min(data.seconds, Math.max(1e-7, (state.end - state.begin) * factor));
  move(state.begin + at * (state.end - state.begin) - at * length, length);
}

function listen() {
  const canvas = element("spans");
  let start = null;
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const frame = canvas.getBoundingClientRect();
    zoom(Math.exp(event.deltaY * 0.0016), (event.clientX - frame.left) / frame.width);
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const length = state.end - state.begin, by = { ArrowLeft: -0.1, ArrowRight: 0.1 }[event.key];
    if (by) move(state.begin + by * length, length);
    else if (event.key === "+") zoom(0.8);
    else if (event.key === "-") zoom(1.25);
    else return;
    event.preventDefault();
  });
  element("in").addEventListener("click", () => zoom(0.5));
  element("out").addEventListener("click", () => zoom(2));
  element("all").addEventListener("click", () => move(0, data.seconds));
  element("table").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target.matches("tr.row")) choose(Number(event.target.dataset.row));
  });
  canvas.addEventListener("pointerdown", (event) => { start = { x: event.clientX, begin: state.begin, moved: false }; });
  canvas.addEventListener("pointermove", (event) => {
    if (!start) return say(spanAt(event));
    const by = event.clientX - start.x, length = state.end - state.begin;
    start.moved ||= Math.abs(by) > 4;
    if (start.moved) move(start.begin - (by / lanes()) * length, length);
  });
  canvas.addEventListener("pointerup", (event) => {
    const span = start && !start.moved ? spanAt(event) : null;
    if (start && !start.moved) choose(span ? span[0] : -1);
    if (span) say(span); // fingers do not hover
    start = null;
  });
}

function move(begin, length) {
  state.begin = Math.max(0, Math.min(data.seconds - length, begin));
  state.end = state.begin + length;
  drawSpans();
  say(null);
}

// The time by file, function, line and what ran, each below what contains it

function tree() {
  const root = { name: "all", seconds: 0, below: new Map(), row: -1 };
  data.rows.forEach((row, index) => {
    let place = root;
    root.seconds += row.seconds;
    const path = row.place ? [row.place.file, row.place.function, `line ${row.place.line}`] : [{ compile: "compiling", call: "calling" }[row.kind] || "no line is known"];
    for (const name of [...path, `${row.kind} ${row.name}`]) {
      if (!place.below.has(name)) place.below.set(name, { name, seconds: 0, below: new Map(), row: -1, text: row.place ? row.place.text : "" });
      place = place.below.get(name);
      place.seconds += row.seconds;
    }
    place.row = index;
  });
  return root;
}

// Shares of a row that add up to less than 1 would leave some of it empty.
const room = (share) => `flex: ${Math.max(0, 1e4 * share)} 1 0`;

function flame(node, total) {
  const children = [...node.below.values()].filter((child) => child.seconds > total * 1e-3).sort((a, b) => b.seconds - a.seconds);
  const title = `${node.name}: ${duration(node.seconds)}, ${percent(node.seconds / total)}${node.text ? `\n${node.text}` : ""}`;
  const kind = node.row >= 0 ? data.rows[node.row].kind : "place";
  return make("div", { class: "flame", style: room(node.seconds / total) },
    make("button", { class: `block ${kind}`, title, onclick: () => { element("meant").textContent = title; choose(node.row); } }, `${node.name} ${percent(node.seconds / total)}`),
    children.length ? make("div", { class: "below" }, ...children.map((child) => flame(child, total)), make("div", { style: room((node.seconds - children.reduce((sum, child) => sum + child.seconds, 0)) / total) })) : null);
}

// The table

const COLUMNS = [
  { title: "what", cell: (row) => make("td", { class: "what" }, make("span", { class: `kind ${row.kind}` }, row.kind), " ", row.name, make("div", { class: "lines mono", title: row.lines.join(", ") }, row.lines.join(", "))) },
  { title: "calls", by: (row) => row.calls, cell: (row) => make("td", { class: "number" }, row.calls.toLocaleString("en")) },
  { title: "time", by: (row) => row.seconds, cell: (row) => make("td", { class: "number" }, duration(row.seconds), " ", make("span", { class: "muted" }, percent(row.seconds / data.seconds)),
    make("div", { class: "meter" }, make("i", { class: row.kind, style: `width:${Math.max(1, (100 * row.seconds) / data.rows[0].seconds)}%` }))) },
  { title: "data", by: (row) => row.bytes, cell: (row) => make("td", { class: "number" }, row.bytes ? amount(row.bytes, "B") : "") },
  { title: "speed", by: (row) => (row.bytes || row.flops ? reached(data, row) : 0), cell: (row) => make("td", { class: "number speed" }, row.bytes || row.flops ? rate(row) : "", make("div", { class: "muted" }, row.bytes || row.flops ? shareText(data, row) : "")) },
];

function table() {
  const column = COLUMNS.find(({ title }) => title === state.sorted);
  const rows = data.rows.map((row, index) => ({ row, index })).sort((a, b) => column.by(b.row) - column.by(a.row));
  const head = COLUMNS.map(({ title, by }) => make("th", { class: by ? "number" : null, "aria-sort": title === state.sorted ? "descending" : null },
    by ? make("button", { onclick: () => { state.sorted = title; show(); } }, title) : title));
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows.map(({ row, index }) =>
    make("tr", { class: "row", tabindex: 0, "data-row": index, "aria-selected": index === state.row, onclick: () => choose(index) }, ...COLUMNS.map(({ cell }) => cell(row))))));
}

function choose(row) {
  state.row = row;
  show();
  drawSpans();
  const chosen = document.querySelector("tr.row[aria-selected=true]");
  if (chosen) chosen.scrollIntoView({ block: "nearest" });
}

function show() {
  element("table").replaceChildren(data.rows.length ? table() : make("p", { class: "muted" }, "Nothing ran."));
}

function facts() {
  const fact = (label, value) => make("div", { class: "fact" }, make("b", {}, value), make("span", {}, label));
  const running = data.rows.filter((row) => row.kind !== "compile").reduce((sum, row) => sum + row.seconds, 0);
  element("facts").replaceChildren(fact("in all", duration(data.seconds)), fact("running", duration(running)), fact("compiling", duration(data.compiling)), fact("elsewhere", duration(data.elsewhere)));
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
function theme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  if (data) drawSpans();
}
prefersDark.addEventListener("change", (event) => theme(event.matches));
element("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme !== "dark"));
theme(prefersDark.matches);
unpack("data").then((unpacked) => {
  data = unpacked;
  facts();
  listen();
  const root = tree();
  if (root.seconds) element("flame").replaceChildren(flame(root, root.seconds), make("div", { id: "meant", class: "said" }, "Choose a block to read all of its name."));
  move(0, data.seconds);
  new ResizeObserver(() => drawSpans()).observe(element("timeline"));
  show();
  document.body.dataset.ready = "yes";
});
