// The controls of section 4, what they show, and the address that shows the same.
const S = { t0: 0, t1: 1, node: "", session: "", kind: "", guarantee: "", broken: false, order: "" };
let view, tip, frame = 0;

const redraw = () => {
  if (!frame) frame = requestAnimationFrame(() => { frame = 0; view.draw(); });
};
const shownAll = () => S.t0 === 0 && S.t1 === X.end;

// zoom sets what is seen; at least a millisecond of it.
const zoom = (t0, t1) => {
  const long = clamp(t1 - t0, 1, X.end), from = clamp(t0, 0, X.end - long);
  S.t0 = from; S.t1 = from + long;
  redraw(); remember();
};
const zoomAt = (t, by) => zoom(t - (t - S.t0) * by, t + (S.t1 - t) * by);

const remember = () => {
  const p = new URLSearchParams();
  if (!shownAll()) p.set("t", `${(S.t0 / 1000).toFixed(3)}-${(S.t1 / 1000).toFixed(3)}`);
  for (const name of ["node", "session", "kind", "guarantee", "order"]) if (S[name]) p.set(name, S[name]);
  if (S.broken) p.set("broken", "1");
  if (M !== whole) p.set("run", "smaller");
  if (X.current) p.set("break", String(X.current));
  const text = p.toString();
  if (`#${text}` !== location.hash && (text || location.hash)) history.replaceState(null, "", text ? `#${text}` : "#");
};

const recall = () => {
  const p = new URLSearchParams(location.hash.slice(1)), t = (p.get("t") || "").split("-").map((x) => Number(x) * 1000);
  S.t0 = 0; S.t1 = X.end;
  if (t.length === 2 && t[1] > t[0] && t[0] >= 0) { S.t0 = Math.min(t[0], X.end - 1); S.t1 = Math.min(t[1], X.end); }
  for (const name of ["node", "session", "kind", "guarantee", "order"]) S[name] = p.get(name) || "";
  S.broken = p.get("broken") === "1";
  const at = Number(p.get("break") || 0);
  X.current = Number.isInteger(at) && M.breaks[at] ? at : 0;
};

// showBreak draws another break in section 3.
const showBreak = (at, go) => {
  X.current = at;
  const old = document.getElementById("break"), fresh = drawBreak(at), open = document.getElementById("breaklist")?.open;
  if (old) old.replaceWith(fresh);
  if (open) document.getElementById("breaklist").open = true;
  redraw(); remember();
  if (go) fresh.scrollIntoView({ block: "start" });
};

// toBreak shows the break in section 4 with two of its windows around it.
const toBreak = (at) => {
  const [t0, t1] = windowOf(M.breaks[at]);
  showBreak(at, false);
  zoom(t0 - (t1 - t0) / 2, t1 + (t1 - t0) / 2);
};
const neighbour = (step) => {
  const order = M.breaks.map((b, i) => [b.from, i]).sort((x, y) => x[0] - y[0]).map((x) => x[1]), now = order.indexOf(X.current);
  toBreak(order[(now + step + order.length) % order.length]);
};

const choice = (label, name, options) => {
  const s = el("select", { "data-name": name, onchange: (ev) => { S[name] = ev.target.value; redraw(); remember(); } },
    options.map(([value, text]) => el("option", { value, selected: S[name] === value }, text)));
  return el("label", null, `${label} `, s);
};

const tools = () => {
  const button = (text, label, onclick) => el("button", { type: "button", "aria-label": label, onclick }, text);
  const middle = () => (S.t0 + S.t1) / 2;
  const kinds = [...new Set(M.faults.map((f) => f.kind))].sort(), broken = [...new Set(M.breaks.map((b) => b.id))];
  return el("div", { class: "tools" },
    el("span", null, "zoom "), button("+", "zoom in", () => zoomAt(middle(), 0.5)), button("−", "zoom out", () => zoomAt(middle(), 2)), button("all", "show all", () => zoom(0, X.end)),
    M.breaks.length ? [button("the break", "the break", () => toBreak(X.current)), M.breaks.length > 1 ? [button("‹", "the break before", () => neighbour(-1)), button("›", "the next break", () => neighbour(1))] : null].flat() : null,
    choice("node", "node", [["", "all"], ...M.nodes.map((n) => [n.name, n.name])]),
    el("label", null, "session ", el("input", { type: "text", "data-name": "session", placeholder: "a part of it", value: S.session, oninput: (ev) => { S.session = ev.target.value.trim(); redraw(); remember(); } })),
    kinds.length > 1 ? choice("fault", "kind", [["", "all"], ...kinds.map((k) => [k, k])]) : null,
    broken.length > 1 ? choice("guarantee", "guarantee", [["", "all"], ...broken.map((k) => [k, k])]) : null,
    broken.length ? el("label", null, el("input", { type: "checkbox", "data-name": "broken", checked: S.broken, onchange: (ev) => { S.broken = ev.target.checked; redraw(); remember(); } }), " only broken ones") : null,
    choice("order by", "order", [["", M.sessions.length > 30 ? "owner" : "when added"], M.sessions.length > 30 ? ["added", "when added"] : ["owner", "owner"]]),
    button("? keys", "the keys", showKeys));
};

const keys = (ev) => {
  const step = (S.t1 - S.t0) / 8;
  const does = {
    ArrowRight: () => zoom(S.t0 + step, S.t1 + step), ArrowLeft: () => zoom(S.t0 - step, S.t1 - step), "+": () => zoomAt((S.t0 + S.t1) / 2, 0.5),
    "=": () => zoomAt((S.t0 + S.t1) / 2, 0.5), "-": () => zoomAt((S.t0 + S.t1) / 2, 2), 0: () => zoom(0, X.end), Home: () => zoom(0, X.end),
    n: () => M.breaks.length && neighbour(1), p: () => M.breaks.length && neighbour(-1),
  }[ev.key];
  if (!does || ev.ctrlKey || ev.metaKey || ev.altKey) return;
  ev.preventDefault();
  does();
};

const pointer = (canvas) => {
  let drag = null;
  canvas.addEventListener("pointerdown", (ev) => { drag = { x: ev.offsetX, t0: S.t0, t1: S.t1, moved: false }; canvas.setPointerCapture(ev.pointerId); });
  canvas.addEventListener("pointermove", (ev) => {
    if (drag) {
      const by = ((drag.x - ev.offsetX) / (view.w - view.g0 - view.right)) * (drag.t1 - drag.t0);
      if (Math.abs(ev.offsetX - drag.x) > 3) drag.moved = true;
      if (drag.moved) zoom(drag.t0 + by, drag.t1 + by);
      return;
    }
    const h = view.hit(ev.offsetX, ev.offsetY);
    tip.textContent = h ? h.line : tip.dataset.hint;
    const hot = h && h.term !== undefined && M.terms.t.length < 5000 ? h.term : -1;
    if (hot !== view.hot) { view.hot = hot; redraw(); }
  });
  canvas.addEventListener("pointerup", (ev) => {
    const h = drag && !drag.moved ? view.hit(ev.offsetX, ev.offsetY) : null;
    drag = null;
    if (h && h.breakAt !== undefined) showBreak(h.breakAt, false);
  });
  canvas.addEventListener("pointerleave", () => { drag = null; if (view.hot >= 0) { view.hot = -1; redraw(); } });
  canvas.addEventListener("dblclick", () => zoom(0, X.end));
  canvas.addEventListener("wheel", (ev) => {
    if (!ev.ctrlKey && document.activeElement !== canvas) return; // else the page scrolls
    ev.preventDefault();
    zoomAt(view.at(ev.offsetX), ev.deltaY < 0 ? 0.8 : 1.25);
  }, { passive: false });
  canvas.addEventListener("keydown", keys);
};

const drawRun = () => {
  const canvas = el("canvas", { tabindex: 0, role: "img", id: "canvas", "aria-label": "The whole run: a lane a node and a lane a session; arrow keys move, + and - zoom, n and p go from break to break. The same stands in the table below." });
  const hint = "drag moves, the wheel zooms (once clicked, or with Ctrl), a double click shows all; ? shows the keys";
  tip = el("div", { class: "lines mono", "aria-live": "polite", id: "tip", "data-hint": hint }, hint);
  view = new RunView(canvas, S);
  pointer(canvas);
  const T = M.terms;
  const rows = () => {
    const picked = view.rows.slice(0, 300), out = [];
    for (const s of picked) {
      for (const i of X.bySession[s]) if (out.length < 1000) out.push([sessionName(s), nodeName(T.n[i]), T.f[i], seconds(T.t[i]), seconds(T.t[i] + T.d[i]), T.hows[T.h[i]], (X.broken.get(s) || []).some((b) => b.from / 1000 <= T.t[i] + T.d[i] && b.to / 1000 >= T.t[i]) ? "broken" : ""]);
    }
    return out;
  };
  return section("The whole run", "run",
    el("p", null, "Per node: its life (line), how many leases it trusts (height), ✕ its end; upright violet hatch: cut off, slanting grey hatch: frozen. Per session: its owner by colour and number; grey: nobody; pale: the owner doubts it",
      M.breaks.length ? "; red frame, split: two at once. Dashed frame: the break above." : ".",
      M.stalls.length ? " Host: when it stalled (grey), and when Redis’ stream was read late (violet)." : "",
      M.sessions.length > 1000 ? ` Of ${M.sessions.length} sessions those are listed that broke, then those that were unowned longest; the filters reach all.` : "",
      M.left.length ? ` Left out: ${M.left.join("; ")}.` : ""),
    tools(), el("figure", null, canvas), tip,
    asTable("The same as a table (what the filters show, up to 1000 leases)", ["session", "owner", "fence", "from", "to", "how it ended", ""], rows));
};
