// What a break of no lease shows, and the list of all breaks.

// rowsOfIntent draws what became of a session that is itself no lease, and who trusted the leases under which it ran.
const rowsOfIntent = (f, b, ids) => {
  const E = M.events, K = X.kind, T = M.terms, said = new Set([K.redisState, K.redisIntent, K.asked, K.answered]), words = [];
  f.label("Session", shortName(b.session), f.y + 12);
  const y = f.y + 10;
  for (const i of ids) {
    const t = E.t[i] / 1000;
    if (t < f.t0 || t > f.t1) continue;
    const is = said.has(E.k[i]);
    f.mark(is ? sv("rect", { x: f.x(t) - 2, y: y - 8, width: 4, height: 16, fill: color("ink") }) : sv("circle", { cx: f.x(t), cy: y, r: 2.6, fill: color("muted") }), t, [lineOf(i)]);
    if (is) words.push([f.x(t) + 4, `${E.k[i] === K.redisState ? "" : `${M.kinds[E.k[i]]} `}${M.strings[E.r[i]].slice(0, 30)}`, "start", null]);
  }
  [0, 1, 2].forEach((k) => f.words(words.filter((_, i) => i % 3 === k), y + 20 + k * 13));
  f.y += 66;
  for (const s of b.leases || []) {
    f.label(shortName(s), "believed", f.y + 12);
    const ends = [];
    for (const i of X.bySession[s]) {
      const from = T.t[i], to = from + T.d[i], c = nodeColor(T.n[i]);
      if (to < f.t0 || from > f.t1) continue;
      const w = Math.max(1.5, f.cx(to) - f.cx(from)), g = sv("g");
      g.append(sv("rect", { x: f.cx(from), y: f.y, width: w, height: 22, fill: c.fill, "fill-opacity": 0.85, stroke: c.line }));
      if (w > 60) g.append(sv("text", { x: f.cx(from) + 5, y: f.y + 15, class: "bold on" }, nodeName(T.n[i])));
      f.mark(g, from, [`${nodeName(T.n[i])} trusts the lease ${sessionName(s)} from ${seconds(from)} to ${seconds(to)}, fence ${T.f[i]}: ${T.hows[T.h[i]]}`]);
      if (T.h[i] !== 0 && to <= f.t1) ends.push([f.x(to) + 3, endWords[T.h[i]] || "", "start", null]);
    }
    f.words(ends, f.y + 35);
    f.y += 44;
  }
};

// drawCommands draws what the node of a break of quiet sent, over the whole run, and where the judge found too much of it.
const drawCommands = (b) => {
  const n = b.owners.find((o) => o.node >= 0).node, sent = M.load.sent[n] || [], width = M.load.width || 1000, gutter = narrow() ? 40 : 136, h = 90;
  const w = Math.max(280, Math.min(1336, document.querySelector("main").clientWidth - (narrow() ? 24 : 64))), c = nodeColor(n), per = (v) => Math.round((v * 1000) / width);
  const all = sent.slice(0, 5000), most = Math.max(1, ...all), x = (t) => gutter + (t / X.end) * (w - gutter - 12), y = (v) => 12 + h - (v / most) * h;
  const g = sv("svg", { width: w, height: h + 32, viewBox: `0 0 ${w} ${h + 32}`, role: "img", "aria-label": `${nodeName(n)} sent at most ${per(most)} commands a second` });
  const { step, all: ticks } = ticksOf(0, X.end, narrow() ? 4 : 10);
  for (const t of ticks) g.append(sv("rect", { x: x(t), y: 12, width: 1, height: h, fill: color("line") }), sv("text", { x: clamp(x(t), gutter + 12, w - 14), y: h + 26, "text-anchor": "middle", class: "mut" }, axisText(t, step)));
  all.forEach((v, i) => { if (v > 0) g.append(sv("rect", { x: x(i * width), y: y(v), width: Math.max(1, x((i + 1) * width) - x(i * width) - 0.5), height: 12 + h - y(v), fill: c.fill, stroke: c.line, "stroke-width": 0.6 })); });
  for (const o of M.breaks.filter((o) => o.id === b.id && o.owners.some((p) => p.node === n))) g.append(sv("rect", { x: x(o.from / 1000) - 1, y: 4, width: 2, height: h + 8, fill: color("red") }));
  if (narrow()) {
    g.append(sv("text", { x: gutter - 4, y: y(most) + 8, "text-anchor": "end", class: "mut" }, per(most)));
    return g;
  }
  const name = sv("text", { x: 0, y: 22, class: "bold" }, nodeName(n));
  name.style.fill = c.line;
  g.append(name, sv("text", { x: 0, y: 36, class: "mut" }, "commands a second"), sv("text", { x: 0, y: 50, class: "mut" }, `at most ${per(most)}`));
  return g;
};

// inShort is the beginning of a break's sentence.
const inShort = (b) => {
  const text = b.sentence.map((p) => p.t).join("").replace(/^\S+ [^:]* broke: /, "").replace(/ No fault of the plan explains it\.\s*$/, "");
  return text.length > 160 ? `${text.slice(0, 160)}…` : text;
};

// others are the breaks of the same guarantee that the judge tells of in its own words.
const others = (b) => {
  const all = [...new Set(M.breaks.filter((o) => o.id === b.id && o !== b).map(inShort))].filter((text) => text !== inShort(b));
  if (all.length === 0) return null;
  return [el("p", null, "Its other breaks:"), el("ul", { class: "also" }, all.slice(0, 8).map((text) => el("li", null, text))),
    all.length > 8 ? el("p", null, `and ${all.length - 8} more, in the list of breaks`) : null];
};

const breakList = (at) => {
  if (M.breaks.length < 2) return null;
  const total = M.guarantees.reduce((n, g) => n + (g.broken || 0), 0);
  const order = M.breaks.map((b, i) => [b, i]).sort((x, y) => x[0].from - y[0].from);
  return el("details", { id: "breaklist" }, el("summary", null, `${M.breaks.length} of ${Math.max(total, M.breaks.length)} breaks can be drawn, in order of time`),
    el("ol", { class: "breaks" }, order.map(([b, i]) => el("li", null, el("button", { type: "button", "aria-current": i === at ? "true" : null, onclick: () => showBreak(i, true) },
      `${seconds(b.from / 1000)}  ${b.id}  ${inShort(b)}${i === at ? "  (shown)" : ""}`)))));
};
