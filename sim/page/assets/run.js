// Section 4: the whole run on a canvas, a lane a node and a lane a session.
const rowsMost = 200; // sessions that are listed where there are more than a thousand

// sharesOf returns how many leases a node trusts, as steps; changes within 20 ms are one.
const sharesOf = (n) => {
  X.shares ||= [];
  if (X.shares[n]) return X.shares[n];
  const T = M.terms, steps = [];
  for (const i of X.byNode[n]) steps.push([T.t[i], 1], [T.t[i] + T.d[i], -1]);
  steps.sort((x, y) => x[0] - y[0] || y[1] - x[1]);
  const t = [0], v = [0];
  let now = 0;
  for (const [at, by] of steps) {
    now += by;
    if (at - t[t.length - 1] <= 20 && t.length > 1) v[v.length - 1] = now;
    else { t.push(at); v.push(now); }
  }
  X.shares[n] = { t, v, max: Math.max(0, ...v.slice(0, 100000)) };
  return X.shares[n];
};

const shareAt = (n, at) => {
  const s = sharesOf(n);
  let lo = 0, hi = s.t.length - 1;
  while (lo < hi) { const mid = (lo + hi + 1) >> 1; if (s.t[mid] <= at) lo = mid; else hi = mid - 1; }
  return s.v[lo];
};

const idealShare = () => Math.max(1, M.sessions.length / Math.max(1, M.nodes.filter((n) => n.lives.length > 0).length));

const unowned = (s) => {
  const T = M.terms;
  let owned = 0, there = 0;
  for (const i of X.bySession[s]) owned += T.d[i];
  for (const [from, to] of M.sessions[s].there) there += (to < 0 ? X.end : to) - from;
  return there - owned;
};

// rowsOf chooses and orders the sessions that are shown.
const rowsOf = (S) => {
  let rows = M.sessions.map((_, s) => s);
  if (S.session) rows = rows.filter((s) => sessionName(s).includes(S.session));
  if (S.broken) rows = rows.filter((s) => X.broken.has(s));
  if (S.guarantee) rows = rows.filter((s) => (X.broken.get(s) || []).some((b) => b.id === S.guarantee));
  const node = M.nodes.findIndex((n) => n.name === S.node);
  if (node >= 0) rows = rows.filter((s) => X.bySession[s].some((i) => M.terms.n[i] === node));
  const asked = rows.length, many = rows.length > 1000;
  if (many) {
    const worst = new Map(rows.map((s) => [s, (X.broken.has(s) ? 1e12 : 0) + unowned(s)]));
    rows = rows.sort((x, y) => worst.get(y) - worst.get(x)).slice(0, rowsMost);
  }
  if (S.order === "owner" || (!S.order && M.sessions.length > 30)) {
    const key = new Map(rows.map((s) => [s, ownerKey(s)]));
    rows.sort((x, y) => (key.get(x) < key.get(y) ? -1 : key.get(x) > key.get(y) ? 1 : x - y));
  }
  return { rows, asked, many };
};
// ownerKey are the owners at some moments of the run: those who went from hand to hand together stand together.
const ownerKey = (s) => [0.08, 0.3, 0.5, 0.7, 0.9].map((share) => {
  const i = X.bySession[s].find((k) => M.terms.t[k] <= share * X.end && M.terms.t[k] + M.terms.d[k] >= share * X.end);
  return i === undefined ? "    " : String(M.terms.n[i] + 1).padStart(4, "0");
}).join(" ");

class RunView {
  constructor(canvas, S) { this.canvas = canvas; this.S = S; this.hot = -1; }

  layout() {
    const S = this.S, n = narrow();
    this.w = root.classList.contains("print") ? 1336 : Math.max(300, this.canvas.parentElement.clientWidth || 1336);
    this.g0 = n ? 60 : 112; this.right = 10;
    const picked = rowsOf(S);
    this.rows = picked.rows; this.asked = picked.asked; this.many = picked.many;
    let y = 4;
    this.faults = M.faults.filter((f) => f.node >= 0 || f.session >= 0 || f.to <= f.from).filter((f) => !S.kind || f.kind === S.kind);
    this.bands = M.faults.filter((f) => f.node < 0 && f.session < 0 && f.to > f.from).filter((f) => !S.kind || f.kind === S.kind);
    const spans = [...this.faults, ...this.bands].filter((f) => f.to >= S.t0 && f.from <= S.t1).sort((x, z) => x.from - z.from).map((f) => {
      const label = f.node >= 0 ? `${f.kind} ${nodeNumber(f.node)}` : f.kind;
      return { f, label, x: this.cx(f.from), x2: Math.max(this.cx(f.to), this.cx(f.from) + 2), room: n ? 3 : label.length * 5.6 + 8 };
    });
    let lanes = packed(spans);
    this.labels = !n && lanes <= 16;
    if (!this.labels) { for (const s of spans) s.room = 2; lanes = packed(spans); }
    this.faultH = lanes > 16 ? 6 : this.labels ? 15 : 8;
    this.spans = spans; this.faultY = y + (n ? 14 : 0);
    y = this.faultY + Math.max(lanes, spans.length ? 1 : 0) * this.faultH + 10;
    this.hostY = y;
    if (M.stalls.length) y += 20;
    this.nodeY = y; this.nodeH = M.nodes.length > 40 ? (root.classList.contains("print") ? 6 : 12) : M.nodes.length > 10 ? 24 : 28;
    y += M.nodes.length * this.nodeH + 16;
    this.sessionY = y;
    const k = this.rows.length;
    this.sessionH = k <= 12 ? 15 : k <= 30 ? 11 : k <= 60 ? 7 : k < 200 ? 4 : this.many ? 3 : 2;
    y += k * this.sessionH + 4;
    this.breakY = y; this.breakH = M.breaks.length ? 12 : 0;
    y += this.breakH + 4;
    this.axisY = y; this.h = y + 18;
  }
  x(t) { const S = this.S; return this.g0 + ((t - S.t0) / (S.t1 - S.t0)) * (this.w - this.g0 - this.right); }
  cx(t) { return clamp(this.x(t), this.g0, this.w - this.right); }
  at(x) { const S = this.S; return S.t0 + ((x - this.g0) / (this.w - this.g0 - this.right)) * (S.t1 - S.t0); }

  draw() {
    this.layout();
    const dpr = Math.min(root.classList.contains("print") ? 2 : devicePixelRatio || 1, 2, 15000 / this.h), c = this.canvas;
    c.width = Math.round(this.w * dpr); c.height = Math.round(this.h * dpr);
    c.style.width = `${this.w}px`; c.style.height = `${this.h}px`;
    const g = this.g = c.getContext("2d");
    g.setTransform(dpr, 0, 0, dpr, 0, 0);
    this.colors = Object.fromEntries(["bg", "ink", "muted", "line", "none", "red", "fault", "faultfill"].map((n) => [n, color(n)]));
    this.fills = M.nodes.map((_, n) => nodeColor(n));
    g.fillStyle = this.colors.bg; g.fillRect(0, 0, this.w, this.h);
    g.font = '11px system-ui, "DejaVu Sans", sans-serif'; g.textBaseline = "alphabetic";
    this.drawAxis(); this.drawBands(); this.drawFaults(); this.drawHost(); this.drawNodes(); this.drawSessions(); this.drawBreaks(); this.drawFrame();
  }
  text(s, x, y, fill, align = "left", weight = "") {
    const g = this.g;
    g.font = `${weight} 11px system-ui, "DejaVu Sans", sans-serif`; g.fillStyle = fill; g.textAlign = align; g.fillText(s, x, y);
  }
  drawAxis() {
    const g = this.g, S = this.S, { step, all } = ticksOf(S.t0, S.t1, narrow() ? 4 : 8);
    g.fillStyle = this.colors.line;
    for (const t of all) g.fillRect(this.x(t), 0, 1, this.axisY);
    for (const t of all) this.text(axisText(t, step), clamp(this.x(t), this.g0 + 12, this.w - 24), this.axisY + 13, this.colors.muted, "center");
    if (M.end < X.end) this.hatched(this.cx(M.end), 0, this.cx(X.end) - this.cx(M.end), this.axisY, this.colors.line, 8);
    if (M.calm > S.t0 && M.calm < S.t1) {
      g.fillStyle = this.colors.ink; g.fillRect(this.x(M.calm), this.nodeY - 8, 1, this.axisY - this.nodeY + 8);
      this.text("calm", this.x(M.calm) + 3, this.nodeY, this.colors.muted);
    }
  }
  hatched(x, y, w, h, stroke, gap, upright) {
    if (w <= 0) return;
    const g = this.g;
    g.save(); g.beginPath(); g.rect(x, y, w, h); g.clip(); g.strokeStyle = stroke; g.lineWidth = 1; g.beginPath();
    for (let i = x - h; i < x + w; i += gap) { g.moveTo(i, y + h); g.lineTo(upright ? i : i + h, y); }
    if (upright) { g.beginPath(); for (let i = x + 1; i < x + w; i += gap) { g.moveTo(i, y); g.lineTo(i, y + h); } }
    g.stroke(); g.restore();
  }
  drawBands() {
    const g = this.g;
    for (const f of this.bands) {
      if (f.to < this.S.t0 || f.from > this.S.t1) continue;
      g.globalAlpha = 0.16; g.fillStyle = this.colors.faultfill;
      g.fillRect(this.cx(f.from), this.faultY, Math.max(1.5, this.cx(f.to) - this.cx(f.from)), this.axisY - this.faultY); g.globalAlpha = 1;
    }
  }
  drawFaults() {
    const g = this.g;
    if (this.spans.length) this.text("faults", 0, this.faultY + (narrow() ? -4 : 10), this.colors.muted);
    for (const s of this.spans) {
      const y = this.faultY + s.lane * this.faultH, long = s.f.to > s.f.from;
      g.globalAlpha = long ? 0.38 : 1; g.fillStyle = long ? this.colors.faultfill : this.colors.fault;
      g.fillRect(s.x, y, long ? s.x2 - s.x : 2, this.faultH - 2); g.globalAlpha = 1;
      if (this.labels) this.text(s.label, Math.min(s.x + 4, this.w - s.room), y + 10, this.colors.ink);
    }
  }
  drawHost() {
    if (M.stalls.length) this.text("host", 0, this.hostY + 8, this.colors.muted);
    for (const s of M.stalls) {
      if (s.to < this.S.t0 || s.from > this.S.t1) continue;
      this.g.fillStyle = this.colors[hostColor[s.kind]];
      this.g.fillRect(this.cx(s.from), this.hostY, Math.max(1, this.cx(s.to) - this.cx(s.from)), 8);
    }
  }
  drawNodes() {
    const g = this.g, S = this.S, most = Math.max(1, 4 * idealShare()), h = this.nodeH;
    const scale = (h - 8) / Math.min(most, Math.max(1, ...M.nodes.map((_, n) => sharesOf(n).max)));
    M.nodes.forEach((node, n) => {
      const base = this.nodeY + (n + 1) * h - 4, c = this.fills[n], dim = S.node && S.node !== node.name;
      g.globalAlpha = dim ? 0.25 : 1;
      if (h >= 12) this.text(node.name.slice(0, narrow() ? 7 : 16), 0, base, X.guilty.includes(n) ? c.line : this.colors.ink, "left", X.guilty.includes(n) ? "650" : "");
      const s = sharesOf(n);
      g.fillStyle = c.fill; g.globalAlpha = dim ? 0.15 : 0.7;
      for (let i = 0; i < s.t.length; i++) {
        const from = s.t[i], to = i + 1 < s.t.length ? s.t[i + 1] : X.end;
        if (s.v[i] <= 0 || to < S.t0 || from > S.t1) continue;
        const v = Math.min(s.v[i], most), x = this.cx(from);
        g.fillRect(x, base - v * scale, Math.max(0.7, this.cx(to) - x), v * scale);
        if (s.v[i] > most && to - from > (S.t1 - S.t0) / 400) { g.globalAlpha = 1; this.text("▲", x, base - h + 9, this.colors.ink); g.fillStyle = c.fill; g.globalAlpha = 0.7; }
      }
      g.globalAlpha = dim ? 0.25 : 1;
      this.drawLife(node, n, base, c);
      g.globalAlpha = 1;
    });
  }
  drawLife(node, n, base, c) {
    const g = this.g, S = this.S, h = this.nodeH - 6;
    for (const [from, to] of node.lives) {
      const end = to < 0 ? M.end : to;
      if (end < S.t0 || from > S.t1) continue;
      g.fillStyle = c.line; g.fillRect(this.cx(from), base - 1, Math.max(1, this.cx(end) - this.cx(from)), 1.6);
      if (to >= 0 && to <= S.t1 && to >= S.t0) {
        const x = this.x(to);
        g.strokeStyle = this.colors.ink; g.lineWidth = 1.6; g.beginPath();
        g.moveTo(x - 3, base - 4); g.lineTo(x + 3, base + 2); g.moveTo(x - 3, base + 2); g.lineTo(x + 3, base - 4); g.stroke();
      }
    }
    for (const f of M.faults) {
      if (f.node !== n || f.to <= f.from || f.to < S.t0 || f.from > S.t1) continue;
      const x = this.cx(f.from), w = Math.max(2, this.cx(f.to) - x);
      if (cutting.has(f.kind)) this.hatched(x, base - h, w, h, this.colors.fault, 3, true);
      else if (freezing.has(f.kind)) this.hatched(x, base - h, w, h, this.colors.muted, 4);
    }
  }
  drawSessions() {
    const g = this.g, S = this.S, T = M.terms, h = this.sessionH, hot = this.hot >= 0 ? T.n[this.hot] : -1;
    this.text(this.many ? `${this.rows.length} of ${this.asked} sessions` : "sessions", 0, this.sessionY - 4, this.colors.muted);
    const bodyH = h > 3 ? h - 1 : h;
    const wanted = M.nodes.findIndex((n) => n.name === S.node);
    this.rows.forEach((s, k) => {
      const y = this.sessionY + k * h;
      if (h >= 11) this.text(shortName(s), 0, y + h - 3, X.broken.has(s) ? this.colors.red : this.colors.muted);
      g.fillStyle = this.colors.none;
      for (const [from, to] of M.sessions[s].there) {
        const end = to < 0 ? M.end : to;
        if (end >= S.t0 && from <= S.t1) g.fillRect(this.cx(from), y, this.cx(end) - this.cx(from), bodyH);
      }
      for (const i of X.bySession[s]) {
        const from = T.t[i], to = from + T.d[i], n = T.n[i];
        if (to < S.t0 || from > S.t1) continue;
        const x = this.cx(from), w = Math.max(1, this.cx(to) - x);
        g.globalAlpha = (hot >= 0 && n !== hot) || (wanted >= 0 && n !== wanted) ? 0.25 : 1;
        g.fillStyle = n >= 0 ? this.fills[n].fill : this.colors.line; g.fillRect(x, y, w, bodyH);
        if (n >= 0 && this.fills[n].striped && h > 3) this.hatched(x, y, w, bodyH, this.colors.bg, 5);
        for (const [d0, d1] of X.doubts.get(i) || []) {
          if (d1 < S.t0 || d0 > S.t1) continue;
          g.fillStyle = this.colors.bg; g.globalAlpha *= 0.6; g.fillRect(this.cx(d0), y, this.cx(d1) - this.cx(d0), bodyH); g.globalAlpha = 1;
        }
        g.globalAlpha = 1;
        if (h >= 11 && w >= 16) this.text(nodeNumber(n), x + 3, y + h - 3, theme().on);
      }
      this.broken(s, y, bodyH);
    });
  }
  // broken draws what two trusted at once: split in halves, framed in red.
  broken(s, y, h) {
    const g = this.g, S = this.S;
    for (const b of X.broken.get(s) || []) {
      const from = b.from / 1000, to = b.to / 1000;
      if ((S.guarantee && b.id !== S.guarantee) || to < S.t0 || from > S.t1) continue;
      const x = this.cx(from), w = Math.max(2, this.cx(to) - x);
      if ((b.id === "G1" || b.id === "E1") && b.owners.length > 1) {
        b.owners.slice(0, 2).forEach((o, k) => {
          g.fillStyle = o.node >= 0 ? this.fills[o.node].fill : this.colors.line; g.fillRect(x, y + (k * h) / 2, w, h / 2);
        });
        if (h >= 9 && w > 52) this.text(`${nodeNumber(b.owners[0].node)} and ${nodeNumber(b.owners[1].node)}`, x + 4, y + h - 1.5, theme().on, "left", "650");
      } else if (["G2", "G10"].includes(b.id)) { g.fillStyle = this.colors.red; g.fillRect(x, y, 1.5, h); continue; }
      g.strokeStyle = this.colors.red; g.lineWidth = h > 4 ? 1.6 : 1; g.strokeRect(x, y + 0.5, w, h - 1);
    }
  }
  drawBreaks() {
    if (!this.breakH) return;
    const g = this.g, S = this.S;
    this.text("breaks", 0, this.breakY + 9, this.colors.red, "left", "650");
    for (const b of M.breaks) {
      const from = b.from / 1000, to = b.to / 1000;
      if ((S.guarantee && b.id !== S.guarantee) || to < S.t0 || from > S.t1) continue;
      const x = this.cx(from);
      g.fillStyle = this.colors.red; g.globalAlpha = 0.35; g.fillRect(x, this.breakY, Math.max(2, this.cx(to) - x), 9); g.globalAlpha = 1;
      if (from >= S.t0) g.fillRect(x, this.breakY, 2, 9);
    }
  }
  drawFrame() {
    const b = M.breaks[X.current];
    if (!b || b.session < 0) return;
    const [t0, t1] = windowOf(b), g = this.g;
    if (t1 < this.S.t0 || t0 > this.S.t1) return;
    g.strokeStyle = this.colors.muted; g.lineWidth = 1; g.setLineDash([5, 4]);
    g.strokeRect(this.cx(t0), 1.5, this.cx(t1) - this.cx(t0), this.axisY - 3); g.setLineDash([]);
  }

  // hit says what is at a point: its line, and the term or the break that it is of.
  hit(px, py) {
    const t = this.at(px), T = M.terms;
    if (px < this.g0) return null;
    const span = this.spans.find((s) => py >= this.faultY + s.lane * this.faultH && py < this.faultY + (s.lane + 1) * this.faultH && px >= s.x - 2 && px <= Math.max(s.x2, this.labels ? s.x + s.room : 0) + 2);
    if (span) return { line: faultLine(span.f) };
    if (py >= this.hostY && py < this.hostY + 8) {
      const slack = (this.S.t1 - this.S.t0) / this.w * 3, s = M.stalls.find((s) => s.from - slack <= t && s.to + slack >= t);
      if (s) return { line: stallLine(s) };
    }
    if (py >= this.nodeY && py < this.nodeY + M.nodes.length * this.nodeH) {
      const n = Math.floor((py - this.nodeY) / this.nodeH);
      return { line: `${seconds(t)}  ${nodeName(n)} trusts ${shareAt(n, t)} leases` };
    }
    if (py >= this.breakY && py < this.breakY + this.breakH) {
      const slack = (this.S.t1 - this.S.t0) / this.w * 3;
      const i = M.breaks.findIndex((b) => b.from / 1000 - slack <= t && b.to / 1000 + slack >= t);
      return i < 0 ? null : { line: `${M.breaks[i].id} ${seconds(M.breaks[i].from / 1000)} to ${seconds(M.breaks[i].to / 1000)}: click draws it`, breakAt: i };
    }
    const s = this.rows[Math.floor((py - this.sessionY) / this.sessionH)];
    if (py < this.sessionY || s === undefined) return null;
    const all = X.bySession[s].filter((i) => T.t[i] <= t && T.t[i] + T.d[i] >= t);
    if (all.length === 0) return { line: `${seconds(t)}  session ${sessionName(s)}: nobody`, session: s };
    const at = M.breaks.findIndex((b) => b.session === s && b.from / 1000 <= t && b.to / 1000 >= t);
    return {
      session: s, term: all[0], breakAt: at < 0 ? undefined : at,
      line: all.map((i) => `session ${sessionName(s)}: ${nodeName(T.n[i])}, fence ${T.f[i]}, from ${seconds(T.t[i])} to ${seconds(T.t[i] + T.d[i])} (${length(T.d[i])}), ${T.hows[T.h[i]]}`).join("\n"),
    };
  }
}
