// The panels: the program as a table, the cache, the tapes as text, and details of the selection.

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function amount(number, unit) {
  for (const [scale, letter] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]]) {
    if (number >= scale) return `${Number((number / scale).toPrecision(3))} ${letter}${unit}`;
  }
  return `${Math.round(number)} ${unit}`;
}

function duration(seconds) {
  for (const [scale, unit] of [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]]) {
    if (seconds >= scale) return `${Number((seconds / scale).toPrecision(3))} ${unit}`;
  }
  return `${Math.round(seconds * 1e9)} ns`;
}

function plural(number, one, several = one + "s") {
  return `${number.toLocaleString("en")} ${number === 1 ? one : several}`;
}

function rate(work) {
  if (!work.seconds || work.kept) return "";
  return work.flops ? amount(work.flops / work.seconds, "flop/s") : amount(work.bytes / work.seconds, "B/s");
}

// How much of what the machine can do an entry reaches: of its arithmetic, or of memory's bandwidth.
function reached(data, work) {
  if (!data.limits || !work.seconds || work.kept) return 0;
  return Math.max(work.flops / work.seconds / data.limits.flops, work.bytes / work.seconds / data.limits.bytes);
}

// Caches are quicker than memory, so that what is quicker than memory did not wait for it.
function shareText(data, work) {
  if (work.kept) return "kept";
  const share = reached(data, work);
  return share > 1.05 && !work.flops ? "in cache" : percent(Math.min(share, 1));
}

function speedText(data, work) {
  const share = shareText(data, work);
  return share === "in cache" ? "above memory bandwidth: read from a cache" : `${share} of this machine's ${work.flops ? "peak arithmetic" : "memory bandwidth"}`;
}

function percent(share) {
  return share >= 0.0995 ? `${Math.round(100 * share)}%` : `${(100 * share).toFixed(1)}%`;
}

function tabs(names, chosen, choose, label) {
  const buttons = names.map(([name, count], index) =>
    make("button", { role: "tab", "aria-selected": index === chosen, onclick: () => choose(index) }, name,
      count === undefined ? null : make("small", {}, count.toLocaleString("en"))));
  return make("div", { class: "tabs", role: "tablist", "aria-label": label }, ...buttons);
}

// The page's data is embedded compressed; the kernels' texts are unpacked when one is opened.
async function unpack(id) {
  const packed = atob(document.getElementById(id).textContent);
  const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

let texts = null;
function kernelTexts() {
  texts ??= unpack("texts");
  return texts;
}

const PATTERNS = {
  loops: /(%\w+)|\b(kernel|local|parallel|for|in|by|vector|grain|reduce|when|unless|is|load|store|from|at|min)\b|\b(-?\d[\d.]*(?:e-?\d+)?)\b/g,
  llvm: /([%@][\w.]+)|\b(define|declare|call|load|store|br|ret|phi|label|getelementptr|inbounds|fadd|fsub|fmul|fdiv|fneg|fcmp|icmp|add|sub|mul|select|ptr|float|double|half|void|i\d+|attributes)\b|\b(0x[0-9A-F]+|-?\d+)\b/g,
  assembly: /(%\w+)|^\s+([a-z]\w+)(?=\s)|(\$?-?\b(?:0x[0-9a-f]+|\d+)\b)/gm,
};
const MAX_COLOURED = 60000; // characters; highlighting longer texts would be slow

function coloured(text, language) {
  const pre = make("pre");
  if (text.length > MAX_COLOURED) {
    pre.textContent = text;
    return pre;
  }
  let end = 0;
  for (const found of text.matchAll(PATTERNS[language])) {
    const start = found.index + found[0].length - found[0].trimStart().length;
    pre.append(text.slice(end, start));
    const kind = found[1] ? "r" : found[2] ? "k" : "n";
    pre.append(make("span", { class: kind }, found[0].trimStart()));
    end = found.index + found[0].length;
  }
  pre.append(text.slice(end));
  return pre;
}

// The table of the program

// A column: its title, what it is sorted by (largest first, but for the order), and its cell.
function columns(data, timed) {
  const total = data.work.reduce((sum, work) => sum + (work.seconds || 0), 0);
  const measure = (work) => (timed ? work.seconds : work.bytes);
  const most = Math.max(1e-12, ...data.work.map(measure));
  const meter = (work) => make("div", { class: "meter" }, make("i", { class: work.kind, style: `width:${Math.max(1, (100 * measure(work)) / most)}%` }));
  const lines = (work) => work.lines.slice(0, 2).join(", ") + (work.lines.length > 2 ? ` +${work.lines.length - 2}` : "");
  const all = [
    { title: "order", by: (work) => -work.index, cell: (work) => make("td", { class: "number muted" }, String(work.index)) },
    { title: "what runs", by: null, cell: (work) => make("td", { class: "what" }, make("span", { class: `kind ${work.kind}` }, work.kind), " ", work.name,
      make("div", { class: "lines mono", title: work.lines.join(", ") }, lines(work))) },
    { title: "data", by: (work) => work.bytes, cell: (work) => make("td", { class: "number" }, amount(work.bytes, "B"), timed ? null : meter(work)) },
  ];
  if (!timed) return all;
  return [...all,
    { title: "time", by: (work) => work.seconds, cell: (work) => make("td", { class: "number" }, duration(work.seconds), " ", make("span", { class: "muted" }, percent(work.seconds / Math.max(total, 1e-12))), meter(work)) },
    { title: "speed", hint: "and how much of the machine's arithmetic or memory bandwidth that is", by: (work) => reached(data, work),
      cell: (work) => make("td", { class: "number speed" }, rate(work), make("div", { class: "muted" }, work.seconds ? shareText(data, work) : "")) },
  ];
}

function workTable(data, chosen, choose, sorted, sort) {
  if (!data.work.length) return make("p", { class: "muted" }, "Nothing runs: the results are inputs or constants.");
  const shown = columns(data, data.work.some((work) => work.seconds !== null));
  const works = data.work.map((work, index) => ({ ...work, index }));
  const column = shown.find(({ title }) => title === sorted) || shown[0];
  works.sort((first, second) => column.by(second) - column.by(first) || first.index - second.index);
  const rows = works.map((work) => make("tr", { class: "row", tabindex: 0, "data-work": work.index, "aria-selected": work.index === chosen, onclick: () => choose(work.index) },
    ...shown.map(({ cell }) => cell(work))));
  const head = shown.map(({ title, by, hint }) => make("th", { class: title === "what runs" ? null : "number", "aria-sort": column.title === title ? "descending" : null, title: hint },
    by ? make("button", { onclick: () => sort(title) }, title) : title));
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
}

function number(value, label) {
  return make("div", {}, make("b", { class: "big" }, value), make("span", {}, label));
}

function cachePanel(data) {
  const cache = data.cache;
  if (!cache) return make("p", { class: "muted" }, "No cache belongs to this function.");
  const reasons = cache.reasons.map((each) => make("li", {}, each.reason, " ", make("span", { class: "muted" }, `${each.kind}, ${duration(each.seconds)}`)));
  const entries = cache.entries.map((entry) => make("li", { class: "mono" },
    Object.entries(entry).map(([name, what]) => `${name.replace("argument ", "").replaceAll("`", "")}: ${what}`).join(", ")));
  return make("div", {},
    make("div", { class: "numbers" }, number(cache.entries.length, "entries"), number(cache.hits, "hits"), number(cache.misses, "misses"),
      number(cache.new_shapes, "new shapes"), number(cache.new_layouts, "new layouts"),
      number(cache.evictions, "evictions"), number(duration(cache.seconds), "compiling")),
    make("h3", {}, "Why it compiled"),
    reasons.length ? make("ol", { class: "reasons" }, ...reasons) : make("p", { class: "muted" }, "No call has compiled it yet."),
    make("h3", {}, "What it is compiled for"),
    entries.length ? make("ol", { class: "reasons" }, ...entries) : make("p", { class: "muted" }, "Nothing yet."));
}

function memoryPanel(data) {
  const less = data.bytes.after ? data.bytes.before / data.bytes.after : 1;
  const seconds = Object.entries(data.seconds).flatMap(([stage, time]) => [make("dt", {}, stage), make("dd", {}, duration(time))]);
  const guards = data.guards.map((guard) => make("li", { class: "mono" }, guard));
  return make("div", {},
    make("div", { class: "numbers" }, number(amount(data.native.peak, "B"), "peak, besides the arguments"), number(amount(data.native.arena, "B"), "of it for intermediate values"),
      number(amount(data.bytes.before, "B"), "moved step by step"), number(amount(data.bytes.after, "B"), `moved as compiled, ${less.toPrecision(2)}× less`)),
    data.native.donations.length ? make("p", { class: "muted" }, `${plural(data.native.donations.length, "result reuses", "results reuse")} the memory of inputs that nothing else refers to: ` + data.native.donations.slice(0, 12).map(([result, given]) => `%${result} of %${given}`).join(", ")) : null,
    make("h3", {}, "Time to compile"), make("dl", {}, ...seconds),
    guards.length ? make("h3", {}, "What sizes must fulfil") : null, guards.length ? make("ul", {}, ...guards) : null);
}

function textPanel(data) {
  const names = { traced: "Traced", simplified: "Simplified", fused: "Groups" };
  return make("div", {}, ...Object.entries(names).map(([key, title]) => {
    const details = make("details", {}, make("summary", {}, `${title}: ${plural(data.texts[key].length, "line")}`));
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(make("pre", {}, data.texts[key].join("\n")));
    });
    return details;
  }));
}

// Details

function snippets(work) {
  if (!work.snippets.length) return make("p", { class: "muted" }, "No line of the program is known for it.");
  return make("div", {}, ...work.snippets.map((snippet) => {
    let last = null;
    const lines = snippet.lines.flatMap(([number, text, meant]) => {
      const gap = last !== null && number > last + 1 ? [make("div", {}, make("b", {}, "⋮"))] : [];
      last = number;
      return [...gap, make("div", { class: meant ? "mono meant" : "mono" }, make("b", {}, String(number)), text)];
    });
    return make("div", { class: "snippet" }, make("header", {}, snippet.file), ...lines);
  }));
}

function workDetails(data, index, tab, choose) {
  const work = data.work[index];
  const names = [["Source"]];
  if (work.kind === "kernel") names.push(["Loops"], ["LLVM"], ["Assembly"]);
  else if (work.programs.length) names.push(["Loops"], ["LLVM"]);
  const body = make("div", { id: "code" });
  const chosen = Math.min(tab, names.length - 1);
  if (chosen === 0) body.append(snippets(work));
  else {
    const language = ["", "loops", "llvm", "assembly"][chosen];
    body.append(make("pre", { class: "muted" }, "unpacking …"));
    kernelTexts().then((all) => {
      const text = coloured(all[index][language], language), hot = language === "assembly" && all[index].hot;
      if (!hot) body.replaceChildren(text);
      else body.replaceChildren(make("h3", {}, "The hot loop"), coloured(hot, language), make("h3", {}, "All of it"), text);
    });
  }
  const nothing = work.scratch ? "partial results" : "nothing";
  const facts = [["reads", work.reads.join(", ") || nothing], ["writes", work.writes.join(", ") || nothing]];
  if (work.kept) facts.unshift(["time", `${work.seconds ? `${duration(work.seconds)}: ` : ""}kept from an earlier call with the same array`]);
  else if (work.seconds) facts.unshift(["time", duration(work.seconds)], ["speed", `${rate(work)}: ${speedText(data, work)}`]);
  if (work.reason) facts.push([{ BLAS: "by BLAS", kernel: "by ingot", nested: "by ingot" }[work.kind] || "on the host", work.reason]);
  if (work.programs.length) facts.push(["runs", work.programs.join("; ")]);
  if (work.kind === "kernel") {
    facts.push(["threads", work.parts > work.grain ? `${plural(work.parts, "parallel iteration")}, at least ${Math.max(1, work.grain)} per thread` : "one: the kernel is too small for more"]);
  }
  return make("div", {},
    make("h2", {}, make("span", { class: `kind ${work.kind}` }, `${work.kind} ${index}`), work.name),
    make("dl", {}, ...facts.flatMap(([name, what]) => [make("dt", {}, name), make("dd", { class: "mono" }, what)])),
    tabs(names, chosen, choose, "Forms of the kernel"), body);
}

function nodeDetails(stage, index, jump, showWork) {
  const node = stage.nodes[index];
  const facts = [["result", node.type], ["bytes", amount(node.bytes, "B")]];
  for (const [name, value] of Object.entries(node.parameters)) facts.push([name, value]);
  if (node.source) facts.push(["line", `${node.source.place} in ${node.source.function}`]);
  if (node.fate) facts.push(["then", node.fate]);
  const edges = stage.edges.map(([first, second]) => [first, second]);
  const chip = (other) => make("button", { class: "chip mono", onclick: () => jump(other) }, `%${stage.nodes[other].id} ${stage.nodes[other].title}`);
  const above = [...new Set(edges.filter((edge) => edge[1] === index).map((edge) => edge[0]))];
  const below = [...new Set(edges.filter((edge) => edge[0] === index).map((edge) => edge[1]))];
  const list = make("dl", {}, ...facts.flatMap(([name, what]) => [make("dt", {}, name), make("dd", { class: "mono" }, what)]));
  if (above.length) list.append(make("dt", {}, "takes"), make("dd", {}, ...above.map(chip)));
  if (below.length) list.append(make("dt", {}, "used by"), make("dd", {}, ...below.map(chip)));
  if (showWork) list.append(make("dt", {}, "runs in"), make("dd", {}, showWork));
  const line = node.source && node.source.text ? make("div", { class: "snippet" }, make("header", {}, node.source.place), make("div", { class: "mono meant" }, node.source.text)) : null;
  return make("div", {}, make("h2", {}, node.title, node.result ? make("span", { class: "kind kernel" }, "result") : null),
    make("div", { class: "mono muted" }, node.line), list, line);
}
