// Sections 5 and 6: times and loads, the plan, the configuration.
const stripPlot = (title, g) => {
  const all = (g && g.times ? g.times : []).filter((t) => t.n > 0);
  if (all.length === 0) return null;
  const w = Math.max(300, Math.min(652, (document.querySelector("main").clientWidth - 90) / (narrow() ? 1 : 2))), gutter = 118, right = narrow() ? 16 : 215;
  const limit = g.unit.startsWith("ms") ? g.limit : 0, most = Math.max(limit * 1.25, Math.min(Math.max(...all.map((t) => t.max)), limit ? limit * 2 : Infinity)) || 1;
  const x = (t) => gutter + (Math.min(t, most) / most) * (w - gutter - right), h = all.length * 24;
  const s = sv("svg", { width: w, height: h + 18, viewBox: `0 0 ${w} ${h + 18}`, role: "img", "aria-label": all.map((t) => `${t.of}: n ${t.n}, p50 ${length(t.p50)}, max ${length(t.max)}`).join("; ") });
  const { step, all: ticks } = ticksOf(0, most, 5);
  for (const t of ticks) s.append(sv("rect", { x: x(t), y: 0, width: 1, height: h, fill: color("line") }), sv("text", { x: x(t), y: h + 13, "text-anchor": "middle", class: "mut" }, most < 2000 ? `${t} ms` : axisText(t, step)));
  if (limit) s.append(sv("line", { x1: x(limit), y1: 0, x2: x(limit), y2: h, stroke: color("ink"), "stroke-width": 2, "stroke-dasharray": "4 3" }));
  all.forEach((t, k) => {
    const y = k * 24 + 12;
    s.append(sv("text", { x: 0, y: y + 4 }, t.of));
    for (const [at, n] of t.dots) {
      const dots = Math.min(n, 12);
      for (let i = 0; i < dots; i++) {
        const cy = y + (dots > 1 ? (i / (dots - 1) - 0.5) * Math.min(14, dots * 3) : 0);
        s.append(at > most ? sv("text", { x: x(most), y: y + 4 }, "▸") : sv("circle", { cx: x(at), cy, r: 2, fill: color("muted"), "fill-opacity": 0.75 }));
      }
    }
    s.append(sv("rect", { x: x(t.p50) - 1, y: y - 9, width: 2, height: 18, fill: color("ink") }));
    if (!narrow()) s.append(sv("text", { x: w - right + 10, y: y + 4, class: "mut" }, `n ${t.n} · p50 ${length(t.p50)} · max ${length(t.max)}`));
  });
  const below = narrow() ? el("div", { class: "small" }, all.map((t) => `${t.of}: n ${t.n}, p50 ${length(t.p50)}, max ${length(t.max)}`).join("; ")) : null;
  return el("div", null, el("h3", null, `${title} (${g.id}${limit ? `: limit ${length(limit)}` : ""})`), el("figure", null, s), below);
};

// drawShares draws how many leases each node trusts, with the ideal as a hairline, over what it sent.
const drawShares = (between) => {
  const [t0, t1] = between || [0, X.end], ideal = idealShare();
  const most = Math.min(4 * ideal, Math.max(1, ...M.nodes.map((_, n) => sharesOf(n).max))), level = (v) => (h - (Math.min(v, most) / most) * h).toFixed(1);
  const sent = M.load.sent || [], width = M.load.width || 1000, peak = Math.max(1, ...sent.flatMap((s) => (s || []).slice(0, 5000)));
  const w = 150, h = 34, h2 = 22, x = (t) => ((clamp(t, t0, t1) - t0) / (t1 - t0)) * w;
  return el("div", { class: "cells" }, M.nodes.slice(0, 60).map((node, n) => {
    const s = sharesOf(n), c = nodeColor(n), area = [`M0 ${h}`];
    s.t.forEach((t, i) => {
      const to = i + 1 < s.t.length ? s.t[i + 1] : X.end;
      if (to >= t0 && t <= t1) area.push(`L${x(t).toFixed(1)} ${level(s.v[i])}L${x(to).toFixed(1)} ${level(s.v[i])}`);
    });
    const mine = sent[n] || [], line = mine.map((v, i) => `${i ? "L" : "M"}${x((i + 0.5) * width).toFixed(1)} ${(h + 4 + h2 - (v / peak) * h2).toFixed(1)}`).join("");
    const top = mine.length ? Math.max(...mine.slice(0, 5000)) * 1000 / width : 0, text = `${node.name}: at most ${s.max} leases${mine.length ? `, ${Math.round(top)} commands a second` : ""}`;
    return el("div", null, el("div", { class: "small" }, el("b", { class: ["as-a", "as-b"][X.guilty.indexOf(n)] || "" }, node.name), ` max ${s.max}${mine.length ? `, ${Math.round(top)}/s` : ""}`),
      sv("svg", { width: w, height: h + h2 + 6, viewBox: `0 0 ${w} ${h + h2 + 6}`, role: "img", "aria-label": text },
        sv("path", { d: `${area.join("")}L${w} ${h}Z`, fill: c.fill, "fill-opacity": 0.8 }),
        sv("rect", { x: 0, y: h - (Math.min(ideal, most) / most) * h, width: w, height: 0.8, fill: color("ink") }),
        line ? sv("path", { d: line, fill: "none", stroke: color("ink"), "stroke-width": 1 }) : null));
  }));
};

const drawLoads = () => {
  const titles = {
    G5: "Takeovers, from the fault to the next owner", E4: "Takeovers, from the fault to the next leader", G13: "Handovers, from released to the next owner",
    G8: "Gaps between polls", G9: "Back after Redis failed",
  };
  const plots = M.guarantees.map((g) => stripPlot(titles[g.id] || g.promise, g)).filter((p) => p);
  const g14 = M.guarantees.find((g) => ["G14", "E7", "I7"].includes(g.id));
  return section("Times and loads", "loads",
    el("p", null, "A dot is one lease (at most twelve are drawn over one another); the upright stroke is the median, the dashed line the limit, as far as no other fault moved it; ▸ lies beyond the scale. What was excused is not among them."),
    plots.length ? el("div", { class: "two" }, plots) : el("p", null, "No time was measured."),
    el("h3", null, `Leases trusted over time (area, hairline: ideal) and commands sent (line), per node, on one scale, cut off at four times the ideal${M.nodes.length > 60 ? `; the first 60 of ${M.nodes.length} nodes` : ""}`),
    el("figure", null, drawShares()),
    g14 && g14.exercised ? el("p", { class: "small" }, `${g14.id} ${g14.promise}: ${g14.detail.slice(0, 300)}`) : null);
};

const drawPlan = () => {
  const struck = new Map(M.faults.map((f) => [f.n, f])), rows = M.plan.map((p) => {
    const f = struck.get(p.n), target = f && f.node >= 0 && p.target !== nodeName(f.node) ? `${p.target} (${nodeName(f.node)})` : p.target;
    return el("tr", null, el("td", { class: "n" }, p.n), el("td", { class: "n wide" }, seconds(p.at, 2)), el("td", { class: "n" }, f ? seconds(f.from, 2) : M.end < X.end ? "not reached" : "spared"), el("td", null, p.kind), el("td", null, target), el("td", { class: "n" }, p.for ? length(p.for) : ""), el("td", null, p.lone ? "alone" : ""));
  });
  rows.slice(20).forEach((r) => { r.hidden = true; });
  const more = rows.length > 20 ? el("button", { type: "button", onclick: (ev) => { rows.forEach((r) => { r.hidden = false; }); ev.currentTarget.remove(); } }, `show all ${rows.length}`) : null;
  const head = [["#", "n"], ["planned, of the storm", "n wide"], ["struck, of the run", "n"], ["fault"], ["target"], ["for", "n"], [""]];
  return section("Plan, configuration, versions", "plan",
    el("div", { class: "plan" },
      el("div", null, rows.length ? el("table", null, el("thead", null, el("tr", null, head.map(([n, c]) => el("th", { scope: "col", class: c }, n)))), el("tbody", null, rows)) : el("p", { class: "muted" }, "No fault was planned."), more),
      el("div", null, el("dl", { class: "config" }, M.config.map(([name, value]) => el("div", null, el("dt", null, name), el("dd", null, value.length > 40 && !value.includes(" ") ? el("span", { title: value }, `${value.slice(0, 16)}…`) : value)))),
        M.notes && M.notes.length ? [el("h3", null, "Notes"), el("ul", null, M.notes.map((n) => el("li", { class: "small" }, n)))] : null)));
};
