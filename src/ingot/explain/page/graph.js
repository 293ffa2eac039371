// The graph: draws the visible boxes and edges of one stage on a canvas, and finds the box under the
// pointer. Python has laid out boxes and bends.

const HUES = [28, 205, 150, 285, 345, 95, 245, 180, 55, 320, 10, 225];
const FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif';
const READABLE = 0.42; // zoom below which titles are omitted
const SMALLEST = 0.004, LARGEST = 3;
const NOTE = 36; // pixels at the bottom that a note covers
const FAR = 600, FAINT = 0.16;

class Graph {
  constructor(canvas, map, onSelect) {
    this.canvas = canvas;
    this.map = map;
    this.onSelect = onSelect;
    this.stage = null;
    this.view = { x: 0, y: 0, zoom: 1 };
    this.selected = this.over = -1;
    this.found = null; // boxes found by a search
    this.listen();
    new ResizeObserver(() => this.resize()).observe(canvas.parentElement);
  }

  show(stage, selected = -1) {
    this.stage = stage;
    this.selected = selected;
    this.over = -1;
    this.found = null;
    this.neighbours = stage.nodes.map(() => ({ above: [], below: [] }));
    stage.edges.forEach(([first, second], number) => {
      this.neighbours[first].below.push(number);
      this.neighbours[second].above.push(number);
    });
    this.boxes = stage.edges.map((edge) => this.edgeBox(edge));
    this.resize();
    if (selected >= 0 && this.fitting() < 0.8) this.centre(selected, 0.8);
    else this.fit();
  }

  edgeBox([first, second, bends]) {
    const nodes = this.stage.nodes, xs = [], ys = [];
    for (const box of [nodes[first].box, nodes[second].box]) {
      xs.push(box[0], box[0] + box[2]);
      ys.push(box[1], box[1] + box[3]);
    }
    for (const [x, y] of bends) { xs.push(x); ys.push(y); }
    return [Math.min(...xs), Math.min(...ys), Math.max(...xs), Math.max(...ys)];
  }

  // The visible part

  resize() {
    const frame = this.canvas.parentElement.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1;
    this.width = frame.width;
    this.height = frame.height;
    this.canvas.width = Math.max(1, Math.round(frame.width * ratio));
    this.canvas.height = Math.max(1, Math.round(frame.height * ratio));
    this.ratio = ratio;
    this.draw();
  }

  fitting() {
    const margin = 36;
    const across = (this.width - 2 * margin) / Math.max(1, this.stage.width);
    const down = (this.height - 2 * margin) / Math.max(1, this.stage.height);
    return Math.max(SMALLEST, Math.min(across, down, 1.15));
  }

  fit(whole = false) {
    // A graph too large to be readable as a whole is shown from its top.
    let zoom = this.fitting();
    const readable = whole || zoom >= 0.3;
    if (!readable) zoom = 0.75;
    const x = this.stage.width / 2 - this.width / zoom / 2;
    const y = readable ? this.stage.height / 2 - this.height / zoom / 2 : -30;
    this.view = { x: readable ? x : this.top() - this.width / zoom / 2, y, zoom };
    this.draw();
  }

  top() {
    const first = this.stage.nodes.filter((node) => node.box[1] < 1);
    const sum = first.reduce((total, node) => total + node.box[0] + node.box[2] / 2, 0);
    return first.length ? sum / first.length : this.stage.width / 2;
  }

  centre(index, zoom = this.view.zoom) {
    const [x, y, width, height] = this.stage.nodes[index].box;
    this.view = { x: x + width / 2 - this.width / zoom / 2, y: y + height / 2 - this.height / zoom / 2, zoom };
    this.draw();
  }

  reveal(index) {
    // Scrolls only as far as needed to show a box.
    const [x, y, width, height] = this.stage.nodes[index].box, { view } = this, margin = 20 / view.zoom;
    const right = view.x + this.width / view.zoom, bottom = view.y + (this.height - NOTE) / view.zoom;
    const seen = x >= view.x && x + width <= right && y >= view.y && y + height <= bottom;
    if (view.zoom < READABLE) this.centre(index, 0.8);
    else if (!seen) {
      view.x += Math.min(0, x - margin - view.x) + Math.max(0, x + width + margin - right);
      view.y += Math.min(0, y - margin - view.y) + Math.max(0, y + height + margin - bottom);
      this.draw();
    }
  }

  zoomAt(factor, x = this.width / 2, y = this.height / 2) {
    const zoom = Math.min(LARGEST, Math.max(SMALLEST, this.view.zoom * factor));
    this.view.x += x / this.view.zoom - x / zoom;
    this.view.y += y / this.view.zoom - y / zoom;
    this.view.zoom = zoom;
    this.draw();
  }

  // Screen coordinates of boxes, and the box at given coordinates

  onScreen(index) {
    const [x, y, width, height] = this.stage.nodes[index].box, { zoom } = this.view;
    const frame = this.canvas.getBoundingClientRect();
    return { x: frame.left + (x + width / 2 - this.view.x) * zoom, y: frame.top + (y + height / 2 - this.view.y) * zoom };
  }

  at(x, y) {
    const graphX = this.view.x + x / this.view.zoom, graphY = this.view.y + y / this.view.zoom;
    return this.stage.nodes.findIndex(({ box }) =>
      graphX >= box[0] && graphX <= box[0] + box[2] && graphY >= box[1] && graphY <= box[1] + box[3]);
  }

  select(index, centre = false) {
    this.selected = index;
    if (centre && index >= 0) this.reveal(index);
    this.draw();
    this.onSelect(index);
  }

  // Drawing

  draw() {
    if (this.waiting || !this.stage) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paint();
      this.paintMap();
    });
  }

  colours() {
    const style = getComputedStyle(document.documentElement);
    const read = (name) => style.getPropertyValue("--" + name).trim();
    const dark = document.documentElement.dataset.theme === "dark";
    const names = ["sheet", "raised", "line", "text", "muted", "accent", "accent-soft", "grid", "edge", "kernel", "BLAS", "host", "good"];
    return { dark, ...Object.fromEntries(names.map((name) => [name, read(name)])) };
  }

  paint() {
    const context = this.canvas.getContext("2d"), { view } = this, colours = this.colours();
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    this.paintDots(context, colours);
    context.setTransform(view.zoom * this.ratio, 0, 0, view.zoom * this.ratio, -view.x * view.zoom * this.ratio, -view.y * view.zoom * this.ratio);
    const sight = [view.x, view.y, view.x + this.width / view.zoom, view.y + this.height / view.zoom];
    const sees = (box) => box[0] <= sight[2] && box[2] >= sight[0] && box[1] <= sight[3] && box[3] >= sight[1];
    const chosen = this.selected >= 0 ? this.neighbours[this.selected] : null;
    const strong = new Set(chosen ? [...chosen.above, ...chosen.below] : []);
    context.lineWidth = Math.max(1.2, 0.7 / view.zoom);
    context.strokeStyle = colours.edge;
    this.stage.edges.forEach((edge, number) => {
      if (strong.has(number) || !sees(this.boxes[number])) return;
      context.globalAlpha = (strong.size ? 0.55 : 0.9) * (this.isFar(edge) ? FAINT : 1);
      this.paintEdge(context, edge);
    });
    context.globalAlpha = 1;
    context.strokeStyle = colours.accent;
    context.lineWidth = Math.max(2, 1.2 / view.zoom);
    strong.forEach((number) => this.paintEdge(context, this.stage.edges[number]));
    this.drawn = 0;
    this.stage.nodes.forEach((node, index) => {
      const [x, y, width, height] = node.box;
      if (!sees([x, y, x + width, y + height])) return;
      this.drawn += 1;
      this.paintNode(context, node, index, colours);
    });
  }

  paintDots(context, colours) {
    const space = 24 * this.view.zoom;
    if (space < 12) return;
    context.fillStyle = colours.grid;
    const startX = -((this.view.x * this.view.zoom) % space), startY = -((this.view.y * this.view.zoom) % space);
    for (let x = startX; x < this.width; x += space) {
      for (let y = startY; y < this.height; y += space) context.fillRect(x, y, 1.5, 1.5);
    }
  }

  paintEdge(context, [first, second, bends]) {
    const from = this.stage.nodes[first].box, to = this.stage.nodes[second].box;
    const points = [[from[0] + from[2] / 2, from[1] + from[3]], ...bends, [this.port(first, second), to[1] - 2]];
    context.beginPath();
    context.moveTo(...points[0]);
    for (let i = 1; i < points.length; i++) {
      const [x0, y0] = points[i - 1], [x1, y1] = points[i], half = (y1 - y0) / 2;
      context.bezierCurveTo(x0, y0 + half, x1, y1 - half, x1, y1);
    }
    context.stroke();
    if (this.view.zoom < 0.2) return;
    const [x, y] = points[points.length - 1];
    context.fillStyle = context.strokeStyle;
    context.beginPath();
    context.moveTo(x, y + 2);
    context.lineTo(x - 4, y - 6);
    context.lineTo(x + 4, y - 6);
    context.fill();
  }

  isFar([first, second, bends]) {
    // Edges across very many layers are straight lines, even through boxes.
    return bends.length < 2 && this.stage.nodes[second].box[1] - this.stage.nodes[first].box[1] > FAR;
  }

  port(first, second) {
    // Where an edge ends: inputs share the upper side, in the order of where they come from.
    const box = this.stage.nodes[second].box, edges = this.stage.edges;
    const across = (number) => {
      const [source, , bends] = edges[number], at = this.stage.nodes[source].box;
      return bends.length ? bends[bends.length - 1][0] : at[0] + at[2] / 2;
    };
    const sources = this.neighbours[second];
    if (!sources.sorted) sources.sorted = [...sources.above].sort((a, b) => across(a) - across(b)).map((number) => edges[number][0]);
    const count = sources.sorted.length, place = sources.sorted.indexOf(first);
    const room = Math.min(22, (box[2] - 24) / count);
    return box[0] + box[2] / 2 + (place - (count - 1) / 2) * room;
  }

  stripe(node, colours) {
    if (node.kind === "input") return colours.good;
    if (node.kind === "constant") return colours.muted;
    if (node.card && colours[node.kind]) return colours[node.kind];
    if (node.group >= 0) return `hsl(${HUES[node.group % HUES.length]} ${colours.dark ? "62% 62%" : "62% 44%"})`;
    return colours.edge;
  }

  paintNode(context, node, index, colours) {
    const [x, y, width, height] = node.box, { zoom } = this.view;
    const chosen = index === this.selected, hit = this.found && this.found.has(index);
    const faint = (this.found && !hit) || node.fate;
    context.globalAlpha = faint ? 0.45 : 1;
    const stripe = this.stripe(node, colours);
    const round = node.kind === "input" ? height / 2 : 8;
    if (zoom < 0.12) {
      context.fillStyle = chosen ? colours.accent : stripe;
      context.fillRect(x, y, width, height);
      context.globalAlpha = 1;
      return;
    }
    context.beginPath();
    context.roundRect(x, y, width, height, round);
    context.fillStyle = chosen && !node.share ? colours["accent-soft"] : colours.sheet;
    context.fill();
    if (node.share) {
      context.globalAlpha *= Math.min(0.45, 0.05 + 0.6 * node.share);
      context.fillStyle = colours.accent;
      context.fill();
      context.globalAlpha = faint ? 0.45 : 1;
    }
    context.save();
    context.clip();
    context.fillStyle = stripe;
    context.fillRect(x, y, node.card ? width : 5, node.card ? 4 : height);
    context.restore();
    context.lineWidth = chosen ? 2.5 : index === this.over || hit ? 2 : 1;
    context.strokeStyle = chosen || hit ? colours.accent : index === this.over ? colours.text : colours.edge;
    if (!chosen && !hit && index !== this.over) context.globalAlpha *= 0.7;
    context.setLineDash(node.fate ? [5, 4] : []);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = faint ? 0.45 : 1;
    if (zoom >= READABLE) this.paintText(context, node, colours, stripe);
    context.globalAlpha = 1;
  }

  paintText(context, node, colours, stripe) {
    const [x, y, width, height] = node.box;
    context.textBaseline = "middle";
    context.textAlign = "left";
    // The stripe's colour is hard to read on a hot card, which is tinted with it.
    context.fillStyle = node.card && !(node.share > 0.1) ? stripe : colours.text;
    context.font = `600 13px ${FONT}`;
    context.fillText(node.title, x + 15, y + (node.card ? 17 : 14), width - 24);
    if (node.share >= 0.005) {
      context.textAlign = "right";
      context.fillText(percent(node.share), x + width - 8, y + 17);
      context.textAlign = "left";
    }
    context.fillStyle = colours.muted;
    context.font = `11px ${FONT}`;
    context.fillText(node.below, x + 15, y + (node.card ? 33 : 29), width - 24);
    if (node.card) {
      context.fillStyle = colours.text;
      context.font = `12px ${FONT}`;
      node.card.forEach((line, number) => context.fillText(line, x + 15, y + 53 + 15 * number, width - 24));
    }
    if (node.result) {
      context.beginPath();
      context.arc(x + width / 2, y + height, 4, 0, 7);
      context.fillStyle = colours.good;
      context.fill();
    }
  }

  // The minimap in the corner: all boxes, and the visible part

  paintMap() {
    const { stage, map, view } = this, colours = this.colours();
    const scale = Math.min(150 / Math.max(1, stage.width), 170 / Math.max(1, stage.height));
    const width = Math.max(24, stage.width * scale) + 12, height = Math.max(24, stage.height * scale) + 12;
    map.style.display = view.zoom > this.fitting() * 1.05 ? "block" : "none";
    map.style.width = width + "px";
    map.style.height = height + "px";
    map.width = width * this.ratio;
    map.height = height * this.ratio;
    const context = map.getContext("2d");
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    this.mapScale = scale;
    this.mapLeft = (width - stage.width * scale) / 2;
    this.mapTop = (height - stage.height * scale) / 2;
    stage.nodes.forEach((node, index) => {
      const [x, y, boxWidth, boxHeight] = node.box;
      context.fillStyle = index === this.selected ? colours.accent : this.stripe(node, colours);
      context.fillRect(this.mapLeft + x * scale, this.mapTop + y * scale, Math.max(1.5, boxWidth * scale), Math.max(1, boxHeight * scale));
    });
    context.strokeStyle = colours.accent;
    context.strokeRect(this.mapLeft + view.x * scale, this.mapTop + view.y * scale, (this.width / view.zoom) * scale, (this.height / view.zoom) * scale);
  }

  // Pointer and keys

  listen() {
    const canvas = this.canvas;
    let start = null;
    const place = (event) => {
      const frame = canvas.getBoundingClientRect();
      return [event.clientX - frame.left, event.clientY - frame.top];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      start = { at: place(event), view: { ...this.view }, moved: false };
    });
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = place(event);
      if (!start) {
        const over = this.at(x, y);
        if (over !== this.over) {
          this.over = over;
          canvas.classList.toggle("over", over >= 0);
          this.draw();
        }
        return;
      }
      const byX = x - start.at[0], byY = y - start.at[1];
      if (Math.hypot(byX, byY) > 4) start.moved = true;
      if (!start.moved) return;
      canvas.classList.add("moving");
      this.view.x = start.view.x - byX / this.view.zoom;
      this.view.y = start.view.y - byY / this.view.zoom;
      this.draw();
    });
    canvas.addEventListener("pointerup", (event) => {
      if (start && !start.moved) this.select(this.at(...place(event)));
      start = null;
      canvas.classList.remove("moving");
    });
    canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomAt(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), ...place(event));
    }, { passive: false });
    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: [-60, 0], ArrowRight: [60, 0], ArrowUp: [0, -60], ArrowDown: [0, 60] }[event.key];
      if (by) {
        this.view.x += by[0] / this.view.zoom;
        this.view.y += by[1] / this.view.zoom;
        this.draw();
        event.preventDefault();
      } else if (event.key === "+") this.zoomAt(1.25);
      else if (event.key === "-") this.zoomAt(0.8);
      else if (event.key === "f") this.fit(true);
      else if (event.key === "Escape") this.select(-1);
    });
    this.map.addEventListener("pointerdown", (event) => {
      const frame = this.map.getBoundingClientRect();
      const x = (event.clientX - frame.left - this.mapLeft) / this.mapScale, y = (event.clientY - frame.top - this.mapTop) / this.mapScale;
      this.view.x = x - this.width / this.view.zoom / 2;
      this.view.y = y - this.height / this.view.zoom / 2;
      this.draw();
    });
  }
}
