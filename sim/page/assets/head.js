// Sections 1 and 2, the sentence with its commands and the guarantees: what they do.
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

const hatchDefs = (id) => sv("defs", null, sv("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
  sv("rect", { width: 6, height: 6, fill: color("bg") }), sv("rect", { width: 3, height: 6, fill: color("red") })));

// opens makes a row of the table open and close the one below it, what the judge says of that guarantee.
const opens = (row) => {
  const more = row.nextElementSibling, cell = row.firstElementChild, id = row.dataset.id;
  const button = el("button", { type: "button", class: "row", "aria-expanded": "false", onclick: () => {
    more.hidden = !more.hidden;
    button.setAttribute("aria-expanded", String(!more.hidden));
    const at = M.breaks.findIndex((b) => b.id === id && b.first);
    if (at >= 0 && !more.querySelector("button")) more.firstElementChild.append(el("button", { type: "button", onclick: () => showBreak(at, true) }, `draw the first break of ${id}`));
  } }, ...cell.childNodes);
  cell.replaceChildren(button);
  more.hidden = true;
};

// fold hides the rows of what is unknown where another guarantee broke.
const fold = (run) => {
  const rows = [...run.querySelectorAll("tr.unjudged")];
  if (!run.querySelector(".badge.fail") || rows.length === 0) return;
  const show = (open) => rows.forEach((r) => { for (const e of [r, r.nextElementSibling]) e.classList.toggle("folded", !open); });
  const button = el("button", { type: "button", class: "row", "aria-expanded": "false", onclick: () => {
    const open = button.getAttribute("aria-expanded") === "false";
    button.setAttribute("aria-expanded", String(open));
    show(open);
  } }, `unknown: ${rows.map((r) => r.dataset.id).join(", ")}`);
  show(false);
  run.querySelector("tbody").append(el("tr", { class: "unjudged fold" }, el("td", { colspan: 8 }, button)));
};

// plain is the headline and the table of each run, the page's own first; the file has them as HTML, to which this adds what needs a script.
const plain = [...document.querySelectorAll(".run")].map((run) => {
  for (const c of run.querySelectorAll(".cmd")) c.append(copyButton(c.querySelector("code").textContent));
  run.querySelectorAll("tr[data-id]").forEach(opens);
  fold(run);
  return [...run.children];
});

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
