// Section 3: one break from two TTLs before it to two after, as granted, believed and worked, with the messages below.
const cutting = new Set(["blackhole", "cut", "requests-lost", "replies-lost", "flapping"]);
const freezing = new Set(["freeze", "check-send", "suspend"]);

// windowOf is the part of a history that a break's figure is drawn from; times in ms.
const windowOf = (b) => {
  const ttl = M.ttl, from = b.from / 1000, to = b.to / 1000, k = narrow() ? 1 : 2;
  const gap = b.owners.length < 2 || !["G1", "E1"].includes(b.id);
  const end = gap ? Math.max(from + k * ttl, Math.min(to + ttl / 2, from + 6 * ttl)) : from + k * ttl;
  return [Math.max(0, from - k * ttl), Math.max(Math.min(end, X.end), from + ttl / 10)];
};

const eventsOf = (s, t0, t1) => {
  const out = [], E = M.events;
  for (let i = 0; i < E.t.length; i++) if (E.s[i] === s && E.t[i] / 1000 >= t0 && E.t[i] / 1000 <= t1) out.push(i);
  return out;
};

// grantsOf returns what Redis granted of a session, from all that is known of it: whose, from when to when, and when it was extended.
const grantsOf = (s) => {
  const E = M.events, K = X.kind, out = [];
  let open = null;
  const close = (t, how) => { if (open) { open.to = Math.min(t, open.until || t); open.how = t < (open.until || t) ? how : "ended"; out.push(open); open = null; } };
  const steps = eventsOf(s, -Infinity, Infinity).map((i) => ({ t: E.t[i] / 1000, i }));
  for (const m of M.marks) {
    if (m.kind === "redisFlushed" || m.kind === "redisUp" && m.why === "empty") steps.push({ t: m.at, wiped: true });
    if (m.kind === "tapDown") steps.push({ t: m.at, unknown: true });
  }
  steps.sort((x, y) => x.t - y.t);
  for (const { t, i, wiped, unknown } of steps) {
    if (wiped || unknown) { close(t, wiped ? "erased" : "not known"); continue; }
    const k = E.k[i], until = E.u[i] / 1000;
    if (open && open.until && t > open.until + 1) close(open.until, "ended");
    if (k === K.redisGranted) {
      if (open && open.instance === E.i[i]) { open.ext.push({ t, i }); open.until = until; continue; }
      const known = M.strings[E.i[i]] !== "";
      close(t, known ? "taken over" : "not known");
      if (known) open = { node: E.n[i], instance: E.i[i], from: t, until, ext: [], last: t, i };
    } else if (k === K.redisExtended) {
      if (!open) open = { node: E.n[i], instance: E.i[i], from: t, until, ext: [], last: t, i, before: true };
      open.ext.push({ t, i });
      open.last = t;
      open.until = until;
    } else if (k === K.redisDeleted) close(t, "deleted");
  }
  if (open) { open.to = open.until || X.end; open.how = "ended"; out.push(open); }
  return out;
};

// Figure is a drawing with a time axis, its marks in order of time and the box that tells of them.
class Figure {
  constructor(t0, t1, box) {
    this.w = Math.max(300, Math.min(1336, document.querySelector("main").clientWidth - (narrow() ? 24 : 64)));
    if (root.classList.contains("print")) this.w = 1336;
    this.g0 = narrow() ? 2 : 136;
    this.t0 = t0; this.t1 = t1; this.y = 0; this.box = box; this.marks = []; this.used = new Set();
    this.svg = sv("svg", { width: this.w, tabindex: 0, role: "group", "aria-label": "Drawing of the break; the arrow keys go from mark to mark" });
    this.back = sv("g"); this.front = sv("g");
    this.svg.append(hatchDefs("hatch"), this.back, this.front);
    this.svg.addEventListener("keydown", (ev) => this.key(ev));
  }
  x(t) { return this.g0 + ((t - this.t0) / (this.t1 - this.t0)) * (this.w - this.g0 - 12); }
  cx(t) { return this.x(clamp(t, this.t0, this.t1)); }
  add(e) { this.front.append(e); return e; }
  label(title, sub, y, c) {
    const t = sv("text", { x: 0, y, class: "bold" }, title);
    if (c) t.style.fill = c;
    this.add(t);
    if (sub) this.add(narrow() ? sv("text", { x: 6 + title.length * 7, y, class: "mut" }, sub) : sv("text", { x: 0, y: y + 12, class: "mut" }, sub));
    if (narrow()) this.y += 14;
  }
  // mark makes an element tell its lines.
  mark(e, t, lines, name) {
    const text = lines.join("\n");
    e.setAttribute("data-line", ""); e.setAttribute("tabindex", "-1"); e.setAttribute("role", "img"); e.setAttribute("aria-label", text);
    const tell = () => { this.box.textContent = text; };
    e.addEventListener("mouseenter", tell); e.addEventListener("focus", tell); e.addEventListener("click", tell);
    this.marks.push({ t, e, name });
    return this.add(e);
  }
  key(ev) {
    if (ev.key !== "ArrowRight" && ev.key !== "ArrowLeft") return;
    ev.preventDefault(); ev.stopPropagation();
    this.marks.sort((x, y) => x.t - y.t);
    const at = this.marks.findIndex((m) => m.e === document.activeElement), step = ev.key === "ArrowRight" ? 1 : -1;
    const next = this.marks[at < 0 ? (step > 0 ? 0 : this.marks.length - 1) : clamp(at + step, 0, this.marks.length - 1)];
    if (next) next.e.focus();
  }
  // words writes texts in a row, from the last to the first, and leaves out what would stand on another.
  words(all, y) {
    let left = Infinity;
    for (const [x, text, anchor, cls] of all.sort((p, q) => q[0] - p[0])) {
      const w = text.length * (cls ? 7.2 : 6.4), from = anchor === "end" ? x - w : x;
      if (from + w > left && left !== Infinity) continue;
      left = from - 4;
      this.text(x, y, text, { "text-anchor": anchor, class: cls });
    }
  }
  line(x1, y1, x2, y2, attrs) { return sv("line", { x1, y1, x2, y2, ...attrs }); }
  text(x, y, text, attrs) { return this.add(sv("text", { x, y, ...attrs }, text)); }
}

// arrow is a line with a head at its end.
const arrow = (f, x1, y1, x2, y2, stroke, attrs = {}) => {
  const g = sv("g"), up = y2 < y1 ? 1 : -1, size = attrs.thick ? 6 : 3.5;
  g.append(f.line(x1, y1, x2, y2, { stroke, "stroke-width": attrs.thick ? 3 : 1.4, "stroke-dasharray": attrs.dashed ? "3 2" : null }),
    f.line(x1, y1, x2, y2, { stroke: "transparent", "stroke-width": 7 }),
    sv("path", { d: `M${x2 - size} ${y2 + up * size * 1.6}L${x2} ${y2}L${x2 + size} ${y2 + up * size * 1.6}`, fill: attrs.thick ? stroke : "none", stroke, "stroke-width": 1.4 }));
  return g;
};
const cross = (x, y, r, stroke, width = 1.6) => sv("path", { d: `M${x - r} ${y - r}L${x + r} ${y + r}M${x - r} ${y + r}L${x + r} ${y - r}`, stroke, "stroke-width": width, fill: "none" });

const rowFaults = (f, b, nodes) => {
  const spans = M.faults.filter((x) => x.to >= f.t0 && x.from <= f.t1 && (x.node < 0 || nodes.includes(x.node)) && (x.session < 0 || x.session === b.session))
    .map((x) => {
      const label = `${x.kind}${x.node >= 0 ? ` ${nodeName(x.node)}` : ""}`;
      return { fault: x, x: f.cx(x.from), x2: Math.max(f.cx(x.to), f.cx(x.from) + 2), room: label.length * 6.3 + 8, label };
    });
  if (spans.length === 0) return;
  const top = f.y;
  f.label("Faults", "struck by the plan", f.y + 12);
  const lanes = packed(spans), y0 = narrow() ? top + 16 : top;
  f.bands = spans;
  for (const s of spans) {
    const y = y0 + s.lane * 19, g = sv("g");
    g.append(sv("rect", { x: s.x, y, width: s.x2 - s.x, height: 16, fill: color("faultfill"), "fill-opacity": 0.3, stroke: color("fault"), "stroke-width": s.fault.to > s.fault.from ? 1 : 2 }),
      sv("text", { x: Math.min(s.x + 5, f.w - s.room), y: y + 12 }, s.label));
    f.mark(g, s.fault.from, [faultLine(s.fault)]);
  }
  f.y = y0 + Math.max(lanes * 19 + 8, narrow() ? 0 : 34);
};

// rowHost draws when the host stalled and when Redis' stream was read late, in one lane.
const rowHost = (f) => {
  const all = M.stalls.filter((s) => s.to >= f.t0 && s.from <= f.t1);
  if (all.length === 0) return;
  f.label("Host", null, f.y + 9);
  for (const s of all) {
    f.used.add(s.kind);
    f.mark(sv("rect", { x: f.cx(s.from), y: f.y, width: Math.max(1.5, f.cx(s.to) - f.cx(s.from)), height: 10, fill: color(hostColor[s.kind]) }), s.from, [stallLine(s)]);
  }
  f.y += 18;
};
const hostColor = { stall: "muted", streamLate: "fault" };

// tint shades the row of what a fault struck.
const tint = (f, node, y, h) => {
  for (const s of f.bands || []) {
    if (s.fault.node !== node || s.fault.to <= s.fault.from) continue;
    f.back.append(sv("rect", { x: s.x, y, width: s.x2 - s.x, height: h, fill: color("faultfill"), "fill-opacity": 0.15 }));
  }
};

const rowGranted = (f, b, grants) => {
  const h = 22;
  f.label("Granted", "by Redis", f.y + 10);
  tint(f, -1, f.y, h);
  let labelled = -1;
  for (const g of grants) {
    if (g.to < f.t0 || g.from > f.t1) continue;
    const c = nodeColor(g.node), x = f.cx(g.from), x2 = Math.max(f.cx(g.to), x + 1.5), bar = sv("g");
    bar.append(sv("rect", { x, y: f.y, width: x2 - x, height: h, fill: c.fill, "fill-opacity": 0.55, stroke: c.line }));
    for (const e of g.ext) if (e.t >= f.t0 && e.t <= f.t1) bar.append(f.line(f.x(e.t), f.y, f.x(e.t), f.y + h, { stroke: c.line, "stroke-width": 1.5 }));
    const last = f.cx(Math.max(g.last, g.from)), rest = x2 - last;
    if (rest > 8 && g.last < f.t1) bar.append(f.line(last + 2, f.y + h / 2, x2 - 2, f.y + h / 2, { stroke: c.line, "stroke-dasharray": "2 3" }));
    if (rest > 90 && last + rest / 2 - 36 > x + nodeName(g.node).length * 6.5 + 10) bar.append(sv("text", { x: last + rest / 2, y: f.y + 15, "text-anchor": "middle" }, "not renewed"));
    const name = nodeName(g.node) === "?" ? M.strings[g.instance].slice(0, 14) : nodeName(g.node);
    if (x2 - x > name.length * 6.5 + 8 && x > labelled) { bar.append(sv("text", { x: x + 6, y: f.y + 15, class: "bold" }, name)); labelled = x + 60; }
    f.mark(bar, g.from, [lineOf(g.i), ...g.ext.filter((e) => e.i !== g.i).slice(-1).map((e) => lineOf(e.i))]);
    if ((g.how === "erased" || g.how === "deleted") && g.to > f.t0 && g.to < f.t1) f.text(x2 + 4, f.y + 15, g.how, { class: "mut" });
  }
  f.y += h + 10;
};

const endWords = { 1: "lost", 2: "released", 3: "its process ended", 4: "window closed", 5: "acquired again" };

const rowBelieved = (f, b, node, ids) => {
  const h = 30, E = M.events, K = X.kind, T = M.terms, c = nodeColor(node);
  f.label(nodeName(node), "believed", f.y + 12, c.line);
  const y = f.y, words = [];
  tint(f, node, y, h);
  for (const i of X.bySession[b.session] || []) {
    if (T.n[i] !== node || T.t[i] > f.t1 || T.t[i] + T.d[i] < f.t0) continue;
    const from = T.t[i], to = from + T.d[i], bar = sv("g");
    bar.append(sv("rect", { x: f.cx(from), y, width: Math.max(1.5, f.cx(to) - f.cx(from)), height: h, fill: c.fill, "fill-opacity": 0.85, stroke: c.line }));
    for (const [d0, d1] of X.doubts.get(i) || []) {
      if (d1 < f.t0 || d0 > f.t1) continue;
      f.used.add("doubt");
      bar.append(sv("rect", { x: f.cx(d0), y: y + 1, width: f.cx(d1) - f.cx(d0), height: h - 2, fill: color("bg"), "fill-opacity": 0.7 }));
    }
    const start = ids.find((k) => E.k[k] === K.acquired && E.n[k] === node && Math.abs(E.t[k] / 1000 - from) < 2);
    f.mark(bar, from, start === undefined ? [`${nodeName(node)} trusts its lease from ${seconds(from)} to ${seconds(to)}`] : [lineOf(start)]);
    const open = to > f.t1, pale = (X.doubts.get(i) || []).some(([d0, d1]) => d0 <= Math.min(to, f.t1) && d1 >= Math.min(to, f.t1) - 1);
    if (open && narrow()) continue; // the plate says it
    if (open) {
      const text = T.h[i] === 0 ? "to the end of the run ▸" : `to ${seconds(to)} ▸`;
      words.push([f.w - 18, text, "end", !pale && f.w - 18 - f.cx(from) > text.length * 7.2 ? "bold on" : "bold"]);
    } else if (to >= f.t0) {
      f.add(f.line(f.x(to), y - 2, f.x(to), y + h + 2, { stroke: c.line, "stroke-width": 3 }));
      const said = ids.find((k) => (E.k[k] === K.lost || E.k[k] === K.released) && E.n[k] === node && Math.abs(E.t[k] / 1000 - to) < 2);
      const word = (endWords[T.h[i]] || "") + (said !== undefined && M.strings[E.r[said]] ? `: ${M.strings[E.r[said]].slice(0, 40)}` : "");
      const inside = f.x(to) - f.cx(from) > word.length * 6.2 + 10 && f.w - f.x(to) < word.length * 6.2 + 20;
      words.push([inside ? f.x(to) - 6 : Math.min(f.x(to) + 6, f.w - word.length * 6.2), word, inside ? "end" : "start", inside && !pale ? "on" : null]);
    }
  }
  f.words(words, y + 13);
  let last = null;
  for (const k of ids) {
    if (E.n[k] !== node || E.k[k] !== K.renewed && E.k[k] !== K.acquired) continue;
    const t = E.t[k] / 1000;
    if (t <= b.from / 1000) last = k;
    if (t < f.t0 || t > f.t1) continue;
    f.mark(f.line(f.x(t), y + h - 8, f.x(t), y + h, { stroke: c.line, "stroke-width": 2.5 }), t, [lineOf(k)]);
  }
  if (last !== null && E.u[last]) {
    const u = E.u[last] / 1000;
    if (u > f.t0 && u < f.t1) {
      f.used.add("until");
      f.mark(sv("circle", { cx: f.x(u), cy: y + h - 4, r: 3, fill: c.line }), u, [`${nodeName(node)}'s own deadline (until) of ${lineOf(last).trim()}`]);
    }
  }
  f.y += h;
};

const overlapFrame = (f, b, top, mid, bottom) => {
  const from = b.from / 1000, to = b.to / 1000, x = f.cx(from), x2 = Math.max(f.cx(to), x + 2), w = x2 - x, tall = w < 220;
  const g = sv("g"), red = color("red");
  g.append(sv("rect", { x, y: tall ? top : mid, width: w, height: tall ? bottom - top : 20, fill: "url(#hatch)", "fill-opacity": tall ? 0.5 : 0.9 }),
    sv("rect", { x, y: top, width: w, height: bottom - top, fill: "none", stroke: red, "stroke-width": 2 }));
  const text = `${length(to - from)} with two owners${to > f.t1 ? ` ▸ to ${seconds(to)}` : ""}`, tw = text.length * 6.9 + 14;
  const px = clamp(x + w / 2 - tw / 2, f.g0, f.w - tw - 4);
  g.append(sv("rect", { x: px, y: mid + 1, width: tw, height: 18, fill: red, rx: 2 }));
  const t = sv("text", { x: px + tw / 2, y: mid + 14, "text-anchor": "middle", class: "bold" }, text);
  t.style.fill = color("bg");
  g.append(t);
  f.mark(g, from, [`both trusted from ${seconds(from)} to ${seconds(to)}: ${length(to - from)}`, ...b.steps.map((s) => `${seconds(s.at / 1000)}  ${s.text}`)]);
};

const rowWorked = (f, node, ids) => {
  const h = 24, E = M.events, K = X.kind, c = nodeColor(node);
  const some = ids.some((k) => E.n[k] === node && (E.k[k] === K.arrived || E.k[k] === K.rejected || E.k[k] === K.aborted));
  if (!some) return;
  f.label(nodeName(node), null, f.y + 15, c.line);
  if (!narrow()) f.text(nodeName(node).length * 7 + 6, f.y + 15, "worked: polls", { class: "mut" });
  tint(f, node, f.y, h);
  for (const k of ids) {
    const t = E.t[k] / 1000, x = f.x(t), y = f.y + 11;
    if (E.n[k] !== node || t < f.t0 || t > f.t1) continue;
    if (E.k[k] === K.arrived) f.mark(sv("circle", { cx: x, cy: y, r: 3.4, fill: c.line }), t, [lineOf(k)]), f.used.add("served");
    else if (E.k[k] === K.rejected) f.mark(cross(x, y, 3.6, color("ink"), 1.8), t, [lineOf(k)]), f.used.add("refused");
    else if (E.k[k] === K.aborted) f.mark(sv("circle", { cx: x, cy: y, r: 3.4, fill: color("bg"), stroke: c.line, "stroke-width": 1.5 }), t, [lineOf(k)]), f.used.add("aborted");
  }
  f.y += h;
};

const rowMessages = (f, b, nodes, grants, ids) => {
  const E = M.events, K = X.kind, gap = 54, tapped = grants.length > 0;
  if (!tapped && !ids.some((k) => [K.renewStart, K.renewed, K.acquired].includes(E.k[k]))) return;
  const asked = ids.some((k) => E.k[k] === K.renewStart);
  f.text(f.g0, f.y + 11, `messages about this lease${asked ? " (renewals, grants)" : ": only answers, these nodes say no renewStart"}${tapped ? "" : "; Redis was not watched"}`, { class: "mut" });
  f.y += narrow() ? 34 : 22;
  const ys = nodes.length > 1 ? [f.y, f.y + 2 * gap] : [f.y], redis = f.y + gap;
  f.add(f.line(f.g0, redis, f.w - 12, redis, { stroke: color("ink"), "stroke-width": 1.3 }));
  f.text(narrow() ? 4 : 0, redis + (narrow() ? -4 : 4), "Redis", { class: "bold" });
  nodes.slice(0, 2).forEach((node, k) => messagesOf(f, node, ys[k], redis, ids, tapped, [b.from / 1000, b.to / 1000]));
  f.y = (nodes.length > 1 ? f.y + 2 * gap : redis) + 14;
};

const lifeLane = (f, node, y, c) => {
  for (const [from, to] of M.nodes[node].lives) {
    const end = to < 0 ? X.end : to;
    if (end < f.t0 || from > f.t1) continue;
    f.add(f.line(f.cx(from), y, f.cx(end), y, { stroke: c.line, "stroke-width": 1.6 }));
    if (from > f.t0) f.mark(sv("circle", { cx: f.x(from), cy: y, r: 4, fill: color("bg"), stroke: c.line, "stroke-width": 1.6 }), from, [`${seconds(from)}  ${nodeName(node)} new process`]), f.used.add("spawned");
    if (end < f.t1 && to >= 0) f.mark(cross(f.x(end), y, 4, c.line, 2), end, [`${seconds(end)}  ${nodeName(node)} its process ended`]), f.used.add("exited");
  }
  for (const s of M.faults) {
    if (s.node !== node || s.to <= s.from || s.to < f.t0 || s.from > f.t1 || !cutting.has(s.kind) && !freezing.has(s.kind)) continue;
    f.used.add("cut");
    f.add(f.line(f.cx(s.from), y, f.cx(s.to), y, { stroke: color("bg"), "stroke-width": 3, "stroke-dasharray": "3 3" }));
  }
};

const messagesOf = (f, node, y, redis, ids, tapped, tried) => {
  const E = M.events, K = X.kind, c = nodeColor(node), mine = ids.filter((k) => E.n[k] === node);
  if (!narrow()) { const t = f.text(0, y + 4, nodeName(node), { class: "bold" }); t.style.fill = c.line; } else f.text(4, y - 5, nodeName(node), { class: "bold" });
  if (M.nodes[node]) lifeLane(f, node, y, c);
  const done = mine.filter((k) => E.k[k] === K.redisExtended || E.k[k] === K.redisGranted);
  const seen = (t) => t >= f.t0 && t <= f.t1;
  let start = null;
  const granted = [];
  const lostRequest = (since, lines) => {
    const dir = redis > y ? 1 : -1, g = sv("g");
    g.append(f.line(f.x(since), y, f.x(since), y + dir * 22, { stroke: color("fault"), "stroke-width": 1.4 }), cross(f.x(since), y + dir * 25, 3, color("fault")));
    f.used.add("unanswered");
    f.mark(g, since, lines);
  };
  for (const k of mine) {
    const t = E.t[k] / 1000, kind = E.k[k];
    if (kind === K.renewStart) {
      if (start !== null && seen(E.t[start] / 1000)) lostRequest(E.t[start] / 1000, [lineOf(start)]);
      start = k;
    }
    else if (kind === K.renewed || kind === K.renewFailed || kind === K.acquireFailed || kind === K.acquired || kind === K.lost || kind === K.released) {
      const since = start !== null ? E.t[start] / 1000 : t - M.ttl / 6;
      const act = done.filter((d) => E.t[d] / 1000 >= since - 2 && E.t[d] / 1000 <= t + 2).pop();
      if (start !== null && seen(since)) {
        const reach = act !== undefined ? E.t[act] / 1000 : since, ok = act !== undefined || kind === K.renewed && !tapped;
        if (ok) f.mark(arrow(f, f.x(since), y, f.cx(Math.max(reach, since)), redis, c.line), since, [lineOf(start)]);
        else lostRequest(since, [lineOf(start), lineOf(k)]);
      }
      if (kind === K.renewed && seen(t)) {
        if (act === undefined && tapped) f.mark(arrow(f, f.x(t), redis, f.x(t), y, color("red"), { dashed: true }), t, [lineOf(k)]), f.used.add("untrue");
        else f.mark(arrow(f, f.cx(act !== undefined ? E.t[act] / 1000 : t), redis, f.x(t), y, c.line), t, [lineOf(k), ...(act !== undefined ? [lineOf(act)] : [])]);
      } else if (kind === K.acquireFailed && seen(t)) {
        const dir = redis > y ? 1 : -1;
        f.mark(cross(f.x(t), y + dir * 8, 3.4, color("fault")), t, [lineOf(k)]);
        f.used.add("unanswered");
        const why = `not granted: ${M.strings[E.r[k]].slice(0, 24)}`, right = f.x(t) < f.g0 + why.length * 6.4;
        if (M.strings[E.r[k]] && t >= tried[0] && t <= tried[1]) granted.push([f.x(t) + (right ? 8 : -8), why, right ? "start" : "end", null]);
        continue;
      } else if (kind === K.renewFailed && seen(t)) {
        const dir = redis > y ? 1 : -1;
        f.mark(cross(f.x(t), y + dir * 8, 3.4, color("fault")), t, [lineOf(k)]);
        f.used.add("unanswered");
      } else if (kind === K.acquired && seen(t)) {
        f.mark(arrow(f, f.cx(act !== undefined ? E.t[act] / 1000 : t), redis, f.x(t), y, c.line, { thick: true }), t, [lineOf(k), ...(act !== undefined ? [lineOf(act)] : [])]);
        f.used.add("grant");
        const text = `granted to ${nodeName(node)}`, right = f.x(t) < f.g0 + text.length * 6.5;
        granted.push([f.x(t) + (right ? 8 : -8), text, right ? "start" : "end", "bold"]);
      } else if ((kind === K.lost || kind === K.released) && seen(t)) {
        f.mark(sv("rect", { x: f.x(t) - 3, y: y - 5, width: 6, height: 10, fill: c.line }), t, [lineOf(k)]);
        f.used.add("over");
      }
      start = null;
    }
  }
  f.words(granted, (y + redis) / 2 + 4);
};

const rowAxis = (f) => {
  const { step, all } = ticksOf(f.t0, f.t1, narrow() ? 4 : 10);
  for (const t of all) {
    f.back.append(f.line(f.x(t), 20, f.x(t), f.y, { stroke: color("line") }));
    f.text(clamp(f.x(t), f.g0 + 12, f.w - 14), f.y + 13, axisText(t, step), { "text-anchor": "middle", class: "mut" });
  }
  f.y += 20;
};

// callouts are the numbers of the steps over the drawing, each with a hairline; a deadline is a dashed stroke with its sentence.
const callouts = (f, b, bottom) => {
  let right = -1;
  b.steps.forEach((s, k) => {
    const t = s.at / 1000, beyond = t > f.t1, before = t < f.t0, x = Math.max(f.cx(t), right + 19);
    right = x;
    const g = sv("g"), hollow = beyond || before;
    if (!hollow) f.back.append(f.line(f.x(t), 18, f.x(t), bottom, { stroke: color("muted"), "stroke-width": 0.8 }));
    g.append(sv("circle", { cx: Math.min(x, f.w - 14), cy: 9, r: 8, fill: hollow ? color("bg") : color("ink"), stroke: color("ink") }));
    const n = sv("text", { x: Math.min(x, f.w - 14), y: 13, "text-anchor": "middle", class: "bold" }, String(k + 1));
    n.style.fill = hollow ? color("ink") : color("bg");
    g.append(n);
    if (hollow) g.append(sv("text", { x: beyond ? Math.min(x, f.w - 14) + 10 : x - 16, y: 13 }, beyond ? "▸" : "◂"));
    f.mark(g, t, [`${k + 1}  ${seconds(t)}  ${s.text}`]);
  });
};

const deadlineLine = (f, b, top, bottom, textY) => {
  const t = b.deadline / 1000;
  if (!b.deadline || t < f.t0 || t > f.t1) return;
  f.used.add("deadline");
  const g = sv("g"), tw = b.missed.length * 6.7 + 6, left = f.x(t) > f.g0 + tw, x = left ? f.x(t) - 5 : clamp(f.x(t) + 5, f.g0, Math.max(f.g0, f.w - tw));
  g.append(f.line(f.x(t), top, f.x(t), bottom, { stroke: color("ink"), "stroke-width": 2, "stroke-dasharray": "4 3" }));
  const text = sv("text", { x, y: textY, "text-anchor": left ? "end" : "start", class: "bold" }, b.missed);
  g.append(text);
  f.mark(g, t, [`${seconds(t)}  ${b.missed}`]);
};

const gapBracket = (f, b, y) => {
  const beyond = ["G1", "E1"].includes(b.id) && b.deadline, from = (beyond ? b.deadline : b.from) / 1000, to = b.to / 1000;
  if (to - from < 1) return 0;
  const x = f.cx(from), x2 = f.cx(to), red = color("red"), g = sv("g");
  g.append(sv("path", { d: `M${x} ${y + 14}V${y + 4}H${x2}V${y + 14}`, fill: "none", stroke: red, "stroke-width": 2 }));
  const text = beyond ? `${length(to - from)} too long` : `${length(to - from)}${b.deadline ? `, ${length(Math.max(0, to - b.deadline / 1000))} too long` : ""}`, tw = text.length * 6.9 + 14;
  const px = clamp((x + x2) / 2 - tw / 2, f.g0, f.w - tw - 4);
  g.append(sv("rect", { x: px, y: y - 5, width: tw, height: 18, fill: red, rx: 2 }));
  const t = sv("text", { x: px + tw / 2, y: y + 8, "text-anchor": "middle", class: "bold" }, text);
  t.style.fill = color("bg");
  g.append(t);
  f.mark(g, from, b.steps.map((s) => `${seconds(s.at / 1000)}  ${s.text}`));
  return 22;
};

// nodesOf are those that have a part in a break: its owners, then who trusted the lease meanwhile.
const nodesOf = (b, t0, t1) => {
  const out = b.owners.map((o) => o.node).filter((n, i, all) => n >= 0 && all.indexOf(n) === i), T = M.terms;
  for (const i of X.bySession[b.session] || []) {
    if (T.n[i] >= 0 && T.t[i] <= t1 && T.t[i] + T.d[i] >= t0 && !out.includes(T.n[i])) out.push(T.n[i]);
  }
  return out.slice(0, 4);
};

// triedOf are those that tried in vain to take what nobody had.
const triedOf = (b) => {
  if (!["G5", "G8", "G9", "G13", "E4"].includes(b.id)) return [];
  const E = M.events, ids = eventsOf(b.session, b.from / 1000, b.to / 1000).filter((i) => E.k[i] === X.kind.acquireFailed && E.n[i] >= 0);
  return [...new Set(ids.map((i) => E.n[i]))];
};

const legends = {
  two: ["both trusted", () => sv("g", null, sv("rect", { x: 1, y: 2, width: 18, height: 9, fill: "url(#hatch)", stroke: color("red") }))],
  served: ["poll served", () => sv("circle", { cx: 8, cy: 7, r: 3.4, fill: color("ink") })],
  refused: ["poll refused by its fence", () => cross(8, 7, 3.6, color("ink"))],
  aborted: ["poll given up", () => sv("circle", { cx: 8, cy: 7, r: 3.4, fill: "none", stroke: color("ink") })],
  unanswered: ["request unanswered, or refused", () => cross(8, 7, 3.4, color("fault"))],
  untrue: ["“renewed” said, but Redis extended nothing", () => sv("line", { x1: 8, y1: 1, x2: 8, y2: 13, stroke: color("red"), "stroke-dasharray": "3 2", "stroke-width": 1.5 })],
  grant: ["the grant", () => sv("line", { x1: 8, y1: 1, x2: 8, y2: 13, stroke: color("ink"), "stroke-width": 3 })],
  over: ["let go", () => sv("rect", { x: 5, y: 2, width: 6, height: 10, fill: color("ink") })],
  cut: ["cut off or frozen", () => sv("line", { x1: 0, y1: 7, x2: 20, y2: 7, stroke: color("ink"), "stroke-dasharray": "3 3", "stroke-width": 1.6 })],
  spawned: ["new process", () => sv("circle", { cx: 8, cy: 7, r: 4, fill: "none", stroke: color("ink") })],
  exited: ["process ended", () => cross(8, 7, 4, color("ink"), 2)],
  doubt: ["pale: in doubt (renewFailed)", () => sv("rect", { x: 0, y: 2, width: 18, height: 9, fill: color("none"), stroke: color("muted") })],
  until: ["its own deadline (until)", () => sv("circle", { cx: 8, cy: 7, r: 3, fill: color("muted") })],
  fence: ["fence set, or given; a red step falls", () => sv("rect", { x: 5, y: 4, width: 6, height: 6, fill: color("ink") })],
  stall: ["host stalled", () => sv("rect", { x: 1, y: 2, width: 18, height: 10, fill: color("muted") })],
  streamLate: ["Redis’ stream read late", () => sv("rect", { x: 1, y: 2, width: 18, height: 10, fill: color("fault") })],
  deadline: ["missed deadline", () => sv("line", { x1: 8, y1: 0, x2: 8, y2: 14, stroke: color("ink"), "stroke-width": 2, "stroke-dasharray": "4 3" })],
};

const drawLease = (b, box) => {
  const [t0, t1] = windowOf(b), f = new Figure(t0, t1, box), ids = eventsOf(b.session, t0 - M.ttl, t1 + 10), grants = grantsOf(b.session);
  const nodes = nodesOf(b, t0, t1), two = ["G1", "E1"].includes(b.id) && b.owners.length > 1;
  f.y = 26;
  rowFaults(f, b, nodes);
  rowHost(f);
  if (!two) f.y += gapBracket(f, b, f.y + 6);
  const top = f.y;
  if (grants.length > 0) rowGranted(f, b, grants);
  if (nodes.length === 0 && grants.length === 0) rowsOfIntent(f, b, ids);
  if (["G2", "G3", "E2", "E3", "I1"].includes(b.id)) rowFences(f, b);
  const textY = f.y + 5;
  f.y += 10;
  const believedTop = f.y;
  let mid = 0;
  nodes.forEach((node, k) => {
    rowBelieved(f, b, node, ids);
    if (k === 0 && two) { mid = f.y; f.y += 20; } else f.y += 8;
  });
  if (two) { f.used.add("two"); overlapFrame(f, b, believedTop + (narrow() ? 14 : 0), mid, Math.min(f.y, mid + 50 + (narrow() ? 14 : 0))); }
  f.y += 4;
  for (const node of nodes) rowWorked(f, node, ids);
  f.y += 6;
  rowMessages(f, b, [...new Set([...nodes.slice(0, 1), ...triedOf(b), ...nodes])], grants, ids);
  deadlineLine(f, b, top - 2, f.y - 10, textY);
  callouts(f, b, f.y);
  rowAxis(f);
  f.svg.setAttribute("height", f.y);
  f.svg.setAttribute("viewBox", `0 0 ${f.w} ${f.y}`);
  return { figure: f, ids: ids.filter((i) => M.events.t[i] / 1000 >= t0) };
};

// drawBreak draws section 3 for the break of that number.
const drawBreak = (at) => {
  const b = M.breaks[at], box = el("div", { class: "lines mono", "aria-live": "polite", id: "lines" });
  const owners = b.owners.flatMap((o, i) => [i ? ", " : " ", colored(o.name, o.node), o.fence ? ` had fence ${o.fence}` : ""]);
  const steps = el("ol", { class: "steps" }, b.steps.map((s, k) => el("li", null, el("span", { class: "num", "aria-hidden": "true" }, k + 1),
    el("div", null, el("div", { class: "time mono" }, seconds(s.at / 1000)), s.text))));
  const head = el("p", null, `${b.id} ${(M.guarantees.find((g) => g.id === b.id) || {}).promise || ""}.`,
    b.session >= 0 ? [" Session ", el("code", null, sessionName(b.session)), "; two TTLs ", `(${length(2 * M.ttl)}) before and after.`] : null, owners);
  const parts = [head];
  if (["G6", "G7"].includes(b.id) && b.watched) parts.push(el("figure", null, drawBalance(b)));
  if (at !== 0 || M.head.verdict !== "fail") parts.push(el("p", null, sentenceParts(b.sentence, b.owners))); // else the page begins with it
  parts.push(steps);
  if (b.watched) {
    const { figure, ids } = drawLease(b, box), E = M.events;
    const grant = ids.find((i) => E.k[i] === X.kind.acquired && Math.abs(E.t[i] - b.from) < 2000) ?? ids.reduce((x, i) => (x === undefined || Math.abs(E.t[i] - b.from) < Math.abs(E.t[x] - b.from) ? i : x), undefined);
    box.textContent = grant === undefined ? "" : lineOf(grant);
    parts.push(el("figure", null, figure.svg), box,
      el("div", { class: "legend" }, Object.entries(legends).filter(([k]) => figure.used.has(k)).map(([, [text, draw]]) => el("span", null, sv("svg", { width: 20, height: 14 }, draw()), text)),
        el("span", null, "hover or focus a mark: its event line (arrow keys go on)")),
      el("pre", { class: "printed" }, b.steps.map((s) => ids.find((i) => Math.abs(E.t[i] - s.at) < 2000)).filter((i) => i !== undefined).map(lineOf).join("\n")),
      asTable("The same as a table", ["time", "who", "what", "of what"], () => ids.slice(0, 400).map((i) => [
        seconds(E.t[i] / 1000), nodeName(E.n[i]), M.kinds[E.k[i]], lineOf(i).slice(36).trim()])));
    if (/^(E[56]|I[1-6])$/.test(b.id)) parts.push(others(b));
  } else {
    if (b.said) parts.push(el("p", null, `The judge: ${b.said}`));
    parts.push(others(b));
    if (["G14", "E7", "I7"].includes(b.id) && b.owners.some((o) => o.node >= 0)) parts.push(narrow() ? el("p", null, "Commands a second of the first:") : null, el("figure", null, drawCommands(b)));
    if (["G6", "G7", "G11"].includes(b.id)) parts.push(el("figure", null, drawBalance(b)));
    if (b.lines && b.lines.length) parts.push(el("p", null, "What the judge shows of it:"), el("pre", { class: "lines events" }, b.lines.join("\n")));
  }
  parts.push(breakList(at));
  return section(at === 0 ? `The first break: ${b.lead}` : `A break: ${b.lead}`, "break", ...parts);
};
