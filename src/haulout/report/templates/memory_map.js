"use strict";
// Boxes are painted pixel by pixel into an image: they do not overlap, so a picture costs about as many writes as the
// map has pixels, however many boxes there are. It is kept; only the cursor moves on it. A linear search finds the box
// under the pointer. The data are compressed: a browser reads 16 MB of a page in half a second, and 3 MB in a tenth.
const unpack = async id => {
  const packed = await fetch("data:application/octet-stream;base64," + document.getElementById(id).textContent);
  return new Response(packed.body.pipeThrough(new DecompressionStream("deflate"))).json();
};
(async () => {
const data = await unpack("data");
let parsed = null;
const details = async () => parsed ??= await unpack("details");
const side = document.getElementById("side"), search = document.getElementById("search");
const dark = matchMedia("(prefers-color-scheme: dark)");
const PALETTE = [["#7fadE3", "#3f6fae"], ["#f2a65a", "#b8701f"], ["#b9c3ce", "#56616e"], ["#93cda0", "#3f8450"], ["#d3a2de", "#86519a"]];
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const colour = group => PALETTE[group % PALETTE.length][dark.matches ? 1 : 0];
const packed = text => { const v = parseInt(text.slice(1), 16); return 0xff000000 | (v & 255) << 16 | (v >> 8 & 255) << 8 | v >> 16; };
function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"]; let k = 0;
  while (n >= 1024 && k < 4) { n /= 1024; k++; }
  return (k ? n.toFixed(1) : n) + " " + units[k];
}
function element(tag, text, ...children) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

const groups = [...new Set(data.panels.flatMap(p => p.groups))];
const hidden = new Set(data.panels.filter(p => p.folded !== null).map(p => p.groups[p.folded]));
const panels = data.panels.map((p, number) => {
  const boxes = p.lower.length;
  const panel = {
    ...p, number, boxes, lower: Float64Array.from(p.lower), upper: Float64Array.from(p.upper),
    buffer: Int32Array.from(p.buffer), offset: Float64Array.from(p.offset), size: Float64Array.from(p.size),
    group: Uint8Array.from(p.group), words: null,
    map: document.querySelector(`canvas.map[data-panel="${number}"]`),
    live: document.querySelector(`canvas.live[data-panel="${number}"]`),
    match: null, image: null, base: document.createElement("canvas"), most: 1,
  };
  for (const level of p.level) panel.most = Math.max(panel.most, level);
  return panel;
});
// The offsets of what is shown, so that folded inputs leave no empty space above or below.
function extent(p) {
  let low = Infinity, high = p.capacity ?? -Infinity;
  for (let buffer = 0; buffer < p.names.length; buffer++) if (shown(p, buffer)) {
    low = Math.min(low, p.offset[buffer]); high = Math.max(high, p.offset[buffer] + p.size[buffer]);
  }
  return low < high ? [low, high] : [0, Math.max(p.top, 1)];
}

let full = [Infinity, -Infinity];
for (const p of panels) for (let i = 0; i < p.boxes; i++) {
  if (p.lower[i] < full[0]) full[0] = p.lower[i];
  if (p.upper[i] > full[1]) full[1] = p.upper[i];
}
if (!(full[0] < full[1])) full = [0, 1];
let view = full.slice(), cursor = null, chosen = null, needle = "", waiting = false, stale = true;

const shown = (p, buffer) => !hidden.has(p.groups[p.group[buffer]]);
const toX = (t, width) => (t - view[0]) / (view[1] - view[0]) * width;
const toTime = (x, width) => view[0] + x / width * (view[1] - view[0]);
const toOffset = (p, y, height) => p.bottom + (height - y) / height * p.height;

function fit(canvas) {
  const ratio = window.devicePixelRatio || 1, w = Math.round(canvas.clientWidth * ratio), h = Math.round(canvas.clientHeight * ratio);
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  return [w, h, ratio];
}

// The picture without the cursor.
function paint(p) {
  const [w, h, ratio] = fit(p.map);
  if (!w || !h) return;
  if (!p.image || p.image.width !== w || p.image.height !== h) {
    p.base.width = w; p.base.height = h;
    p.image = p.base.getContext("2d").createImageData(w, h);
    p.pixels = new Uint32Array(p.image.data.buffer);
  }
  const context = p.base.getContext("2d");
  const pixels = p.pixels, scale = w / (view[1] - view[0]), rise = h / p.height;
  pixels.fill(packed(style("--paper")));
  const colours = p.groups.map((_, group) => packed(colour(group))), faint = packed(dark.matches ? "#2b323d" : "#e4e8ed");
  const accent = packed(style("--accent"));
  const { boxes, lower, upper, offset, size, group, buffer: of, match, bottom } = p, begin = view[0];
  const visible = p.groups.map(name => !hidden.has(name)), marked = chosen && chosen.panel === p ? chosen.buffer : -1;
  for (let i = 0; i < boxes; i++) {
    const buffer = of[i];
    if (!visible[group[buffer]]) continue;
    let x0 = (lower[i] - begin) * scale, x1 = (upper[i] - begin) * scale;
    if (x1 < 0 || x0 >= w) continue;
    let y1 = h - (offset[buffer] - bottom) * rise, y0 = y1 - size[buffer] * rise;
    if (y1 < 0 || y0 >= h) continue;
    x0 = x0 < 0 ? 0 : x0 | 0; x1 = x1 > w ? w : x1 | 0;
    y0 = y0 < 0 ? 0 : y0 | 0; y1 = y1 > h ? h : y1 | 0;
    if (x1 - x0 > 3) x1--; else if (x1 <= x0) x1 = x0 + 1;
    if (y1 - y0 > 3) y0++; else if (y1 <= y0) y1 = y0 + 1;
    const ink = buffer === marked ? accent : match && !match[buffer] ? faint : colours[group[buffer]];
    for (let y = y0 * w; y < y1 * w; y += w) {
      if (x1 - x0 > 32) pixels.fill(ink, y + x0, y + x1);
      else for (let x = y + x0; x < y + x1; x++) pixels[x] = ink;
    }
  }
  context.putImageData(p.image, 0, 0);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  label(p, context, w / ratio, h / ratio);
  context.setTransform(1, 0, 0, 1, 0, 0);
  curve(p);
}

// The picture with the cursor.
function show(p) {
  const [w, h, ratio] = fit(p.map), context = p.map.getContext("2d");
  if (!w || !h) return;
  context.drawImage(p.base, 0, 0);
  if (cursor === null) return;
  const x = toX(cursor, w);
  context.strokeStyle = style("--ink"); context.setLineDash([3 * ratio, 3 * ratio]); context.lineWidth = ratio;
  stroke(context, x, 0, x, h); context.setLineDash([]);
}

function label(p, context, width, height) {
  context.font = "11px system-ui, sans-serif"; context.textBaseline = "middle"; context.fillStyle = style("--ink");
  let written = 0;
  for (let i = 0; i < p.boxes && written < 200; i++) {  // the largest boxes come first
    const buffer = p.buffer[i], x0 = Math.max(toX(p.lower[i], width), 0), x1 = Math.min(toX(p.upper[i], width), width);
    const y = height - (p.offset[buffer] + p.size[buffer] / 2 - p.bottom) / p.height * height;
    if (x1 - x0 < 48 || p.size[buffer] / p.height * height < 13 || y < 0 || y > height || !shown(p, buffer)) continue;
    const most = Math.floor((x1 - x0 - 8) / 6), name = p.names[buffer];
    context.fillText(name.length > most ? name.slice(0, Math.max(most - 1, 1)) + "…" : name, x0 + 4, y);
    written++;
  }
  lines(context, width, height, true);
  if (p.capacity !== null) {
    const y = height - (p.capacity - p.bottom) / p.height * height;
    context.strokeStyle = style("--accent"); stroke(context, 0, y, width, y);
  }
}

function stroke(context, ...ends) {
  context.beginPath(); context.moveTo(ends[0], ends[1]); context.lineTo(ends[2], ends[3]); context.stroke();
}

function lines(context, width, height, named) {
  context.lineWidth = 1;
  let last = -Infinity;
  data.fences.forEach((fence, number) => {
    const x = toX(fence.time + .5, width);
    if (x < 0 || x > width) return;
    context.strokeStyle = context.fillStyle = chosen && chosen.fence === number ? style("--accent") : style("--fence");
    stroke(context, x, 0, x, height);
    if (named && x - last > 70) { context.fillText(fence.name.slice(0, 12), x + 3, 8); last = x; }
  });
}

// Of each column of pixels the most that is live in it: a path through all moments would take longer than all boxes.
function curve(p) {
  const [w, h, ratio] = fit(p.live), context = p.live.getContext("2d"), { times, level, most } = p;
  const highest = new Float64Array(w + 1), scale = w / (view[1] - view[0]), rise = (h - 14 * ratio) / most;
  let low = 0, high = times.length;
  while (low < high) { const middle = low + high >> 1; if (times[middle] <= view[0]) low = middle + 1; else high = middle; }
  let column = 0, now = low ? level[low - 1] : 0;
  highest[0] = now;
  for (let i = low; i < times.length && column < w; i++) {
    const next = Math.min(Math.floor((times[i] - view[0]) * scale), w);
    for (; column < next; column++) highest[column + 1] = now;
    now = level[i];
    if (highest[column] < now) highest[column] = now;
  }
  for (; column < w; column++) highest[column + 1] = now;
  context.clearRect(0, 0, w, h);
  context.fillStyle = colour(0);
  for (let x = 0; x < w; x++) context.fillRect(x, h - highest[x] * rise, 1, highest[x] * rise);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.fillStyle = style("--ink"); context.font = "11px system-ui, sans-serif"; context.textBaseline = "top";
  context.fillText(`${bytes(most)} at most`, 4, 1);
  lines(context, w / ratio, h / ratio, false);
  context.setTransform(1, 0, 0, 1, 0, 0);
}

function draw() { stale = true; refresh(); }

function refresh() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    if (stale) panels.forEach(paint);
    stale = false;
    panels.forEach(show);
  });
}

function find(p, time, offset) {
  for (let i = 0; i < p.boxes; i++) {
    const buffer = p.buffer[i];
    if (p.lower[i] <= time && time < p.upper[i] && p.offset[buffer] <= offset && offset < p.offset[buffer] + p.size[buffer] && shown(p, buffer)) return i;
  }
  return -1;
}

function largest(p, time) {
  const live = [];
  for (let i = 0; i < p.boxes; i++) if (p.lower[i] <= time && time < p.upper[i]) live.push(p.buffer[i]);
  live.sort((a, b) => p.size[b] - p.size[a]);
  return live;
}

function list(p, time) {
  const live = largest(p, time), table = element("table");
  for (const buffer of live.slice(0, 10)) {
    table.append(element("tr", "", element("td", p.names[buffer]), element("td", bytes(p.size[buffer]))));
  }
  const sum = live.reduce((total, buffer) => total + p.size[buffer], 0);
  return [element("h3", `Live at ${data.unit} ${Math.floor(time)}: ${bytes(sum)}`), table,
    element("p", live.length > 10 ? `and ${live.length - 10} more` : "")];
}

async function describe(p, i, time) {
  const buffer = p.buffer[i], made = [element("h3", p.names[buffer])], facts = element("table"), row = p.row[buffer];
  const add = (name, value) => value && facts.append(element("tr", "", element("td", name), element("td", value)));
  const known = row === undefined ? null : await details();
  if (known) add("type", known.type[row]);
  add("bytes", `${bytes(p.size[buffer])} (${p.size[buffer].toLocaleString("en")})`);
  add("offset", "0x" + p.offset[buffer].toString(16));
  add("live", `${p.lower[i]} to ${p.upper[i]}`);
  add("where", p.title);
  if (known) { add("owner", `core ${known.core[row]}`); add("made at", known.place[row]); }
  made.push(facts);
  if (known) {
    const begin = known.start[row], end = known.start[row + 1], items = element("ul");
    for (let at = begin; at < end; at++) {
      const instruction = known.touch[at], place = known.loc[instruction];
      items.append(element("li", `core ${known.instruction_core[instruction]}: ${known.instruction[instruction]} ` +
        `${known.write[at] ? "writes" : "reads"}${place ? ` (${place})` : ""}`));
    }
    if (known.count[row] > end - begin) items.append(element("li", `and ${known.count[row] - (end - begin)} more`));
    made.push(items);
  }
  side.replaceChildren(...made, ...list(p, time));
}

function explain(fence) {
  const items = element("ul");
  for (const line of fence.orders) items.append(element("li", line));
  side.replaceChildren(element("h3", `Fence ${fence.name}`), element("p", fence.orders.length ? "It alone orders:" :
    "It orders nothing alone: other fences or dependences order the same, or it frees storage."), items);
}

function click(p, event) {
  const box = p.map.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  const near = data.fences.findIndex(fence => Math.abs(toX(fence.time + .5, box.width) - x) < 4);
  const time = toTime(x, box.width), i = find(p, time, toOffset(p, y, box.height));
  cursor = time;
  if (near >= 0) { chosen = { fence: near }; explain(data.fences[near]); }
  else if (i >= 0) { chosen = { panel: p, buffer: p.buffer[i] }; describe(p, i, time); }
  else { chosen = null; side.replaceChildren(...list(p, time)); }
  draw();
}

function zoom(p, factor, x, y) {
  if (y === null) {
    const length = Math.min(Math.max((view[1] - view[0]) * factor, 1), full[1] - full[0]), at = toTime(x, 1);
    const begin = Math.min(Math.max(at - x * length, full[0]), full[1] - length);
    view = [begin, begin + length];
  } else {
    const [low, high] = extent(p), height = Math.min(Math.max(p.height * factor, 1), high - low);
    const at = p.bottom + (1 - y) * p.height;
    p.bottom = Math.min(Math.max(at - (1 - y) * height, low), high - height);
    p.height = height;
  }
  draw();
}

function move(p, right, up) {
  const length = view[1] - view[0], begin = Math.min(Math.max(view[0] + right * length, full[0]), full[1] - length);
  view = [begin, begin + length];
  const [low, high] = extent(p);
  p.bottom = Math.min(Math.max(p.bottom + up * p.height, low), high - p.height);
  draw();
}

function reset() {
  view = full.slice();
  for (const p of panels) {
    const [low, high] = extent(p);
    p.bottom = low; p.height = high - low;
  }
  draw();
}

for (const p of panels) {
  let from = null, moved = false;
  p.map.addEventListener("wheel", event => {
    event.preventDefault();
    const box = p.map.getBoundingClientRect(), factor = Math.exp(Math.sign(event.deltaY || event.deltaX) * .25);
    zoom(p, factor, (event.clientX - box.left) / box.width, event.shiftKey ? (event.clientY - box.top) / box.height : null);
  }, { passive: false });
  p.map.addEventListener("pointerdown", event => { from = [event.clientX, event.clientY]; moved = false; p.map.setPointerCapture(event.pointerId); });
  p.map.addEventListener("pointerup", event => { if (from && !moved) click(p, event); from = null; });
  p.map.addEventListener("pointermove", event => {
    const box = p.map.getBoundingClientRect(), x = event.clientX - box.left;
    if (from) {
      const dx = event.clientX - from[0], dy = event.clientY - from[1];
      if (moved || Math.hypot(dx, dy) > 3) { moved = true; move(p, -dx / box.width, dy / box.height); from = [event.clientX, event.clientY]; }
      return;
    }
    const time = toTime(x, box.width), i = find(p, time, toOffset(p, event.clientY - box.top, box.height));
    const name = i < 0 ? "" : ` · ${p.names[p.buffer[i]]} · ${bytes(p.size[p.buffer[i]])}`;
    document.getElementById("cursor").textContent = `${data.unit} ${Math.floor(time)}${name}`;
    cursor = time;
    refresh();
  });
  p.map.addEventListener("keydown", event => {
    const act = {
      ArrowLeft: () => move(p, -.1, 0), ArrowRight: () => move(p, .1, 0), ArrowUp: () => move(p, 0, .1), ArrowDown: () => move(p, 0, -.1),
      "+": () => zoom(p, .8, .5, null), "=": () => zoom(p, .8, .5, null), "-": () => zoom(p, 1.25, .5, null), "0": reset,
      Enter: () => { cursor = (view[0] + view[1]) / 2; side.replaceChildren(...list(p, cursor)); draw(); },
    }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  new ResizeObserver(draw).observe(p.map);
}
document.addEventListener("keydown", event => {
  if (event.key === "/" && event.target !== search) { event.preventDefault(); search.focus(); }
});
document.getElementById("reset").addEventListener("click", reset);
dark.addEventListener("change", draw);

async function filter() {
  needle = search.value.trim().toLowerCase();
  let hits = 0;
  for (const p of panels) {
    p.match = needle ? new Uint8Array(p.names.length) : null;
    if (!needle) continue;
    p.words ??= p.names.map(name => name.toLowerCase());
    const known = p.row.length ? await details() : null;
    for (let buffer = 0; buffer < p.names.length; buffer++) {
      let found = p.words[buffer].includes(needle);
      const row = p.row[buffer];
      if (!found && known) {
        found = known.place[row].toLowerCase().includes(needle);
        for (let at = known.start[row]; !found && at < known.start[row + 1]; at++) found = known.loc[known.touch[at]].toLowerCase().includes(needle);
      }
      if (found) { p.match[buffer] = 1; hits++; }
    }
  }
  document.getElementById("hits").textContent = needle ? `${hits} found` : "";
  draw();
}
search.addEventListener("input", filter);

const legend = document.getElementById("legend");
groups.forEach((name, number) => {
  const swatch = element("i"), toggle = element("button", name);
  swatch.style.background = colour(number);
  toggle.type = "button";
  toggle.setAttribute("aria-pressed", String(!hidden.has(name)));
  toggle.addEventListener("click", () => {
    if (!hidden.delete(name)) hidden.add(name);
    toggle.setAttribute("aria-pressed", String(!hidden.has(name)));
    reset();
  });
  legend.append(swatch, toggle);
});
if (panels.length) side.replaceChildren(...list(panels[0], panels[0].time));
reset();
Object.assign(window, { panels, shown, colour, packed, style, paint, toX, look: () => ({ view, full, hidden }) });
requestAnimationFrame(() => requestAnimationFrame(() => { document.documentElement.dataset.ready = "yes"; }));
})();
