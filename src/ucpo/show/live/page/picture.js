"use strict";
// Draws an episode from positions: from above where robots drive among objects, from the side where
// they run. Lengths are metres until `at` makes pixels of them.
const Picture = (() => {
  const COLOURS = {
    goal: ["#2eb35a", 0.42], hazards: ["#3a72e6", 0.34], vases: ["#19b3bf", 1], pillars: ["#73738f", 1],
    buttons: ["#f29a26", 1], gremlins: ["#8c40cc", 1], push_box: ["#e0c22e", 1], circle: ["#2eb35a", 0.16], sigwalls: ["#cca61a", 0.7],
  };
  const ORDER = ["circle", "sigwalls", "hazards", "goal", "buttons", "pillars", "vases", "push_box", "gremlins"];
  const BOXES = new Set(["vases", "gremlins", "push_box"]);
  const COSTLY = "#e03c31", ROBOT = "#db4538";

  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let inks = {};
  function readInks() {
    for (const name of ["ink", "faint", "line", "axis", "floor", "floor-line", "limb", "limb-far", "trim", "trail", "spent", "tint", "bad", "good", "soft", "paper"])
      inks[name] = style(`--${name}`);
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", readInks);

  // A canvas as sharp as the screen; returns its pen and its size in CSS pixels.
  function pen(canvas) {
    const ratio = window.devicePixelRatio || 1;
    const width = canvas.clientWidth, height = canvas.clientHeight;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const ink = canvas.getContext("2d");
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    ink.clearRect(0, 0, width, height);
    return [ink, width, height];
  }

  function fromAbove(canvas, scenery, see, trail) {
    const [ink, width, height] = pen(canvas);
    if (!width || !height) return;
    let half = scenery.half_width;
    for (const [x, y] of trail) half = Math.max(half, Math.abs(x) + 0.3, Math.abs(y) + 0.3);
    const scale = Math.min(width, height) / (2 * half);
    const at = (x, y) => [width / 2 + x * scale, height / 2 - y * scale];
    grid(ink, width, height, half, at);
    const objects = scenery.objects.map(([kind, size], i) => ({ kind, size, x: see[3 + 3 * i], y: see[4 + 3 * i], yaw: see[5 + 3 * i] }));
    objects.sort((a, b) => ORDER.indexOf(a.kind) - ORDER.indexOf(b.kind));
    for (const each of objects) object(ink, each, at, scale);
    path(ink, trail, at);
    robot(ink, scenery, see, at, scale);
  }

  function grid(ink, width, height, half, at) {
    ink.strokeStyle = inks["floor-line"];
    ink.lineWidth = 1;
    ink.beginPath();
    for (let line = -Math.floor(2 * half); line <= 2 * half; line++) {
      const [x, y] = at(line, line);
      ink.moveTo(x, 0); ink.lineTo(x, height);
      ink.moveTo(0, y); ink.lineTo(width, y);
    }
    ink.stroke();
  }

  function object(ink, { kind, size, x, y, yaw }, at, scale) {
    const [colour, alpha] = COLOURS[kind] || ["#888888", 1];
    ink.fillStyle = ink.strokeStyle = colour;
    const [px, py] = at(x, y);
    if (kind === "sigwalls") {
      const across = x !== 0;
      const w = across ? 0.03 : size, h = across ? size : 0.03;
      ink.globalAlpha = alpha;
      ink.fillRect(px - w * scale, py - h * scale, 2 * w * scale, 2 * h * scale);
    } else if (BOXES.has(kind)) {
      const reach = (kind === "push_box" ? 1.5 : 1) * size * scale;
      ink.save();
      ink.translate(px, py);
      ink.rotate(-yaw);
      ink.globalAlpha = alpha;
      ink.fillRect(-reach, -reach, 2 * reach, 2 * reach);
      ink.restore();
    } else {
      ink.beginPath();
      ink.arc(px, py, size * scale, 0, 7);
      ink.globalAlpha = alpha;
      ink.fill();
      ink.globalAlpha = Math.min(1, 2 * alpha);
      ink.lineWidth = 1.2;
      if (alpha < 1) ink.stroke();
    }
    ink.globalAlpha = 1;
  }

  function path(ink, trail, at) {
    ink.lineCap = ink.lineJoin = "round";
    for (const costly of [0, 1]) {
      ink.strokeStyle = costly ? COSTLY : inks.trail;
      ink.lineWidth = costly ? 3.2 : 2;
      ink.globalAlpha = costly ? 0.95 : 0.6;
      ink.beginPath();
      for (let i = 1; i < trail.length; i++)
        if (trail[i][2] === costly) {
          ink.moveTo(...at(trail[i - 1][0], trail[i - 1][1]));
          ink.lineTo(...at(trail[i][0], trail[i][1]));
        }
      ink.stroke();
    }
    ink.globalAlpha = 1;
  }

  function robot(ink, scenery, [x, y, yaw], at, scale) {
    const [px, py] = at(x, y);
    const [fx, fy] = scenery.forward;
    ink.fillStyle = ROBOT;
    ink.beginPath();
    ink.arc(px, py, 0.1 * scale, 0, 7);
    ink.fill();
    ink.strokeStyle = "#ffffff";
    ink.lineWidth = 1.5;
    ink.stroke();
    ink.save();
    ink.translate(px, py);
    ink.rotate(-(yaw + Math.atan2(fy, fx)));
    ink.fillStyle = inks.trim;
    ink.beginPath();
    ink.moveTo(0.2 * scale, 0);
    ink.lineTo(0.09 * scale, 0.065 * scale);
    ink.lineTo(0.09 * scale, -0.065 * scale);
    ink.fill();
    ink.restore();
  }

  function fromTheSide(canvas, scenery, see) {
    const [ink, width, height] = pen(canvas);
    if (!width || !height) return;
    const [speed, ...rest] = see;
    const limbs = scenery.radii.map((radius, i) => ({ radius, ends: rest.slice(5 * i, 5 * i + 4), depth: rest[5 * i + 4] }));
    const middle = limbs.reduce((sum, { ends }) => sum + ends[0] + ends[2], 0) / (2 * limbs.length);
    const scale = height / 2.5;
    const level = scenery.floor ? height * 0.84 : height / 2;
    const height0 = scenery.floor ? 0 : limbs.reduce((sum, { ends }) => sum + ends[1] + ends[3], 0) / (2 * limbs.length);
    const at = (x, y) => [width / 2 + (x - middle) * scale, level - (y - height0) * scale];
    ground(ink, width, height, level, scale, middle, height0, scenery.floor, at);
    const depths = limbs.map((limb) => limb.depth);
    const near = Math.max(...depths), far = Math.min(...depths);
    ink.lineCap = "round";
    for (const { radius, ends, depth } of [...limbs].sort((a, b) => a.depth - b.depth)) {
      ink.strokeStyle = near - far > 0.05 && depth < (near + far) / 2 - 0.02 ? inks["limb-far"] : inks.limb;
      ink.lineWidth = 2 * radius * scale;
      ink.beginPath();
      ink.moveTo(...at(ends[0], ends[1]));
      ink.lineTo(...at(ends[2] + 1e-4, ends[3]));
      ink.stroke();
      ink.fillStyle = inks.trim;
      ink.globalAlpha = 0.45;
      for (const [x, y] of [[ends[0], ends[1]], [ends[2], ends[3]]]) {
        ink.beginPath();
        ink.arc(...at(x, y), Math.max(1.5, 0.28 * radius * scale), 0, 7);
        ink.fill();
      }
      ink.globalAlpha = 1;
    }
    speedometer(ink, width, speed, scenery.limit);
  }

  function ground(ink, width, height, level, scale, middle, up, floor, at) {
    if (floor) {
      ink.fillStyle = inks["floor-line"];
      ink.fillRect(0, level, width, height - level);
    }
    ink.strokeStyle = floor ? inks.axis : inks["floor-line"];
    ink.fillStyle = inks.faint;
    ink.font = "12px system-ui, sans-serif";
    ink.textAlign = "center";
    ink.lineWidth = 1;
    const reach = width / 2 / scale;
    for (let metre = Math.ceil(middle - reach); metre <= middle + reach; metre++) {
      const [x] = at(metre, 0);
      ink.beginPath();
      ink.moveTo(x, floor ? level : 0);
      ink.lineTo(x, floor ? level + 7 : height);
      ink.stroke();
      ink.fillText(`${metre} m`, x, floor ? level + 21 : height - 6);
    }
    if (!floor)
      for (let metre = Math.ceil(up - 2); metre <= up + 2; metre++) {
        const [, y] = at(0, metre);
        ink.beginPath(); ink.moveTo(0, y); ink.lineTo(width, y); ink.stroke();
      }
  }

  function speedometer(ink, width, speed, limit) {
    const wide = Math.min(190, width * 0.4), x = width - wide - 12, y = 12, most = 2 * limit;
    ink.textAlign = "left";
    ink.font = "13px system-ui, sans-serif";
    ink.fillStyle = inks.ink;
    ink.fillText(`${speed.toFixed(2)} m/s`, x, y + 11);
    ink.textAlign = "right";
    ink.fillStyle = inks.faint;
    ink.fillText(`limit ${limit.toFixed(2)}`, x + wide, y + 11);
    ink.fillStyle = inks["floor-line"];
    ink.fillRect(x, y + 18, wide, 8);
    ink.fillStyle = speed > limit ? COSTLY : inks.trail;
    ink.fillRect(x, y + 18, Math.max(0, Math.min(1, speed / most)) * wide, 8);
    ink.fillStyle = inks.ink;
    ink.fillRect(x + wide / 2 - 1, y + 14, 2, 16);
  }

  function draw(canvas, scenery, see, trail) {
    if (!inks.ink) readInks();
    if (scenery.kind === "above") fromAbove(canvas, scenery, see, trail);
    if (scenery.kind === "side") fromTheSide(canvas, scenery, see);
  }

  return { draw, pen, ink: (name) => { if (!inks.ink) readInks(); return inks[name]; } };
})();
