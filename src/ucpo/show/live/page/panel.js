"use strict";
// One lane: its picture, what it has spent and may still spend, and the two sliders.
const Panel = (() => {
  const COLOURS = ["#2a78d6", "#eb6834", "#1baf7a", "#9a5fd0"];
  const WHOLE = 0.05; // of the probability that shows as none or all

  function make(parent, tag, className = "", text = "") {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text) made.textContent = text;
    parent.appendChild(made);
    return made;
  }

  const plain = (value) => String(+value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2));

  function percent(share) {
    if (share <= 0) return "0 %";
    if (share >= 1) return "100 %";
    return `${Math.min(99, Math.max(1, Math.round(100 * share)))} %`;
  }

  class Lane {
    constructor(parent, meta, source, episode, ask, index, kept) {
      this.number = meta.lane;
      this.ask = ask;
      this.kept = kept;
      this.source = source;
      this.colour = COLOURS[index % COLOURS.length];
      this.root = make(parent, "article", "lane");
      this.root.style.setProperty("--own", this.colour);
      const head = make(this.root, "div", "head");
      this.title = make(head, "b");
      this.subtitle = make(head, "span");
      this.remove = make(head, "button", "", "Remove");
      this.remove.type = "button";
      this.remove.addEventListener("click", () => ask({ do: "remove", lane: this.number }));
      const stage = make(this.root, "div", "stage");
      this.canvas = make(stage, "canvas", "picture");
      this.badge = make(stage, "div", "badge");
      this.badge.hidden = true;
      const side = make(this.root, "div", "side");
      const facts = make(side, "div", "facts");
      this.returns = fact(facts, "return so far", "return");
      this.step = fact(facts, "step", "age");
      this.chance = fact(facts, "budget holds, by critics", "holds");
      this.explain = make(side, "p", "explain");
      this.costs = source.costs.map((name, i) => this.cost(side, name, i, meta.budget[i]));
      this.begin(episode, meta);
    }

    cost(side, name, i, budget) {
      const root = make(side, "div", "cost");
      const line = make(root, "div", "line");
      make(line, "span", "", this.source.costs.length > 1 || name !== "cost" ? `cost: ${name}` : "cost");
      const left = make(line, "b", "left");
      left.dataset.shows = "left";
      const gauge = make(root, "canvas", "gauge");
      gauge.setAttribute("role", "img");
      const key = make(root, "p", "key");
      for (const [kind, text] of [["spent", "spent"], ["half", "expected, half of cases"], ["most", "nine of ten"]]) make(make(key, "span", kind), "i", "", text);
      const course = make(root, "canvas", "course");
      course.setAttribute("role", "img");
      course.setAttribute("aria-label", "what was spent over the steps of the episode, against its budget");
      const low = this.source.low[i], high = this.source.high[i];
      const fine = high - low >= 10 ? 0.5 : (high - low) / 40 || 1;
      const next = slider(root, "next", "Next episode", "its budget", low, high, fine);
      const now = slider(root, "now", "This episode", "give or take now", 0, high, fine);
      next.input.disabled = high <= low;
      next.input.value = budget;
      next.output.textContent = plain(budget);
      next.input.addEventListener("input", () => {
        next.output.textContent = plain(+next.input.value);
        this.ask({ do: "budget", lane: this.number, values: this.costs.map((each) => +each.next.input.value) });
      });
      now.input.addEventListener("input", () => {
        const extra = +now.input.value - this.budgetNow(i);
        now.output.textContent = `${extra < 0 ? "−" : "+"}${plain(Math.abs(extra))}`;
      });
      now.input.addEventListener("change", () => {
        const extra = this.source.costs.map((_, j) => (j === i ? +now.input.value - this.budgetNow(i) : 0));
        this.ask({ do: "spend", lane: this.number, extra });
        now.input.blur();
      });
      return { name, left, gauge, key, course, next, now };
    }

    budgetNow(i) {
      return this.point[2][i];
    }

    begin(episode, meta) {
      this.scenery = episode.scenery;
      this.trail = episode.trail;
      this.course = episode.course.slice();
      this.limit = episode.limit;
      this.moment = episode.moment;
      this.point = episode.moment.point;
      this.silent = episode.silent;
      this.canvas.className = `picture ${{ side: "wide", none: "none" }[this.scenery.kind] || ""}`;
      this.title.textContent = this.source.name;
      this.subtitle.textContent = `seed ${episode.seed} · after ${episode.env_steps.toLocaleString("en")} environment steps`;
      this.show(episode.moment);
      this.settings(meta);
    }

    settings(meta) {
      this.costs.forEach((each, i) => {
        if (document.activeElement === each.next.input) return; // someone is turning it here
        each.next.input.value = meta.budget[i];
        each.next.output.textContent = plain(meta.budget[i]);
      });
    }

    frame(moment) {
      this.moment = moment;
      this.trail.push(...moment.trail);
      this.point = moment.point;
      this.course.push(moment.point);
      this.show(moment);
    }

    show(moment) {
      const [age, spent, budget, fan, holds] = moment.point;
      this.returns.textContent = moment.return.toFixed(1);
      this.step.textContent = age;
      if (this.limit) make(this.step, "small", "", ` of ${this.limit}`);
      this.chance.textContent = holds ? percent(Math.min(...holds)) : "–";
      this.chance.style.color = !holds ? "" : Math.min(...holds) < WHOLE ? Picture.ink("bad") : "";
      this.tell(budget, !holds && this.silent);
      this.badge.hidden = !moment.over;
      if (moment.over) {
        const held = spent.every((cost, i) => cost <= budget[i] + 1e-9);
        this.badge.className = `badge ${held ? "held" : "exceeded"}`;
        this.badge.textContent = held ? "within its budget" : "exceeded its budget";
      }
      this.costs.forEach((each, i) => {
        const left = budget[i] - spent[i];
        each.left.textContent = left < 0 ? `${plain(-left)} too much` : `${plain(left)} left of ${plain(budget[i])}`;
        each.left.classList.toggle("exceeded", left < 0);
        each.key.classList.toggle("silent", !fan);
        each.gauge.setAttribute("aria-label", `${plain(spent[i])} spent of ${plain(budget[i])}`);
        each.now.input.disabled = moment.over;
        if (document.activeElement !== each.now.input) {
          each.now.input.max = Math.max(spent[i], 0) + this.source.high[i];
          each.now.input.value = budget[i];
          each.now.output.textContent = plain(budget[i]);
        }
      });
    }

    // What is known beside the critics' word: how often the evaluation kept such a budget.
    tell(budget, silent) {
      const said = silent ? ["There are no critics for this policy, so nothing predicts what it will still cost."] : [];
      const shares = budget.map((each, i) => this.kept(i, each));
      if (shares.every((share) => share !== null)) {
        const which = shares.map((share, i) => `${percent(share)} of episodes kept a budget of ${plain(budget[i])}${shares.length > 1 ? ` for ${this.source.costs[i]}` : ""}`);
        said.push(`In the evaluation, ${which.join(" and ")}.`);
      }
      const text = said.join(" ");
      this.explain.hidden = !text;
      if (this.explain.textContent !== text) this.explain.textContent = text;
    }

    draw() {
      Picture.draw(this.canvas, this.scenery, this.moment.see, this.trail);
      const [, spent, budget, fan] = this.point;
      this.costs.forEach((each, i) => {
        gauge(each.gauge, spent[i], budget[i], fan && fan[i], this.source.high[i], this.colour);
        course(each.course, this.course, i, this.limit, this.source.high[i], this.colour);
      });
    }
  }

  function fact(parent, label, shows) {
    const root = make(parent, "div", "fact");
    make(root, "small", "", label);
    const output = make(root, "output");
    output.dataset.shows = shows;
    return output;
  }

  function slider(parent, kind, label, hint, low, high, step) {
    const root = make(parent, "div", `slider ${kind}`);
    const text = make(root, "label", "", label);
    make(text, "small", "", hint);
    const input = make(root, "input");
    Object.assign(input, { type: "range", min: low, max: high, step });
    input.dataset.turns = kind;
    input.setAttribute("aria-label", `${label}: ${hint}`);
    return { input, output: make(root, "output") };
  }

  // What is spent, what the rest is expected to cost (darker: half of all cases, lighter: nine of
  // ten), and where the budget ends.
  function gauge(canvas, spent, budget, fan, high, colour) {
    const [ink, width, height] = Picture.pen(canvas);
    const most = Math.max(budget * 1.15, spent * 1.1, fan ? (spent + fan[4]) * 1.05 : 0, high * 0.5, 1);
    const x = (cost) => 1 + (cost / most) * (width - 2);
    const top = 16, tall = 20, base = top + tall;
    ink.fillStyle = Picture.ink("soft");
    ink.fillRect(x(0), top, width - 2, tall);
    ink.fillStyle = colour;
    ink.fillRect(x(0), top, x(Math.min(spent, budget)) - x(0), tall);
    if (spent > budget) {
      ink.fillStyle = Picture.ink("bad");
      ink.fillRect(x(budget), top, x(spent) - x(budget), tall);
    }
    if (fan && fan[4] > 0) {
      for (const [low, far, alpha] of [[fan[0], fan[4], 0.22], [fan[1], fan[3], 0.38]]) {
        ink.globalAlpha = alpha;
        ink.fillStyle = colour;
        ink.fillRect(x(spent + low), top, Math.max(1, x(spent + far) - x(spent + low)), tall);
      }
      ink.globalAlpha = 1;
      ink.fillStyle = Picture.ink("ink");
      ink.fillRect(x(spent + fan[2]) - 0.75, top, 1.5, tall);
    }
    ink.fillStyle = Picture.ink("ink");
    ink.fillRect(x(budget) - 1.25, top - 6, 2.5, tall + 12);
    ink.font = "12px system-ui, sans-serif";
    const label = `budget ${plain(budget)}`;
    const half = ink.measureText(label).width / 2;
    ink.textAlign = "center";
    ink.fillText(label, Math.min(width - half - 1, Math.max(half + 1, x(budget))), 9);
    ink.fillStyle = Picture.ink("faint");
    for (const tick of Charts.ticks(0, most, 6)) {
      ink.textAlign = tick === 0 ? "left" : "center";
      if (x(tick) < width - 10) ink.fillText(plain(tick), x(tick), base + 20);
    }
  }

  // What was spent over the steps of the episode, and what was expected in the end at each of them.
  function course(canvas, points, i, limit, high, colour) {
    const [ink, width, height] = Picture.pen(canvas);
    const last = points[points.length - 1];
    const long = Math.max(limit || 0, last[0], 10);
    let most = 1;
    for (const [, spent, budget, fan] of points) most = Math.max(most, spent[i], budget[i], fan ? Math.min(spent[i] + fan[i][4], 3 * high) : 0);
    most *= 1.12;
    const left = 26, x = (age) => left + (age / long) * (width - left - 2), y = (cost) => height - 15 - (cost / most) * (height - 22);
    ink.font = "11px system-ui, sans-serif";
    ink.fillStyle = Picture.ink("faint");
    ink.strokeStyle = Picture.ink("line");
    ink.lineWidth = 1;
    ink.textAlign = "right";
    for (const tick of Charts.ticks(0, most, 3)) {
      ink.beginPath(); ink.moveTo(left, y(tick)); ink.lineTo(width, y(tick)); ink.stroke();
      ink.fillText(plain(tick), left - 5, y(tick) + 4);
    }
    ink.textAlign = "center";
    for (const tick of Charts.ticks(0, long, 5)) if (x(tick) < width - 12) ink.fillText(plain(tick), x(tick), height - 2);
    const fans = points.filter(([, , , fan]) => fan);
    for (const [low, far, alpha] of [[0, 4, 0.14], [1, 3, 0.2]]) {
      ink.globalAlpha = alpha;
      ink.fillStyle = colour;
      ink.beginPath();
      for (const [age, spent, , fan] of fans) ink.lineTo(x(age), y(Math.min(most, spent[i] + fan[i][far])));
      for (const [age, spent, , fan] of [...fans].reverse()) ink.lineTo(x(age), y(Math.min(most, spent[i] + fan[i][low])));
      ink.fill();
    }
    ink.globalAlpha = 1;
    stairs(ink, points, (point) => point[2][i], x, y, Picture.ink("ink"), [5, 4], 1.2);
    stairs(ink, points, (point) => point[1][i], x, y, colour, [], 2.2);
  }

  function stairs(ink, points, value, x, y, colour, dash, wide) {
    ink.strokeStyle = colour;
    ink.lineWidth = wide;
    ink.setLineDash(dash);
    ink.beginPath();
    points.forEach((point, i) => {
      if (i) ink.lineTo(x(point[0]), y(value(points[i - 1])));
      ink.lineTo(x(point[0]), y(value(point)));
    });
    ink.stroke();
    ink.setLineDash([]);
  }

  return { Lane, make, plain, COLOURS };
})();
