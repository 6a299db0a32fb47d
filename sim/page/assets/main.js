// The page from top to bottom, and when it is drawn anew.
const never = () => section("No lease was ever granted", "never",
  el("p", null, "There is nothing to draw. What was said instead:"),
  M.notes && M.notes.length ? el("ul", null, M.notes.map((n) => el("li", { class: "mono" }, n))) : el("p", null, "Nothing."));

// drawParting says where this run and another part.
const drawParting = (p) => {
  const lines = (title, list) => (list && list.length ? [el("h3", null, title), el("pre", { class: "lines events" }, list.join("\n"))] : []);
  return section(`Where it parts from ${p.with}`, "parting",
    el("p", null, `The same for ${p.same} events; at ${seconds(p.at / 1e6)} they part.`),
    ...lines("Faults that only one of them has", p.plans), ...lines("Both", p.before), ...lines("This run goes on with", p.here), ...lines(`${p.with} goes on with`, p.there),
    el("p", null, el("button", { type: "button", onclick: () => {
      zoom(p.at / 1e6 - M.ttl, p.at / 1e6 + M.ttl);
      document.getElementById("run")?.scrollIntoView({ block: "start" });
    } }, "show that moment in the whole run")));
};

const drawAll = () => {
  const [head, table] = plain[M === whole ? 0 : 1], begun = [head, M.parting ? drawParting(M.parting) : null], empty = M.terms.t.length === 0 && M.breaks.length === 0;
  const first = empty ? never() : M.breaks.length ? drawBreak(X.current) : drawClosest(), failed = M.breaks.length > 0 && M.head.verdict === "fail" && !root.classList.contains("print");
  begun.push(...(failed ? [first, table] : [table, first])); // what failed is seen without scrolling
  clear(document.getElementById("main"), [...begun, ...(empty ? [] : [drawRun(), drawLoads()]), drawPlan()]);
  for (const id of ["break", "run", "plan"]) document.getElementById(id)?.classList.add("pagebreak");
  if (document.getElementById("canvas")) view.draw();
};

// showKeys shows or hides the list of keys.
const showKeys = () => {
  const d = document.getElementById("keys");
  if (d.open) d.close(); else d.showModal();
};

const read = async () => {
  const packed = atob(document.getElementById("data").textContent), bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
};

// take makes a run the one that is shown: the page's own, or the smallest one that breaks the same.
let whole;
const take = (m) => {
  M = m;
  X.shares = []; X.guilty = [-1, -1]; X.current = 0;
  for (const name of ["guarantees", "breaks", "nodes", "sessions", "faults", "stalls", "marks", "plan", "config", "notes", "left", "strings", "kinds"]) M[name] ||= [];
  for (const b of M.breaks) b.owners ||= [], b.steps ||= [];
  prepare();
};
const pick = () => {
  const want = new URLSearchParams(location.hash.slice(1)).get("run") === "smaller" && whole.smaller ? whole.smaller : whole;
  if (M !== want) take(want);
  recall();
  drawAll();
};

const open = async () => {
  whole = await read();
  pick();
  addEventListener("hashchange", pick);
  addEventListener("keydown", (ev) => { if (ev.key === "?" && !ev.target.matches?.("input, select")) showKeys(); });
  let wait = 0, width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width || root.classList.contains("print")) return;
    width = innerWidth;
    clearTimeout(wait);
    wait = setTimeout(drawAll, 150);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  addEventListener("beforeprint", () => { root.classList.add("print"); drawAll(); });
  addEventListener("afterprint", () => { root.classList.remove("print"); drawAll(); });
  performance.mark("ready");
  root.dataset.ready = "yes"; // what waits for the page sees it
};

open().catch((err) => {
  document.getElementById("main").append(el("p", { class: "banner" }, `This report cannot be drawn: ${err.message}. The verdict stands in summary.md and report.json beside it.`));
  throw err;
});
