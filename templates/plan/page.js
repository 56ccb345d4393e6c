"use strict";
// Draws the plan on canvases that share one axis: schedule positions. Columns of the lists: harness/plan_view.py.
const plan = JSON.parse(document.getElementById("plan").textContent);
const LEFT = 84, RIGHT = 14, TOP = 18, BOTTOM = 20;
const count = plan.steps.length;
const whole = [0, Math.max(count, 1)];
let view = [...whole];
let charts = [];
let colours = {};

const nests = plan.nests.map(([title, begin, end, tiles, double, start, total, compute, dma, ram, farIn, farOut, farCommands,
  nearIn, nearOut, nearCommands, scratch, scratchBytes], index) => ({ index, title, begin, end, tiles, double, start, total,
  compute, dma, ram, far: [farIn, farOut, farCommands], near: [nearIn, nearOut, nearCommands], scratch, scratchBytes }));
const blocks = plan.blocks.map(([nest, operand, value, lasting, loaded, stored, home, box, bytes, slots, stage, stageBytes,
  stageSlots, tensor, moved, reasons]) => ({ nest, operand, value: plan.values[value], lasting, loaded, stored, home, box, bytes,
  slots, stage, stageBytes, stageSlots, tensor, moved, reasons }));

const number = n => Math.round(n).toLocaleString("en-US");
const bytesText = n => `${number(n)} bytes`;
const short = n => n >= 1048576 ? `${+(n / 1048576).toFixed(2)} MiB` : n >= 1024 ? `${+(n / 1024).toFixed(1)} KiB` : `${n} B`;
const millions = n => n >= 1e6 ? `${+(n / 1e6).toFixed(2)} M` : n >= 1e3 ? `${+(n / 1e3).toFixed(1)} k` : number(n);
const stepName = position => plan.steps[position] ? plan.steps[position][0] : "";
const titleOf = (entry, what) => entry === what ? entry : `${entry}: ${what}`;
const some = (list, most = 3) => list.length > most ? `${list.slice(0, most).join(", ")} and ${list.length - most} more` : list.join(", ");

// ---- from a position to predicted cycles and back to the pixel: nests of one node share its column

function cyclesAt(position) {
  let low = 0, high = nests.length - 1;
  if (high < 0) return 0;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (nests[middle].begin <= position) low = middle; else high = middle - 1;
  }
  const nest = nests[low];
  return nest.start + nest.total * Math.min(Math.max((position - nest.begin) / (nest.end - nest.begin), 0), 1);
}

// ---- what is drawn: rectangles of memory, bars of traffic, bars of time; each with the lines of its hover

function placeLines([level, name, address, bytes, first, last, persistent, why, values, writers, readers]) {
  const live = persistent ? "always live" : `live from ${first} (${stepName(first)}) to ${last} (${stepName(last)})`;
  const titles = list => list.length ? some(list.map(i => nests[i].title)) : "no nest";
  const lines = [plan.values[name], `${bytesText(bytes)} in ${level} at address ${number(address)}`, live,
    `written by ${titles(writers)}`, `read by ${titles(readers)}`];
  if (values.length > 1) lines.push(`holds one after the other: ${some(values.map(i => plan.values[i]), 6)}`);
  return [...lines, why];
}

function blockLines(block, level, address, bytes, slot, slots) {
  const nest = nests[block.nest];
  const does = [block.loaded ? "loaded" : "", block.stored ? "stored" : ""].filter(Boolean).join(" and ");
  const lines = [block.value, `${slots > 1 ? `buffer ${slot + 1} of ${slots}` : "buffer"} in ${level} at address ${number(address)}, ` +
    bytesText(bytes), `for ${nest.title}, its operand ${block.operand}: ${does}`, `box ${block.box}, home ${block.home}` +
    (block.stage === "none" ? "" : `, staged in L2 (${block.stage === "tile" ? "tile by tile" : "as a whole"})`),
    `boxes that pass: ${bytesText(block.moved)}; the tensor: ${bytesText(block.tensor)}`];
  return block.reasons ? [...lines, block.reasons] : lines;
}

function memoryRects(level) {
  const rects = [];
  for (const [where, what, address, bytes] of plan.fixed)
    if (where === level) rects.push({ x0: 0, x1: count, y: address, size: bytes, fill: "fixed", text: what.split(";")[0], ink: "ink",
      lines: () => [what, `${bytesText(bytes)} of ${level}`] });
  for (const place of plan.places) {
    const [where, name, address, bytes, first, last, persistent] = place;
    if (where === level) rects.push({ x0: first, x1: last + 1, y: address, size: bytes, fill: persistent ? "persist" : "pass",
      ink: persistent ? "on-persist" : "on-pass", text: plan.values[name], lines: () => placeLines(place) });
  }
  const buffer = (block, address, bytes, slot, slots) => {
    const nest = nests[block.nest];
    rects.push({ x0: nest.begin, x1: nest.end, y: address, size: bytes, fill: block.lasting ? "persist" : "pass", pale: true,
      ink: "ink", text: block.value, lines: () => blockLines(block, level, address, bytes, slot, slots) });
  };
  for (const block of blocks) {
    if (level === "L1") block.slots.forEach((at, i) => buffer(block, at, block.bytes, i, block.slots.length));
    if (level === "L2") block.stageSlots.forEach((at, i) => buffer(block, at, block.stageBytes, i, block.stageSlots.length));
  }
  if (level === "L1") for (const nest of nests) if (nest.scratchBytes) rects.push({ x0: nest.begin, x1: nest.end, y: nest.scratch,
    size: nest.scratchBytes, fill: "scratch", ink: "ink", text: "scratch", lines: () => ["scratch of the kernel",
      `${bytesText(nest.scratchBytes)} at address ${number(nest.scratch)}`, `for ${nest.title}`] });
  return rects;
}

function hopLines(nest, hop, name) {
  const [fetched, stored, commands] = hop;
  return [nest.title, `${name}: ${bytesText(fetched)} fetched, ${bytesText(stored)} stored, ${number(commands)} commands`];
}

function nestLines(nest) {
  return [nest.title, `predicted, ${plan.model}: ${number(nest.total)} cycles`,
    `cores ${number(nest.compute)}, DMA ${number(nest.dma)}, RAM ${number(nest.ram)}`,
    `tiles ${nest.tiles}; ${nest.double ? "double buffering: side by side" : "single buffering: in turn"}`];
}

// ---- painting

function rectangle(paint, x0, y0, x1, y1, rect) {
  const { ctx, width } = paint;
  const a = Math.max(x0, LEFT), b = Math.min(x1, width - RIGHT);
  if (b <= a || x1 < LEFT || x0 > width - RIGHT) return;
  const wide = Math.max(b - a - (b - a > 4 ? 1 : 0), 0.6), high = Math.max(y1 - y0 - (y1 - y0 > 4 ? 0.7 : 0), 0.6);
  ctx.globalAlpha = rect.pale ? 0.5 : 1;
  ctx.fillStyle = colours[rect.fill];
  ctx.fillRect(a, y0, wide, high);
  ctx.globalAlpha = 1;
  if (paint.hover === rect) { ctx.strokeStyle = colours.ink; ctx.lineWidth = 2; ctx.strokeRect(a, y0, wide, high); ctx.lineWidth = 1; }
  if (rect.text && high >= 11 && wide > 34) {
    const text = fitting(ctx, rect.text, wide - 8);
    ctx.fillStyle = colours[rect.ink];
    if (text) ctx.fillText(text, a + 4, y0 + Math.min(high / 2 + 4, 13));
  }
  paint.chart.hits.push([a, y0, Math.max(a + wide, a + 2), Math.max(y0 + high, y0 + 2), rect]);
}

function fitting(ctx, text, room) {
  if (ctx.measureText(text).width <= room) return text;
  const keep = Math.floor(text.length * room / ctx.measureText(text).width) - 2, head = Math.ceil(keep / 2);
  return keep >= 8 ? `${text.slice(0, head)}\u2026${text.slice(head - keep)}` : "";  // ends of names differ more often
}

function ticks(most, steps) {
  const raw = most / steps, scale = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map(n => n * scale).find(n => n >= raw) || raw || 1;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

function byteTicks(most, steps) {
  let step = 1;
  while (most / step > steps) step *= 2;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

function axisLines(paint, values, y, text) {
  const { ctx, width } = paint;
  ctx.textAlign = "right";
  for (const value of values) {
    ctx.fillStyle = colours.grid;
    ctx.fillRect(LEFT, y(value), width - LEFT - RIGHT, 1);
    ctx.fillStyle = colours.muted;
    ctx.fillText(text(value), LEFT - 6, y(value) + 4);
  }
  ctx.textAlign = "left";
}

function timeAxis(paint, x, entries, places, text) {
  const { ctx, height, width } = paint;
  for (const [entry, what, first, end] of entries) {
    const a = Math.max(x(first), LEFT), b = Math.min(x(end), width - RIGHT);
    if (b - a < 1) continue;
    ctx.fillStyle = colours.line;
    if (x(first) >= LEFT) ctx.fillRect(a, 0, 1, height - BOTTOM);
    ctx.fillStyle = colours.muted;
    const label = fitting(ctx, titleOf(entry, what), b - a - 8) || fitting(ctx, entry, b - a - 4);
    ctx.fillText(label, a + 4, 12);
  }
  ctx.textAlign = "center";
  ctx.fillStyle = colours.muted;
  for (const place of places) {
    const at = x(place);
    if (at >= LEFT && at <= width - RIGHT - 12) ctx.fillText(text(place), at, height - 6);
  }
  ctx.textAlign = "left";
}

const columns = paint => position => LEFT + (position - view[0]) / (view[1] - view[0]) * (paint.width - LEFT - RIGHT);
const positionTicks = () => ticks(view[1] - view[0], 12).map(t => Math.ceil(view[0]) + t).filter(t => Number.isInteger(t) && t < count);

function drawMemory(paint) {
  const { chart, ctx, height, width } = paint, x = columns(paint);
  const y = address => height - BOTTOM - address / chart.most * (height - TOP - BOTTOM);
  axisLines(paint, byteTicks(chart.most, 6), y, short);
  for (const rect of chart.rects)
    if (rect.y < chart.most) rectangle(paint, x(rect.x0), y(Math.min(rect.y + rect.size, chart.most)), x(rect.x1), y(rect.y), rect);
  const bound = chart.bound;
  if (bound && bound.address <= chart.most) {
    ctx.strokeStyle = ctx.fillStyle = colours.mark;
    ctx.setLineDash([6, 4]);
    ctx.beginPath(); ctx.moveTo(LEFT, y(bound.address)); ctx.lineTo(width - RIGHT, y(bound.address)); ctx.stroke();
    ctx.setLineDash([]);
    const wide = ctx.measureText(bound.text).width;
    ctx.fillStyle = colours.card;
    ctx.globalAlpha = 0.85;
    ctx.fillRect(width - RIGHT - wide - 8, y(bound.address) + 2, wide + 8, 14);
    ctx.globalAlpha = 1;
    ctx.fillStyle = colours.mark;
    ctx.fillText(bound.text, width - RIGHT - wide - 4, y(bound.address) + 13);
  }
  timeAxis(paint, x, plan.entries, positionTicks(), String);
}

function drawTraffic(paint) {
  const { chart, height } = paint, x = columns(paint);
  const y = bytes => height - BOTTOM - bytes / (chart.most || 1) * (height - TOP - BOTTOM);
  axisLines(paint, byteTicks(chart.most || 1, 4), y, short);
  for (const bar of chart.rects) {
    const [fetched, stored] = bar.hop;
    const draw = (from, to, fill) => to > from && rectangle(paint, x(bar.x0), y(to), x(bar.x1), y(from), bar.parts[fill]);
    draw(0, fetched, "strong");
    draw(fetched, fetched + stored, "weak");
  }
  timeAxis(paint, x, plan.entries, positionTicks(), String);
}

const LANES = [["cores", "compute"], ["DMA, L2\u2013L1", "dma"], ["RAM, L3\u2013L2", "ram"]];

function drawTimeline(paint) {
  const { ctx, height, width } = paint, from = cyclesAt(view[0]), to = Math.max(cyclesAt(view[1]), from + 1);
  const x = cycles => LEFT + (cycles - from) / (to - from) * (width - LEFT - RIGHT);
  const lane = (height - TOP - BOTTOM) / 3;
  LANES.forEach(([name], i) => {
    ctx.fillStyle = colours.grid;
    ctx.fillRect(LEFT, TOP + (i + 1) * lane - 1, width - LEFT - RIGHT, 1);
    ctx.fillStyle = colours.muted;
    ctx.fillText(name, 4, TOP + i * lane + lane / 2 + 4);
  });
  for (const nest of nests) {
    if (nest.start > to || nest.start + nest.total < from) continue;
    let at = nest.start;
    const most = Math.max(nest.compute, nest.dma, nest.ram);
    for (const i of [2, 1, 0]) {
      const cycles = nest[LANES[i][1]];
      const rect = paint.chart.bars[nest.index][i];
      rect.fill = cycles === most ? "strong" : "weak";
      rect.ink = cycles === most ? "on-strong" : "ink";
      const end = Math.min(at + cycles, nest.start + nest.total);
      if (cycles) rectangle(paint, x(at), TOP + i * lane + 3, x(end), TOP + (i + 1) * lane - 4, rect);
      if (!nest.double) at = end;
    }
  }
const entries = plan.entries.map(([entry, what, first, end]) => [entry, what, cyclesAt(first), cyclesAt(end)]);
  timeAxis(paint, x, entries, ticks(to - from, 10).map(t => from + t), millions);
}

function draw(chart, hover) {
  const width = chart.canvas.clientWidth, height = chart.height, ratio = window.devicePixelRatio || 1;
  if (chart.canvas.width !== Math.round(width * ratio)) chart.canvas.width = Math.round(width * ratio);
  if (chart.canvas.height !== Math.round(height * ratio)) chart.canvas.height = Math.round(height * ratio);
  const ctx = chart.canvas.getContext("2d");
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, height);
  ctx.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  chart.hits = [];
  chart.paint({ chart, ctx, width, height, hover });
}

function drawAll() {
  const style = getComputedStyle(document.documentElement);
  const names = ["card", "ink", "muted", "grid", "line", "persist", "on-persist", "pass", "on-pass", "scratch", "fixed", "strong",
    "on-strong", "weak", "mark"];
  colours = Object.fromEntries(names.map(name => [name, style.getPropertyValue(`--${name}`).trim()]));
  charts.forEach(chart => draw(chart));
  for (const button of document.querySelectorAll("#views button"))
    button.classList.toggle("on", Number(button.dataset.first) === view[0] && Number(button.dataset.end) === view[1]);
}

// ---- building the page

function element(parent, tag, text = "", more = {}) {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  Object.assign(made, more);
  parent.append(made);
  return made;
}

function addChart(title, note, height, paint, more) {
  const box = element(document.getElementById("charts"), "div"), heading = element(box, "h3", title);
  element(heading, "span", note ? `  ${note}` : "");
  if (!height) return;
  const canvas = element(box, "canvas");
  canvas.style.height = `${height}px`;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${title}; the tables below say the same`);
  const chart = { canvas, height, paint, hits: [], ...more };
  charts.push(chart);
  listen(chart);
}

// Tiles of one nest lie side by side in L1, so what is in use there is what is needed.
const boundText = level => level === "L1" ? "most in use" : "lower bound of tensors and buffers";

function build() {
  for (const [level, capacity, reserved, used, bound] of plan.levels) {
    const rects = memoryRects(level);
    if (!rects.length) { addChart(`${level}: nothing lives here`, "", 0); continue; }
    const end = Math.max(...rects.map(rect => rect.y + rect.size));
    const most = used < capacity / 2 && level === "L3" ? end * 1.05 : capacity;
    const fixedEnd = plan.fixed.filter(row => row[0] === level && row[2] > 0).reduce((sum, row) => sum + row[3], 0);
    const shown = most < capacity ? `, drawn up to ${short(most)}` : "";
    addChart(`${level}: address over time`, `${short(used)} used of ${short(capacity)}${shown}; lower bound ${short(bound)}`,
      level === "L3" ? 200 : 320, drawMemory, { rects, most,
        bound: { address: bound - fixedEnd, text: `${boundText(level)}: ${short(bound - fixedEnd)}` } });
  }
  for (const [title, key, name] of [["Bytes that each nest moves between L3 and L2", "far", "L3\u2013L2"],
    ["Bytes that each nest moves between L2 and L1", "near", "L2\u2013L1"]]) {
    const rects = nests.filter(nest => nest[key][0] + nest[key][1]).map(nest => {
      const part = fill => ({ fill, lines: () => hopLines(nest, nest[key], name) });
      return { x0: nest.begin, x1: nest.end, hop: nest[key], parts: { strong: part("strong"), weak: part("weak") } };
    });
    const most = Math.max(0, ...rects.map(bar => bar.hop[0] + bar.hop[1]));
    if (most) addChart(title, "strong: fetched, faint: stored", 130, drawTraffic, { rects, most });
    else addChart(`${title}: none`, "", 0);
  }
  addChart(`Timeline: predicted, ${plan.model}`, "cycles of one execution of every entry; strong: what bounds the nest. Sums per " +
    "nest: with single buffering in turn, with double buffering side by side", 150, drawTimeline, { bars: nests.map(nest =>
    LANES.map(() => ({ text: nest.title, lines: () => nestLines(nest) }))) });
}

// ---- moving, zooming, pointing

function show(first, end) {
  const span = Math.min(Math.max(end - first, 1), whole[1]);
  const from = Math.min(Math.max(first, 0), whole[1] - span);
  view = [from, from + span];
  drawAll();
}

function zoom(factor, at = (view[0] + view[1]) / 2) {
  show(at - (at - view[0]) * factor, at + (view[1] - at) * factor);
}

function listen(chart) {
  const tip = document.getElementById("tip"), canvas = chart.canvas;
  let drag = null;
  canvas.addEventListener("pointerdown", event => { drag = [event.clientX, ...view]; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; draw(chart); });
  canvas.addEventListener("dblclick", () => show(...whole));
  canvas.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const share = (event.offsetX - LEFT) / (canvas.clientWidth - LEFT - RIGHT);
    zoom(event.deltaY > 0 ? 1.25 : 0.8, view[0] + share * (view[1] - view[0]));
  }, { passive: false });
  canvas.addEventListener("pointermove", event => {
    if (drag) {
      const moved = (event.clientX - drag[0]) / (canvas.clientWidth - LEFT - RIGHT) * (drag[2] - drag[1]);
      show(drag[1] - moved, drag[2] - moved);
      return;
    }
    const { offsetX: x, offsetY: y } = event;
    const hit = chart.hits.findLast(([x0, y0, x1, y1]) => x >= x0 && x <= x1 && y >= y0 && y <= y1);
    draw(chart, hit && hit[4]);
    tip.hidden = !hit;
    if (!hit) return;
    tip.replaceChildren();
    const lines = hit[4].lines();
    lines.forEach((line, i) => element(tip, "div", line, { className: i > 3 && i === lines.length - 1 ? "why" : "" }));
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${Math.max(8, event.clientY + 16 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 12 : event.clientY + 16)}px`;
  });
}

function tools() {
  const views = document.getElementById("views");
  const add = (text, first, end) => {
    const button = element(views, "button", text);
    Object.assign(button.dataset, { first, end });
    button.addEventListener("click", () => show(first, end));
  };
  add("everything", ...whole);
  for (const [entry, what, first, end] of plan.entries) add(titleOf(entry, what), first, end);
  document.getElementById("in").addEventListener("click", () => zoom(0.5));
  document.getElementById("out").addEventListener("click", () => zoom(2));
}

build();
tools();
drawAll();
addEventListener("resize", drawAll);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
