"use strict";
// The stream from the server, and what can be set for all lanes together.
(() => {
  const $ = (id) => document.getElementById(id);
  const page = { hello: null, settings: null, charts: null, lanes: [], socket: null, dirty: false, pictures: 0, seen: 0 };
  window.page = page; // to look at from the console

  // --- The stream ---

  let patience = 500;
  function connect() {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/stream${location.search}`);
    page.socket = socket;
    socket.addEventListener("open", () => { patience = 500; status("on", "live"); });
    socket.addEventListener("message", (event) => hear(JSON.parse(event.data)));
    socket.addEventListener("close", (event) => {
      status("off", event.reason || "the server is gone; trying again");
      setTimeout(connect, patience);
      patience = Math.min(2 * patience, 8000);
    });
  }

  function ask(wish) {
    if (page.socket && page.socket.readyState === WebSocket.OPEN) page.socket.send(JSON.stringify(wish));
  }

  function status(kind, text) {
    $("state").className = `state ${kind}`;
    $("state").textContent = text;
  }

  const HEARD = {
    hello(told) {
      page.hello = told;
      $("task").textContent = told.task;
      const several = told.sources.length > 1 ? `${told.sources.length} policies` : told.sources[0].name;
      $("policies").textContent = several;
      const chosen = $("source").value;
      $("source").replaceChildren(...told.sources.map((source, i) => new Option(source.name, i)));
      if (chosen && told.sources[chosen]) $("source").value = chosen;
      $("adding").hidden = told.sources.length < 2;
      waiting();
    },
    settings(told) {
      page.settings = told;
      $("play").textContent = told.paused ? "Play" : "Pause";
      if (document.activeElement !== $("seed")) $("seed").value = told.seed;
      $("keep").checked = told.keep;
      if (document.activeElement !== $("speed")) $("speed").value = String(told.speed);
      for (const meta of told.lanes) {
        const lane = page.lanes.find((each) => each.number === meta.lane);
        if (lane) lane.settings(meta);
      }
      past(told.past);
      frontier();
      waiting();
    },
    episode(told) {
      const same = told.lanes.length === page.lanes.length && told.lanes.every((each, i) => each.lane === page.lanes[i].number);
      const metas = Object.fromEntries(page.settings.lanes.map((meta) => [meta.lane, meta]));
      if (same) told.lanes.forEach((each, i) => page.lanes[i].begin(each, metas[each.lane]));
      else {
        $("lanes").replaceChildren();
        page.lanes = told.lanes.map((each, i) => new Panel.Lane($("lanes"), metas[each.lane], page.hello.sources[metas[each.lane].source], each, ask, each.lane, (cost, budget) => kept(metas[each.lane].source, cost, budget)));
        const count = page.lanes.length;
        $("lanes").style.setProperty("--columns", count);
        for (const lane of page.lanes) {
          lane.root.classList.toggle("alone", count === 1);
          lane.remove.hidden = count === 1;
        }
        $("add").disabled = count >= 4;
        frontier();
      }
      waiting();
      page.dirty = true;
    },
    frame(told) {
      for (const moment of told.lanes) {
        const lane = page.lanes.find((each) => each.number === moment.lane);
        if (lane) lane.frame(moment);
      }
      page.pictures += 1;
      page.pace = told.pace;
      page.dirty = true;
    },
    charts(told) {
      page.charts = told;
      frontier();
      training();
    },
    refusal(told) {
      $("refusal").textContent = told.why;
      $("refusal").hidden = false;
      clearTimeout(page.forget);
      page.forget = setTimeout(() => { $("refusal").hidden = true; }, 7000);
    },
  };

  const hear = (told) => HEARD[told.kind](told);

  // --- What is below the lanes ---

  function waiting() {
    const none = page.settings && !page.settings.lanes.length;
    $("waiting").hidden = !none;
    $("waiting").textContent = "There is no policy yet: a run writes its first one with its first checkpoint. Its curves are below.";
    for (const id of ["play", "step", "restart", "add"]) $(id).disabled = none || (id === "add" && page.lanes.length >= 4);
  }

  function past(rows) {
    $("past").hidden = !rows.length;
    $("past-rows").replaceChildren(...[...rows].reverse().map((row) => {
      const line = document.createElement("tr");
      const held = row.held.every(Boolean);
      const many = (values) => values.map(Panel.plain).join(", ");
      const name = Panel.make(line, "td");
      name.style.setProperty("--own", Panel.COLOURS[row.lane % 4]);
      Panel.make(name, "span", "dot");
      name.append(row.name);
      for (const text of [row.seed, many(row.budget), many(row.spent), row.return.toFixed(1), row.steps]) Panel.make(line, "td", "", String(text));
      Panel.make(line, "td", held ? "yes" : "no", held ? "yes" : "no");
      return line;
    }));
  }

  function between(series, x) {
    const points = series.x.map((at, i) => [at, series.y[i]]).sort((a, b) => a[0] - b[0]);
    if (x <= points[0][0]) return points[0][1];
    for (let i = 1; i < points.length; i++)
      if (x <= points[i][0]) {
        const [[x0, y0], [x1, y1]] = [points[i - 1], points[i]];
        return y0 + ((x - x0) / (x1 - x0 || 1)) * (y1 - y0);
      }
    return points[points.length - 1][1];
  }

  // How often the evaluation kept a budget; null where nothing was evaluated.
  function kept(source, cost, budget) {
    const known = page.charts && page.charts.kept[source][cost];
    return known ? between(known, budget) : null;
  }

  // The evaluation's curves, with a ring where each lane's next budget is on them.
  let drawn = "";
  function frontier() {
    if (!page.charts || !page.settings) return;
    const charts = page.charts.frontier;
    $("frontier").hidden = !charts.length;
    const key = JSON.stringify([charts.length && charts[0].series, page.settings.lanes]);
    if (!charts.length || key === drawn) return;
    drawn = key;
    const places = $("frontier-charts");
    while (places.children.length < charts.length) Panel.make(places, "div", "chart");
    charts.forEach((chart, i) => {
      const cost = Math.max(0, i - 1);
      const rings = page.settings.lanes.flatMap((lane) => {
        const source = page.hello.sources[lane.source];
        const own = chart.series.find((series) => series.label === source.name);
        if (!own) return [];
        const x = lane.budget[cost];
        return [{ label: "chosen", x: [x], y: [between(own, x)], colour: Panel.COLOURS[lane.lane % 4], kind: "points", size: 7, half: [], notes: ["between the budgets evaluated"], dodge: 0 }];
      });
      Charts.draw({ ...chart, series: [...chart.series, ...rings] }, places.children[i], new Set());
    });
  }

  function training() {
    const figures = page.charts.training;
    $("training").hidden = !figures.length;
    const source = page.hello.sources[0];
    const made = source.env_steps === undefined ? "" : `The newest policy is from environment step ${source.env_steps.toLocaleString("en")}`;
    $("training-note").textContent = made + (made && source.goal ? ` of ${source.goal.toLocaleString("en")}.` : "");
    const place = $("training-figures");
    place.replaceChildren();
    for (const figure of figures) {
      Panel.make(place, "h3", "", figure.title);
      Panel.make(place, "p", "note", figure.caption);
      Charts.figure(figure, place);
    }
  }

  // --- What can be turned ---

  const toggle = () => ask({ do: "pause", on: !(page.settings && page.settings.paused) });
  $("play").addEventListener("click", toggle);
  $("step").addEventListener("click", () => ask({ do: "step" }));
  $("restart").addEventListener("click", () => ask({ do: "restart" }));
  $("speed").addEventListener("change", () => ask({ do: "speed", value: +$("speed").value }));
  $("seed").addEventListener("change", () => {
    const seed = Math.trunc(+$("seed").value);
    if (Number.isFinite(seed)) ask({ do: "seed", value: seed });
  });
  $("keep").addEventListener("change", () => ask({ do: "keep", on: $("keep").checked }));
  $("add").addEventListener("click", () => {
    const source = page.hello.sources.length < 2 ? 0 : +$("source").value;
    const { low, high, ready } = page.hello.sources[source];
    if (!ready) return;
    const taken = page.settings.lanes.map((lane) => lane.budget[0]);
    const share = [0, 1, 0.5, 0.25].find((part) => !taken.includes(low[0] + part * (high[0] - low[0]))) || 0;
    ask({ do: "add", source, values: low.map((each, i) => each + share * (high[i] - each)) });
  });
  document.addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, button") || event.ctrlKey || event.metaKey || event.altKey) return;
    const act = { " ": toggle, ArrowRight: () => ask({ do: "step" }), r: () => ask({ do: "restart" }) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  // What was clicked with a pointer lets go of the keyboard, so that Space still pauses.
  document.addEventListener("click", (event) => {
    const button = event.detail && event.target.closest("button");
    if (button) button.blur();
  });
  addEventListener("resize", () => { page.dirty = true; });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { page.dirty = true; });

  function draw() {
    if (page.dirty) {
      page.dirty = false;
      for (const lane of page.lanes) lane.draw();
    }
    requestAnimationFrame(draw);
  }
  setInterval(() => {
    const rate = page.pictures - page.seen;
    page.seen = page.pictures;
    if (page.socket && page.socket.readyState === WebSocket.OPEN)
      status("on", page.settings && page.settings.paused ? "paused" : `live · ${rate} pictures a second${page.pace ? ` · ${page.pace.toFixed(1)}× real time` : ""}`);
  }, 1000);
  connect();
  draw();
})();
