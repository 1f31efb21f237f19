"use strict";
// Draws charts as SVG from data (ucpo/reports/charts.py), in reports and on the live page. Values
// appear where the pointer is; a click on the legend hides a series everywhere in its figure.
const Charts = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const WIDTH = 520, HEIGHT = 320, LEFT = 62, RIGHT = 14, TOP = 28, BOTTOM = 46;
  const REACH = 40; // pixels from which a value is shown
  const hover = () => document.getElementById("hover");

  function element(parent, name, attributes = {}, text = "") {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  // --- Scales ---

  function ticks(low, high, count) {
    const rough = (high - low) / count;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 2.5, 5, 10].map((each) => each * power).find((each) => each >= rough);
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; i++) found.push(i * step);
    return found;
  }

  function shown(value) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    if (size >= 1e6) return `${+(value / 1e6).toPrecision(3)}M`;
    if (size >= 1e4) return `${+(value / 1e3).toPrecision(3)}k`;
    return String(+value.toPrecision(size >= 100 ? 5 : 3));
  }

  function exact(value) {
    return Math.abs(value) >= 1000
      ? value.toLocaleString("en", { maximumFractionDigits: 1 })
      : String(+value.toPrecision(5));
  }

  function extent(chart) {
    const xs = [], ys = [];
    for (const series of chart.series) {
      const wide = series.kind === "bars" ? series.width / 2 : 0;
      for (const x of series.x) xs.push(x - wide, x + wide);
      series.y.forEach((y, i) => {
        const half = (series.half && series.half[i]) || 0;
        ys.push(floored(chart, y, half), y + half);
      });
      if (series.kind === "bars" || series.kind === "steps") ys.push(0);
    }
    for (const rule of chart.rules) {
      if (rule.along === "x") xs.push(rule.at);
      if (rule.along === "y") ys.push(rule.at);
      if (rule.along === "diagonal" && xs.length) ys.push(least(xs), most(xs));
    }
    const boxes = chart.series.some((series) => series.kind === "bars" || series.kind === "steps");
    const [low, high] = padded(ys, 0.06, true);
    const above = typeof chart.floor === "number" && least(ys) >= chart.floor;
    return [padded(xs, 0.03, boxes), [above ? Math.max(low, chart.floor) : low, high]];
  }

  // Where an interval ends below: costs and probabilities are never negative, so neither is that.
  const floored = (chart, y, half) => (chart.floor === null || chart.floor === undefined ? y - half : Math.max(y - half, Math.min(y, chart.floor)));
  const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
  const most = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

  function padded(values, share, fromZero) {
    if (!values.length) return [0, 1];
    let low = least(values), high = most(values);
    if (low === high) { low -= 0.5; high += 0.5; }
    const room = (high - low) * share;
    return [fromZero && low === 0 ? 0 : low - room, high + room];
  }

  // --- Drawing ---

  const DASH = { solid: "", dashed: "5 4", dotted: "1.5 3" };

  function draw(chart, place, hidden) {
    place.querySelectorAll("svg.plot").forEach((old) => old.remove());
    const visible = { ...chart, series: chart.series.filter((series) => !hidden.has(series.label)) };
    visible.rules = chart.rules.filter((rule) => !hidden.has(rule.label.split(":")[0]));
    const [[x0, x1], [y0, y1]] = extent(visible.series.length ? visible : chart);
    const px = (x) => LEFT + ((x - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT);
    const py = (y) => HEIGHT - BOTTOM - ((y - y0) / (y1 - y0)) * (HEIGHT - TOP - BOTTOM);
    const svg = element(place, "svg", {
      class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
      "aria-label": `${chart.title}: ${chart.y_label} against ${chart.x_label}`,
    });
    place.prepend(svg);
    axes(svg, chart, px, py, [x0, x1], [y0, y1]);
    const data = [];
    for (const series of visible.series) data.push(...plot(svg, chart, series, px, py));
    for (const rule of visible.rules) data.push(...line(svg, rule, px, py, [x0, x1], [y0, y1]));
    listen(svg, data, chart);
  }

  function axes(svg, chart, px, py, [x0, x1], [y0, y1]) {
    for (const y of ticks(y0, y1, 5)) {
      element(svg, "line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: py(y), y2: py(y) });
      element(svg, "text", { class: "label", x: LEFT - 7, y: py(y) + 4, "text-anchor": "end" }, shown(y));
    }
    const slanted = chart.ticks.reduce((sum, [, text]) => sum + text.length + 2, 0) > 60;
    const named = chart.ticks.length ? chart.ticks : ticks(x0, x1, 6).map((x) => [x, shown(x)]);
    for (const [x, text] of named) {
      if (!chart.ticks.length) element(svg, "line", { class: "grid", x1: px(x), x2: px(x), y1: TOP, y2: HEIGHT - BOTTOM });
      const y = HEIGHT - BOTTOM + (slanted ? 12 : 16);
      const turn = slanted ? { "text-anchor": "end", transform: `rotate(-25 ${px(x)} ${y})` } : { "text-anchor": "middle" };
      element(svg, "text", { class: "label", x: px(x), y, ...turn }, text);
    }
    element(svg, "line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM });
    element(svg, "line", { class: "axis", x1: LEFT, x2: LEFT, y1: TOP, y2: HEIGHT - BOTTOM });
    const middle = (TOP + HEIGHT - BOTTOM) / 2;
    element(svg, "text", { class: "title", x: (LEFT + WIDTH - RIGHT) / 2, y: 16, "text-anchor": "middle" }, chart.title);
    element(svg, "text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 8, "text-anchor": "middle" }, chart.x_label);
    element(svg, "text", { x: 14, y: middle, "text-anchor": "middle", transform: `rotate(-90 14 ${middle})` }, chart.y_label);
  }

  function plot(svg, chart, series, px, py) {
    const colour = series.colour;
    const data = [];
    if (series.kind === "steps") {
      let path = `M${px(series.x[0])},${py(0)}`;
      series.y.forEach((y, i) => {
        path += `V${py(y)}H${px(series.x[i + 1])}`;
        const middle = (series.x[i] + series.x[i + 1]) / 2;
        const note = `from ${exact(series.x[i])} to ${exact(series.x[i + 1])}`;
        data.push({ series, x: middle, y, note, at: [px(middle), py(y)] });
      });
      element(svg, "path", { d: `${path}V${py(0)}`, fill: colour, "fill-opacity": 0.07, stroke: colour, "stroke-width": 1.4 });
      return data;
    }
    const points = series.x.map((x, i) => [px(x) + series.dodge, py(series.y[i])]);
    const halves = series.half || [];
    if (series.kind === "line" && halves.some((half) => half !== null)) {
      const band = series.x.map((x, i) => [px(x), series.y[i], halves[i] || 0]);
      const upper = band.map(([x, y, half]) => `${x},${py(y + half)}`);
      const lower = band.map(([x, y, half]) => `${x},${py(floored(chart, y, half))}`).reverse();
      element(svg, "polygon", { points: [...upper, ...lower].join(" "), fill: colour, "fill-opacity": 0.14 });
    }
    if (series.kind === "line" || series.kind === "marks")
      element(svg, "polyline", { points: points.join(" "), fill: "none", stroke: colour, "stroke-width": 1.5 });
    points.forEach(([x, y], i) => {
      const half = halves[i] === undefined ? null : halves[i];
      if (series.kind === "bars") {
        const wide = px(series.width) - px(0);
        const zero = py(0);
        element(svg, "rect", { x: x - wide / 2, width: wide, y: Math.min(y, zero), height: Math.abs(zero - y), fill: colour });
      }
      if (series.kind !== "line" && half !== null) {
        const ends = [py(floored(chart, series.y[i], half)), py(series.y[i] + half)];
        const stroke = series.kind === "bars" ? "currentColor" : colour;
        element(svg, "path", { d: `M${x},${ends[0]}V${ends[1]}M${x - 3},${ends[0]}h6M${x - 3},${ends[1]}h6`, stroke, fill: "none" });
      }
      if (series.kind === "marks" || series.kind === "points") {
        const look = series.kind === "marks" ? { fill: colour } : { class: "hollow" };
        element(svg, "circle", { cx: x, cy: y, r: series.size || 3.6, ...look, stroke: colour, "stroke-width": 1.4 });
      }
      data.push({ series, x: series.x[i], y: series.y[i], half, note: (series.notes || [])[i], at: [x, y] });
    });
    return data;
  }

  function line(svg, rule, px, py, [x0, x1], [y0, y1]) {
    const look = { stroke: rule.colour === "#333333" ? "currentColor" : rule.colour, "stroke-dasharray": DASH[rule.dash], "stroke-width": 1.1 };
    if (rule.along === "diagonal") {
      const low = Math.max(x0, y0), high = Math.min(x1, y1);
      if (low < high) element(svg, "line", { x1: px(low), y1: py(low), x2: px(high), y2: py(high), ...look });
      return [];
    }
    if (rule.along === "y") {
      element(svg, "line", { x1: LEFT, x2: WIDTH - RIGHT, y1: py(rule.at), y2: py(rule.at), ...look });
      return [];
    }
    element(svg, "line", { x1: px(rule.at), x2: px(rule.at), y1: TOP, y2: HEIGHT - BOTTOM, ...look });
    return [{ rule, at: [px(rule.at), TOP + 8] }];
  }

  // --- Pointer ---

  function listen(svg, data, chart) {
    const ring = element(svg, "circle", { r: 6, fill: "none", stroke: "currentColor", "stroke-width": 1.2, visibility: "hidden" });
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const scale = WIDTH / box.width;
      const at = [(event.clientX - box.left) * scale, (event.clientY - box.top) * scale];
      let best = null, distance = REACH;
      for (const each of data) {
        const away = Math.hypot(each.at[0] - at[0], each.at[1] - at[1]);
        if (away < distance) [best, distance] = [each, away];
      }
      ring.setAttribute("visibility", best ? "visible" : "hidden");
      hover().hidden = !best;
      if (!best) return;
      ring.setAttribute("cx", best.at[0]);
      ring.setAttribute("cy", best.at[1]);
      tell(best, chart);
      const right = Math.min(event.clientX + 14, window.innerWidth - hover().offsetWidth - 8);
      hover().style.left = `${right}px`;
      hover().style.top = `${Math.max(4, event.clientY - hover().offsetHeight - 12)}px`;
    });
    svg.addEventListener("pointerleave", () => {
      hover().hidden = true;
      ring.setAttribute("visibility", "hidden");
    });
  }

  function tell(datum, chart) {
    hover().replaceChildren();
    const say = (tag, text) => {
      const made = document.createElement(tag);
      made.textContent = text;
      hover().appendChild(made);
    };
    if (datum.rule) {
      say("strong", datum.rule.label);
      return;
    }
    say("strong", datum.series.label);
    const interval = datum.half === null || datum.half === undefined ? "" : ` ± ${exact(datum.half)}`;
    const where = chart.ticks.length || datum.series.kind === "steps" ? "" : ` at ${chart.x_label} ${exact(datum.x)}`;
    say("div", `${chart.y_label} ${exact(datum.y)}${interval}${where}`);
    if (datum.note) say("span", datum.note);
  }

  // --- Figures ---

  function legend(figure, place, redraw, hidden) {
    const list = document.createElement("ul");
    list.className = "legend";
    const seen = new Set();
    for (const chart of figure.charts) {
      for (const series of chart.series) {
        if (seen.has(series.label) || chart.ticks.some(([, text]) => text === series.label)) continue;
        seen.add(series.label);
        const item = document.createElement("li");
        const button = document.createElement("button");
        button.type = "button";
        button.setAttribute("aria-pressed", "true");
        const key = element(button, "svg", { viewBox: "0 0 20 10", "aria-hidden": "true" });
        element(key, "line", { x1: 1, x2: 19, y1: 5, y2: 5, stroke: series.colour, "stroke-width": series.kind === "points" ? 0 : 2.5 });
        if (series.kind === "points" || series.kind === "marks")
          element(key, "circle", { cx: 10, cy: 5, r: 3.2, ...(series.kind === "marks" ? { fill: series.colour } : { class: "hollow" }), stroke: series.colour, "stroke-width": 1.4 });
        button.append(series.label);
        button.addEventListener("click", () => {
          const gone = !hidden.delete(series.label);
          if (gone) hidden.add(series.label);
          button.setAttribute("aria-pressed", String(!gone));
          redraw();
        });
        item.appendChild(button);
        list.appendChild(item);
      }
    }
    place.appendChild(list);
  }

  function figure(shown, place) {
    const row = document.createElement("div");
    row.className = "charts";
    place.appendChild(row);
    const hidden = new Set();
    const places = shown.charts.map((chart) => {
      const each = document.createElement("div");
      each.className = chart.ticks.reduce((sum, [, text]) => sum + text.length + 2, 0) > 60 ? "chart slanted" : "chart";
      row.appendChild(each);
      return each;
    });
    const redraw = () => shown.charts.forEach((chart, i) => draw(chart, places[i], hidden));
    redraw();
    legend(shown, place, redraw, hidden);
  }

  return { draw, figure, legend, element, ticks, shown, exact };
})();
