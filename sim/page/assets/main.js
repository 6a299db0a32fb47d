// The page from top to bottom, and when it is drawn anew.
const never = () => section("No lease was ever granted", "never",
  el("p", null, "There is nothing to draw. What was said instead:"),
  M.notes && M.notes.length ? el("ul", null, M.notes.map((n) => el("li", { class: "mono" }, n))) : el("p", null, "Nothing."));

const drawAll = () => {
  const main = document.getElementById("main"), parts = [drawHead(), drawGuarantees()];
  if (M.terms.t.length === 0 && M.breaks.length === 0) parts.push(never());
  else {
    parts.push(M.breaks.length ? drawBreak(X.current) : drawClosest(), drawRun(), drawLoads());
  }
  parts.push(drawPlan());
  clear(main, parts);
  for (const id of ["break", "closest", "run", "plan"]) document.getElementById(id)?.classList.add("pagebreak");
  if (document.getElementById("canvas")) view.draw();
};

const read = async () => {
  const packed = atob(document.getElementById("data").textContent), bytes = Uint8Array.from(packed, (c) => c.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
};

const open = async () => {
  M = await read();
  for (const name of ["guarantees", "breaks", "nodes", "sessions", "faults", "marks", "plan", "config", "notes", "left", "strings", "kinds"]) M[name] ||= [];
  for (const b of M.breaks) b.owners ||= [], b.steps ||= [];
  prepare();
  recall();
  drawAll();
  addEventListener("hashchange", () => { recall(); drawAll(); });
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
  root.dataset.ready = "yes"; // what waits for the page sees it
};

open().catch((err) => {
  document.getElementById("main").append(el("p", { class: "banner" }, `This report cannot be drawn: ${err.message}. The verdict stands in summary.md and report.json beside it.`));
  throw err;
});
