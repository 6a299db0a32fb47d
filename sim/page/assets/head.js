// Sections 1 and 2: the sentence with its commands, and the guarantees.
const glyphs = { pass: "✓", fail: "✕", unknown: "?" };

const copyButton = (text) => el("button", {
  type: "button", "aria-label": `copy: ${text}`,
  onclick: async (ev) => {
    const b = ev.currentTarget;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = el("textarea", { class: "hidden", "aria-hidden": "true" }, text);
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    b.textContent = "copied";
    setTimeout(() => { b.textContent = "copy"; }, 1500);
  },
}, "copy");

// colored is a node's name in the colour that it has in every figure.
const colored = (name, node) => {
  const s = el("span", null, name);
  s.style.color = X.guilty.includes(node) ? nodeColor(node).line : "";
  return s;
};

const sentenceParts = (parts, owners) => parts.map((p) => {
  if (p.as === "code") return el("code", null, p.t);
  const o = owners && owners["ab".indexOf(p.as)];
  if (o) return colored(p.t, o.node);
  return p.as ? el("span", { class: `as-${p.as}` }, p.t) : p.t;
});

const drawHead = () => {
  const h = M.head;
  document.title = h.title;
  return el("header", null,
    el("div", { class: "facts" }, el("span", { class: `badge ${h.verdict}` }, `${glyphs[h.verdict]} ${h.verdict.toUpperCase()}`), h.facts.join(" · ")),
    h.banner ? el("p", { class: "banner", role: "note" }, h.banner) : null,
    el("h1", null, sentenceParts(h.sentence)),
    h.sub ? el("div", { class: "muted" }, h.sub) : null,
    el("div", { class: "cmds" },
      h.commands.map(([what, cmd]) => el("span", { class: "cmd" }, `${what} `, el("code", null, cmd), " ", copyButton(cmd))),
      h.muted ? el("span", null, h.muted) : null,
      M.smaller ? el("button", { type: "button", id: "smaller", onclick: () => { location.hash = "#run=smaller"; } }, `show the smallest run that breaks it: ${M.smaller.head.facts.slice(2, 5).join(", ")}, ${(M.smaller.plan || []).length} fault${(M.smaller.plan || []).length === 1 ? "" : "s"}`) : null,
      M !== whole ? el("button", { type: "button", id: "whole", onclick: () => { location.hash = "#"; } }, "back to the run that it was made of") : null));
};

const kindsText = (kinds, of, most) => {
  const all = kinds.filter((k) => k[of] > 0 && k.kind !== "none").sort((x, y) => y[of] - x[of]);
  const text = all.map((k) => `${k.kind} ${k[of]}`);
  return { all: text.join(", "), short: text.slice(0, most).join(", ") + (text.length > most ? ` +${text.length - most}` : "") };
};

// limitBar draws the value against the limit, whose tick stands at 70 %.
const limitBar = (g) => {
  if (g.verdict === "unknown") return el("span", { class: "small" }, g.exercised > 0 ? "not decided" : "not put to the test");
  const w = 150, tick = 105, zero = g.limit === 0;
  const x = zero ? (g.value > 0 ? w : 0) : clamp((g.value / g.limit) * tick, 0, w), at = zero ? 1 : tick;
  const bad = g.verdict === "fail";
  return sv("svg", { width: w, height: 12, role: "img", "aria-label": `${g.value} of ${g.limit} ${g.unit}` },
    bad ? hatchDefs("bar-hatch") : null,
    sv("rect", { x: 0, y: 3, width: w, height: 6, fill: color("none") }),
    x > 0 ? sv("rect", { x: 0, y: 3, width: x, height: 6, fill: bad ? "url(#bar-hatch)" : color("muted"), stroke: bad ? color("red") : null }) : null,
    sv("rect", { x: at - 1, y: 0, width: 2, height: 12, fill: color("ink") }));
};

const hatchDefs = (id) => sv("defs", null, sv("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
  sv("rect", { width: 6, height: 6, fill: color("bg") }), sv("rect", { width: 3, height: 6, fill: color("red") })));

const openRow = (g) => {
  const parts = [el("p", null, g.detail || "Nothing is said of it.")], kinds = g.kinds || [];
  const by = kindsText(kinds, "exercised", 99).all, excused = kindsText(kinds, "excused", 99).all, broken = kindsText(kinds, "broken", 99).all;
  if (by) parts.push(el("p", null, `exercised by: ${by}`));
  if (excused) parts.push(el("p", null, `excused, because of: ${excused}`));
  if (broken) parts.push(el("p", null, `broken under: ${broken}`));
  const at = M.breaks.findIndex((b) => b.id === g.id && b.first);
  if (at >= 0) parts.push(el("p", null, el("button", { type: "button", onclick: () => showBreak(at, true) }, `draw the first break of ${g.id}`)));
  return parts;
};

const drawGuarantees = () => {
  const body = el("tbody");
  for (const g of M.guarantees) {
    const by = kindsText(g.kinds || [], "exercised", 3);
    const excused = kindsText(g.kinds || [], "excused", 2);
    const more = el("tr", { class: "open", hidden: true }, el("td", { colspan: 8 }));
    const button = el("button", {
      type: "button", class: "row", "aria-expanded": "false",
      onclick: () => {
        const open = more.hidden;
        more.hidden = !open;
        button.setAttribute("aria-expanded", String(open));
        if (open) clear(more.firstChild, openRow(g));
        const at = M.breaks.findIndex((b) => b.id === g.id && b.first);
        if (open && at >= 0) showBreak(at, false);
      },
    }, el("b", null, g.id + (g.decides ? "*" : "")), ` ${g.promise}`);
    body.append(el("tr", { class: g.verdict === "fail" ? "broke" : g.verdict === "unknown" ? "unjudged" : null, "data-id": g.id },
      el("td", null, button),
      el("td", { class: g.verdict }, el("b", null, `${glyphs[g.verdict]} ${g.verdict}`)),
      el("td", { class: "n" }, g.shown === "-" ? "–" : g.shown),
      el("td", null, g.bound, el("span", { class: "wide" }, ` ${g.unit}`)),
      el("td", { class: "wide" }, limitBar(g)),
      el("td", { class: "n" }, g.exercised || "–"),
      el("td", { class: "wide small", title: by.all }, by.short),
      el("td", { class: "wide small", title: excused.all }, `${g.excused || 0} ${excused.short}`)), more);
  }
  const head = [["promise"], ["verdict"], ["value", "n"], ["limit"], ["against the limit", "wide"], ["exercised", "n"], ["by", "wide"], ["excused", "wide"]];
  return section("Guarantees", "guarantees",
    el("p", null, "Value against its limit (the tick). A limit of 0 allows nothing. * decides the verdict. A row opens what the judge says of it."),
    el("table", null, el("thead", null, el("tr", null, head.map(([n, c]) => el("th", { scope: "col", class: c }, n)))), body));
};

const inBar = (x, y, text) => {
  const t = sv("text", { x, y, "text-anchor": "end" }, text);
  t.style.fill = color("bg");
  return t;
};

// drawClosest stands in the place of the first break where there is none.
const drawClosest = () => {
  const all = M.guarantees.filter((g) => g.limit > 0 && g.verdict === "pass" && (g.times || g.id === "G14" || g.id === "E7" || g.id === "I7"))
    .sort((x, y) => y.value / y.limit - x.value / x.limit);
  if (all.length === 0) return null;
  const w = Math.max(260, Math.min(1336, innerWidth - (narrow() ? 24 : 64))), gutter = 130, right = narrow() ? 50 : 190, scale = (w - gutter - right) / 1.02;
  const g = sv("svg", { width: w, height: all.length * 22 + 20, viewBox: `0 0 ${w} ${all.length * 22 + 20}`, role: "img", "aria-label": all.map((x) => `${x.id} ${x.value} of ${x.limit}`).join(", ") });
  all.forEach((x, i) => {
    const y = i * 22, share = Math.min(1, x.value / x.limit);
    g.append(sv("text", { x: 0, y: y + 14 }, sv("tspan", { "font-weight": 650 }, x.id), ` ${x.promise}`),
      sv("rect", { x: gutter, y: y + 5, width: scale, height: 10, fill: color("none") }),
      sv("rect", { x: gutter, y: y + 5, width: Math.max(1, scale * share), height: 10, fill: color("muted") }),
      share > 0.93 ? inBar(gutter + scale * share - 5, y + 14, `${Math.floor(share * 100)} %`) : sv("text", { x: gutter + scale * share + 6, y: y + 14 }, `${Math.floor(share * 100)} %`));
    if (!narrow()) g.append(sv("text", { x: gutter + scale + 12, y: y + 14, class: "mut" }, `${x.value} of ${x.limit} ${x.unit}`));
  });
  g.append(sv("rect", { x: gutter + scale - 1, y: 0, width: 2, height: all.length * 22, fill: color("ink") }),
    sv("text", { x: gutter + scale, y: all.length * 22 + 14, "text-anchor": "middle", class: "mut" }, "limit"));
  return section("Closest calls", "closest",
    el("p", null, "No break to show. How near each measured guarantee came to its limit; the rest allow nothing and had nothing."), el("figure", null, g));
};
