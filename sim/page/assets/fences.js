// What a break of fences and of balance shows beside the lease: the fences that Redis set and the target saw, and who had how many leases.

// shortFence is a fence for a label: its last digits, where the fences of the row are long.
const shortFence = (f) => { const s = String(f); return s.length > 7 ? `…${s.slice(-5)}` : s; };

// rowFences draws each fence as a step, in the order of their size: those that Redis set and nodes had as a line, those of polls as dots.
const rowFences = (f, b) => {
  const E = M.events, K = X.kind, big = (v) => BigInt(v), seen = [];
  let last = null, top = null, had = null;
  for (const i of eventsOf(b.session, 0, f.t1)) {
    const what = { [K.redisFence]: "set", [K.acquired]: "had", [K.arrived]: "used", [K.rejected]: "refused" }[E.k[i]], s = { i, what, t: E.t[i] / 1000, v: E.f[i] };
    if (!what || !s.v) continue;
    if (s.t >= f.t0) { seen.push(s); continue; }
    if (what === "used" || what === "refused") continue;
    last = s; // before the drawing begins
    if (what === "had") had = s;
    if (top === null || big(s.v) >= big(top.v)) top = s;
  }
  if (seen.length === 0) return;
  if (top) seen.unshift({ ...top, before: true });
  const all = [...new Set(seen.map((s) => String(s.v)))].sort((x, y) => (big(x) < big(y) ? -1 : 1)), gap = clamp(60 / Math.max(1, all.length - 1), 4, 18), h = Math.min(64, gap * (all.length - 1)) + 24;
  f.label("Fences", "set and used", f.y + 12);
  const y = (v) => f.y + 12 + (all.length - 1 - all.indexOf(String(v))) * (h - 24) / Math.max(1, all.length - 1), words = [];
  if (top) last = seen[0];
  for (const s of seen.filter((x) => !x.before && (x.what === "set" || x.what === "had"))) {
    const again = s.what === "had" && had && E.i[had.i] !== E.i[s.i] && String(had.v) === String(s.v), falls = again || top !== null && big(s.v) < big(top.v);
    if (s.what === "had") had = s;
    if (last) {
      f.add(f.line(f.cx(last.t), y(last.v), f.x(s.t), y(last.v), { stroke: color("ink"), "stroke-width": 1.3 }));
      f.add(f.line(f.x(s.t), y(last.v), f.x(s.t), y(s.v), { stroke: color(falls ? "red" : "ink"), "stroke-width": falls ? 2.5 : 1.3 }));
    }
    const mark = sv("rect", { x: f.x(s.t) - 3, y: y(s.v) - 3, width: 6, height: 6, fill: falls ? color("red") : s.what === "had" ? nodeColor(E.n[s.i]).fill : color("ink"), stroke: falls ? color("red") : color("ink") });
    f.mark(mark, s.t, [lineOf(s.i), ...(falls ? [`it is not larger than ${top.v} before it`] : [])]);
    if (falls && (!words.length || f.x(s.t) - words.at(-1)[0] > 2)) words.push([f.x(s.t) + 6, `${shortFence(top.v)} → ${shortFence(s.v)}`, "start", "bold fell"]);
    last = s;
    if (top === null || big(s.v) >= big(top.v)) top = s;
  }
  if (last) f.add(sv("path", { d: `M${f.cx(last.t)} ${y(last.v)}H${f.cx(f.t1)}`, fill: "none", stroke: color("ink"), "stroke-width": 1.3 }));
  for (const s of seen.filter((x) => x.what === "used" || x.what === "refused")) {
    const c = nodeColor(E.n[s.i]);
    f.mark(s.what === "used" ? sv("circle", { cx: f.x(s.t), cy: y(s.v), r: 2.6, fill: c.line }) : cross(f.x(s.t), y(s.v), 3.2, color("ink"), 1.6), s.t, [lineOf(s.i)]);
  }
  f.words(words, f.y + h - 2);
  f.used.add("fence");
  f.y += h + 8;
};

// drawBalance draws how many leases each node had when the break was noticed, against the ideal: off by more than one in red.
const drawBalance = (b) => {
  const at = b.from / 1000, w = Math.max(280, Math.min(1336, document.querySelector("main").clientWidth - (narrow() ? 24 : 64))), gutter = 110, right = 150;
  const alive = (n) => M.nodes[n].lives.some(([from, to]) => from <= at && (to < 0 || to >= at));
  const rows = M.nodes.map((_, n) => n).filter((n) => alive(n) || shareAt(n, at) > 0).slice(0, 40), owned = rows.map((n) => shareAt(n, at));
  const sum = owned.reduce((x, y) => x + y, 0), ideal = rows.length ? sum / rows.length : 0, most = Math.max(1, ...owned, ideal + 1), x = (v) => gutter + (v / most) * (w - gutter - right);
  const g = sv("svg", { width: w, height: rows.length * 22 + 22, viewBox: `0 0 ${w} ${rows.length * 22 + 22}`, role: "img", "aria-label": rows.map((n, k) => `${nodeName(n)} had ${owned[k]} leases`).join(", ") }, hatchDefs("balance-hatch"));
  rows.forEach((n, k) => {
    const c = nodeColor(n), off = Math.abs(owned[k] - ideal) > 1, y = k * 22;
    const name = sv("text", { x: 0, y: y + 14, class: "bold" }, nodeName(n));
    name.style.fill = c.line;
    g.append(name, sv("rect", { x: gutter, y: y + 4, width: Math.max(1, x(owned[k]) - gutter), height: 12, fill: c.fill, "fill-opacity": 0.8, stroke: c.line }));
    if (off) {
      const from = Math.min(x(owned[k]), x(ideal)), to = Math.max(x(owned[k]), x(ideal));
      g.append(sv("rect", { x: from, y: y + 3, width: to - from, height: 14, fill: "url(#balance-hatch)", stroke: color("red"), "stroke-width": 1.6 }));
    }
    const d = owned[k] - ideal, said = sv("text", { x: Math.max(x(owned[k]), x(ideal)) + 8, y: y + 14, class: off ? "bold" : "mut" }, `${owned[k]}${Math.abs(d) >= 0.005 ? ` (${d > 0 ? "+" : "−"}${Math.abs(d).toFixed(2)})` : ""}`);
    if (off) said.style.fill = color("red");
    g.append(said);
  });
  g.append(sv("line", { x1: x(ideal), y1: 0, x2: x(ideal), y2: rows.length * 22, stroke: color("ink"), "stroke-width": 2, "stroke-dasharray": "4 3" }),
    sv("text", { x: x(ideal), y: rows.length * 22 + 14, "text-anchor": "middle", class: "mut" }, `ideal ${ideal.toFixed(2)}, at ${seconds(at)}`));
  return g;
};
