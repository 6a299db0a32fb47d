// What the other parts share: elements, numbers, colours, and the run's data with its indices.
const root = document.documentElement;
const make = (space) => (tag, attrs, ...inside) => {
  const e = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attrs || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else e.setAttribute(name, value === true ? "" : String(value));
  }
  for (const part of inside.flat()) {
    if (part === null || part === undefined) continue;
    e.append(part instanceof Node ? part : document.createTextNode(String(part)));
  }
  return e;
};
const el = make(null), sv = make("http://www.w3.org/2000/svg");
const clear = (e, ...inside) => { e.replaceChildren(...inside.flat().filter((x) => x)); return e; };

// seconds writes a moment or a length given in ms.
const seconds = (ms, digits = 3) => `${(ms / 1000).toFixed(digits)} s`;
const length = (ms) => (ms < 1000 ? `${ms < 10 && ms % 1 ? ms.toFixed(2) : Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`);
const clamp = (x, from, to) => Math.max(from, Math.min(to, x));
const narrow = () => !root.classList.contains("print") && innerWidth <= 760;

// ticksOf returns round moments between two others, about so many.
const ticksOf = (from, to, about) => {
  const raw = Math.max(1e-3, (to - from) / Math.max(1, about)), power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= raw), out = [];
  for (let i = Math.ceil(from / step); i * step <= to; i++) out.push(i * step);
  return { step, all: out };
};
const axisText = (ms, step) => `${(ms / 1000).toFixed(step >= 1000 ? 0 : step >= 100 ? 1 : step >= 10 ? 2 : 3)} s`;

const themes = {
  light: {
    a: ["#1f6fb5", "#4f97d6"], b: ["#a86200", "#e0a030"], on: "#10151b",
    others: ["#3a9a8c", "#b3658a", "#8a8f2a", "#5b60b8", "#5db3d5", "#c9b45a", "#8f3f6b", "#76818f", "#6aa84f", "#a07855"],
  },
  dark: {
    a: ["#7ab8f5", "#4d8fcb"], b: ["#f0b04a", "#c98a26"], on: "#0b0e12",
    others: ["#46ab9c", "#c0769a", "#9ba039", "#7b80d6", "#66b5d4", "#c9b45a", "#b4608f", "#8b96a4", "#7ab45f", "#b48a66"],
  },
};
const dark = () => !root.classList.contains("print") && matchMedia("screen and (prefers-color-scheme: dark)").matches;
const theme = () => themes[dark() ? "dark" : "light"];
const color = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

let M; // the model
const X = { guilty: [-1, -1], current: 0 }; // what is computed of it, and which break is shown

// nodeColor returns a node's outline and fill, and whether it is striped.
const nodeColor = (n) => {
  const t = theme(), at = X.guilty.indexOf(n);
  if (n >= 0 && at === 0) return { line: t.a[0], fill: t.a[1] };
  if (n >= 0 && at === 1) return { line: t.b[0], fill: t.b[1] };
  if (n < 0) return { line: color("muted"), fill: color("line") };
  const k = X.rank[n], c = t.others[k % t.others.length];
  return { line: c, fill: c, striped: k >= t.others.length };
};
const nodeName = (n) => (n >= 0 && M.nodes[n] ? M.nodes[n].name : "?");
const nodeNumber = (n) => (nodeName(n).match(/(\d+)$/) || [nodeName(n)])[0].slice(0, 3);
const sessionName = (s) => (s >= 0 && M.sessions[s] ? M.sessions[s].name : "");
const shortName = (s) => {
  const n = sessionName(s), part = n.length === 36 && n[8] === "-" ? n.slice(...M.part) : n;
  return narrow() ? part.slice(-8) : part.slice(0, 18);
};

const prepare = () => {
  const first = M.breaks[0], T = M.terms;
  for (const name of ["s", "n", "t", "d", "f", "h"]) T[name] ||= [];
  for (const name of ["i", "t", "d"]) M.doubts[name] ||= [];
  for (const name of ["t", "k", "n", "s", "i", "f", "u", "m", "r"]) M.events[name] ||= [];
  if (first && first.owners && first.owners.length > 0) X.guilty = first.owners.slice(0, 2).map((o) => o.node);
  X.rank = [];
  let rank = 0;
  M.nodes.forEach((_, n) => { X.rank[n] = X.guilty.includes(n) ? 0 : rank++; });
  X.bySession = M.sessions.map(() => []);
  X.byNode = M.nodes.map(() => []);
  T.t.forEach((_, i) => {
    if (T.s[i] >= 0) X.bySession[T.s[i]].push(i);
    if (T.n[i] >= 0) X.byNode[T.n[i]].push(i);
  });
  for (const list of X.bySession) list.sort((x, y) => T.t[x] - T.t[y]);
  X.doubts = new Map();
  M.doubts.i.forEach((term, k) => {
    if (!X.doubts.has(term)) X.doubts.set(term, []);
    X.doubts.get(term).push([M.doubts.t[k], M.doubts.t[k] + M.doubts.d[k]]);
  });
  X.kind = {};
  M.kinds.forEach((name, k) => { X.kind[name] = k; });
  X.broken = new Map(); // session → its breaks
  M.breaks.forEach((b) => {
    if (b.session < 0) return;
    if (!X.broken.has(b.session)) X.broken.set(b.session, []);
    X.broken.get(b.session).push(b);
  });
  X.end = Math.max(M.end, M.head.banner ? M.planned : 0, 1);
};

// lineOf writes an event as simulate check prints it.
const lineOf = (i) => {
  const E = M.events, who = E.n[i] >= 0 ? nodeName(E.n[i]) : "";
  let s = `${(E.t[i] / 1e6).toFixed(5).padStart(11)}s  ${who.padEnd(8)} ${M.kinds[E.k[i]].padEnd(13)}`;
  if (E.s[i] >= 0) s += ` session=${sessionName(E.s[i])}`;
  if (!who && M.strings[E.i[i]]) s += ` instance=${M.strings[E.i[i]]}`;
  if (M.strings[E.r[i]]) s += ` reason=${M.strings[E.r[i]]}`;
  if (E.f[i]) s += ` fence=${E.f[i]}`;
  if (E.u[i]) s += ` until=${(E.u[i] / 1e6).toFixed(5)}s`;
  if (E.m[i]) s += ` n=${E.m[i]}`;
  return s;
};
const faultLine = (f) => `${(f.from / 1000).toFixed(5).padStart(11)}s  ${(f.node >= 0 ? nodeName(f.node) : "").padEnd(8)} fault         ` +
  `${f.kind}${f.session >= 0 ? ` session=${sessionName(f.session)}` : ""}${f.to > f.from ? ` until=${(f.to / 1000).toFixed(5)}s` : ""} n=${f.n}`;
const stallLine = (s) => `${(s.from / 1000).toFixed(5).padStart(11)}s           ${s.kind.padEnd(13)} until=${(s.to / 1000).toFixed(5)}s`;

const section = (title, id, ...inside) => el("section", { id, "aria-label": title }, el("h2", null, title), ...inside);

// packed puts spans into lanes so that none overlaps another, with room for their labels.
const packed = (spans) => {
  const ends = [];
  for (const s of spans) {
    let lane = ends.findIndex((end) => end <= s.x);
    if (lane < 0) lane = ends.push(0) - 1;
    ends[lane] = Math.max(s.x2, s.x + s.room);
    s.lane = lane;
  }
  return ends.length;
};

// asTable is the same as a drawing for who cannot see it, made when it is opened.
const asTable = (title, names, rows) => {
  const d = el("details", null, el("summary", null, title));
  d.addEventListener("toggle", () => {
    if (!d.open || d.querySelector("table")) return;
    d.append(el("div", { class: "scroll" }, el("table", null, el("thead", null, el("tr", null, names.map((n) => el("th", { scope: "col" }, n)))),
      el("tbody", null, rows().map((r) => el("tr", null, r.map((c) => el("td", null, c))))))));
  });
  return d;
};
