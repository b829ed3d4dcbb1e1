"use strict";
// Draws the timeline of a profile's page from the data block beside it. Asks for nothing; names are text alone.
(() => {
  const find = (name) => document.getElementById(`timeline-${name}`);
  const data = JSON.parse(find("data").textContent);
  const live = find("live"), canvas = find("canvas"), tip = find("tip"), pen = canvas.getContext("2d");
  const ROW = 18, GAP = 3, HEAD = 16, AXIS = 22;
  const FONT = "11px system-ui, sans-serif", INK = "#1c2430", SOFT = "#5d6876";
  const SHORTEST = 100;  // ns that are the least to be seen at once
  const HOST = 1, SHADES = ["#5d7f99", "#466782", "#7896ad"];  // events of the host's rows: neighbours look different
  const state = {from: 0, to: Math.max(data.view, SHORTEST), row: 0, chosen: -1, drag: null};
  let width = 0, gutter = 0;

  const layOut = () => {  // where each row stands; a group's name stands above its first row
    let y = AXIS, group = "";
    for (const row of data.rows) {
      if (row.group !== group) { group = row.group; y += HEAD; row.heads = true; }
      row.y = y;
      y += ROW + GAP;
    }
    return y + 2;
  };
  const height = layOut();

  const toX = (time) => gutter + (time - state.from) / (state.to - state.from) * (width - gutter);
  const toTime = (x) => state.from + (x - gutter) / (width - gutter) * (state.to - state.from);
  const formatTime = (ns) => {
    if (Math.abs(ns) >= 1e9) return `${(ns / 1e9).toPrecision(4)} s`;
    return Math.abs(ns) >= 1e5 ? `${(ns / 1e6).toPrecision(4)} ms` : `${(ns / 1e3).toPrecision(4)} µs`;
  };
  const isLight = (colour) => {
    const [r, g, b] = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
    return 0.3 * r + 0.59 * g + 0.11 * b > 140;
  };

  const cutText = (text, room) => {  // what of a text fits into so many pixels; of a path its end
    if (pen.measureText(text).width <= room) return text;
    const letters = Math.floor(room / pen.measureText(text).width * text.length) - 2;
    if (letters < 3) return "";
    return text.includes("/") ? `…${text.slice(-letters)}` : `${text.slice(0, letters)}…`;
  };

  const drawAxis = () => {
    const rough = (state.to - state.from) / Math.max(2, (width - gutter) / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const tick = power * [1, 2, 5, 10].find((one) => one * power >= rough);
    pen.fillStyle = SOFT;
    for (let time = Math.ceil(state.from / tick) * tick; time <= state.to; time += tick) {
      const x = toX(time);
      pen.fillRect(x, AXIS - 5, 1, 5);
      pen.fillText(time === 0 ? "0" : `${+(time / 1e6).toPrecision(8)} ms`, Math.min(x + 3, width - 60), AXIS - 10);
    }
    pen.fillStyle = "rgba(28, 36, 48, 0.18)";
    const seen = data.steps.filter((time) => time >= state.from && time <= state.to);
    if (seen.length < (width - gutter) / 8) for (const time of seen) pen.fillRect(toX(time), AXIS, 1, height - AXIS);
  };

  const drawRow = (row, number) => {
    pen.fillStyle = number === state.row && document.activeElement === canvas ? "#e8eef6" : "#f6f7f9";
    pen.fillRect(gutter, row.y, width - gutter, ROW);
    let reach = -Infinity;  // up to where something is drawn: what stands alone has to be seen, however short
    for (let i = 0; i < row.events.length; i += 4) {
      reach = drawEvent(row, i, number === state.row && i === state.chosen, reach);
    }
    if (row.until !== null && row.until < state.to) {  // nothing is known of it from here on
      const x = Math.max(gutter, toX(row.until));
      pen.fillStyle = "#e4e7eb";
      pen.fillRect(x, row.y, width - x, ROW);
      pen.fillStyle = SOFT;
      if (width - x > 90) pen.fillText("not shown here", x + 6, row.y + ROW / 2);
    }
  };

  const drawEvent = (row, i, isChosen, reach) => {
    const begin = row.events[i], end = begin + row.events[i + 1];
    if (end < state.from || begin > state.to) return reach;
    const left = Math.max(gutter, toX(begin)), right = Math.min(width, toX(end));
    const name = row.events[i + 2], kind = row.events[i + 3];
    const colour = kind === HOST ? SHADES[name % SHADES.length] : data.kinds[kind][1];
    const room = right - left;
    pen.fillStyle = colour;
    pen.fillRect(left, row.y, Math.max(room - (room > 4 ? 0.7 : 0), left > reach + 1 ? 0.8 : 0), ROW);
    if (isChosen) {
      pen.strokeStyle = INK;
      pen.lineWidth = 2;
      pen.strokeRect(left, row.y + 1, Math.max(room, 3), ROW - 2);
    }
    if (room > 16) {
      pen.fillStyle = isLight(colour) ? INK : "#ffffff";
      pen.fillText(cutText(data.names[name], room - 8), left + 4, row.y + ROW / 2);
    }
    return Math.max(reach, right);
  };

  const drawTitles = () => {
    pen.fillStyle = "#ffffff";
    pen.fillRect(0, 0, gutter, height);
    for (const row of data.rows) {
      if (row.heads) {
        pen.font = `bold ${FONT}`;
        pen.fillStyle = INK;
        pen.fillText(cutText(row.group, width), 2, row.y - HEAD / 2);
        pen.font = FONT;
      }
      pen.fillStyle = row.group ? SOFT : INK;
      pen.fillText(cutText(row.title, gutter - 12), 6, row.y + ROW / 2);
    }
  };

  const draw = () => {
    const scale = window.devicePixelRatio || 1;
    width = canvas.clientWidth;
    gutter = width < 600 ? 96 : 190;
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    canvas.style.height = `${height}px`;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = FONT;
    pen.textBaseline = "middle";
    data.rows.forEach(drawRow);
    drawTitles();
    drawAxis();
  };

  let waits = false;
  const drawSoon = () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; draw(); });
  };

  const show = (from, to) => {  // part of the whole, and no less than can be drawn
    const length = Math.min(Math.max(to - from, SHORTEST), Math.max(data.end, SHORTEST));
    state.from = Math.min(Math.max(from, 0), Math.max(data.end, SHORTEST) - length);
    state.to = state.from + length;
    drawSoon();
  };
  const zoom = (factor, at = (state.from + state.to) / 2) =>
    show(at - (at - state.from) * factor, at + (state.to - at) * factor);
  const pan = (share) => {
    const by = share * (state.to - state.from);
    show(state.from + by, state.to + by);
  };

  const findEvent = (x, y) => {  // [row, event]: the shortest that is there, else the shortest a pixel or two away
    const number = data.rows.findIndex((row) => y >= row.y && y < row.y + ROW);
    if (number < 0 || x < gutter) return [number, -1];
    const events = data.rows[number].events, time = toTime(x);
    const slack = 1.5 * (state.to - state.from) / (width - gutter);
    for (const reach of [0, slack]) {
      let best = -1;
      for (let i = 0; i < events.length; i += 4) {
        const isThere = events[i] - reach <= time && time <= events[i] + events[i + 1] + reach;
        if (isThere && (best < 0 || events[i + 1] < events[best + 1])) best = i;
      }
      if (best >= 0) return [number, best];
    }
    return [number, -1];
  };

  const tell = (number, i, x) => {  // what an event is, beside it
    if (number < 0 || i < 0) { tip.hidden = true; return; }
    const row = data.rows[number], [begin, length, name, kind] = row.events.slice(i, i + 4);
    const what = data.names[name] === data.kinds[kind][0] ? "" : ` · ${data.kinds[kind][0]}`;
    const where = `${row.title}, from ${formatTime(begin)} on`;
    tip.textContent = `${data.names[name]} · ${formatTime(length)}${what} · ${where}`;
    tip.hidden = false;
    tip.style.top = `${canvas.offsetTop + row.y + ROW + 4}px`;
    tip.style.left = `${Math.max(0, Math.min(x, width - tip.offsetWidth))}px`;
  };

  const choose = (number, i) => {  // by key: a row, or one of its events, which comes into sight
    const row = data.rows[number];
    state.row = number;
    state.chosen = i;
    if (i >= 0) {
      const [begin, length] = row.events.slice(i, i + 2);
      if (begin + length < state.from || begin > state.to) {
        const half = (state.to - state.from) / 2;
        show(begin - half, begin + half);
      }
      tell(number, i, toX(begin));
    } else {
      tip.textContent = `${row.group} ${row.title}: ${row.events.length / 4} events`;
      tip.hidden = false;
      tip.style.top = `${canvas.offsetTop + row.y + ROW + 4}px`;
      tip.style.left = "0px";
    }
    drawSoon();
  };

  const chooseNext = (by) => {
    const events = data.rows[state.row].events;
    let i = state.chosen < 0 ? -1 : state.chosen + by;
    if (i < 0) for (i = 0; i < events.length - 4 && events[i] + events[i + 1] < state.from;) i += 4;
    if (events.length) choose(state.row, Math.min(Math.max(i, 0), events.length - 4));
  };

  const showFew = () => {  // three steps from the first that is in sight
    const at = data.steps.findIndex((time) => time >= state.from);
    const first = at < 0 ? data.steps.length - 1 : at;
    const last = first + 3 < data.steps.length ? data.steps[first + 3] : data.end;
    show(data.steps[first], last);
  };

  const ACTIONS = {
    in: () => zoom(0.5), out: () => zoom(2), left: () => pan(-0.25), right: () => pan(0.25),
    all: () => show(0, data.end), few: showFew,
  };
  const KEYS = {
    "+": ACTIONS.in, "=": ACTIONS.in, "-": ACTIONS.out, "0": ACTIONS.all,
    ArrowLeft: ACTIONS.left, ArrowRight: ACTIONS.right,
    ArrowUp: () => choose(Math.max(state.row - 1, 0), -1),
    ArrowDown: () => choose(Math.min(state.row + 1, data.rows.length - 1), -1),
    ".": () => chooseNext(4), ",": () => chooseNext(-4), Escape: () => { tip.hidden = true; },
  };

  const listen = () => {
    for (const name of Object.keys(ACTIONS)) find(name).addEventListener("click", ACTIONS[name]);
    canvas.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || !Object.hasOwn(KEYS, event.key)) return;
      event.preventDefault();
      KEYS[event.key]();
    });
    canvas.addEventListener("wheel", (event) => {
      if (document.activeElement !== canvas && !event.ctrlKey) return;  // the page scrolls
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(Math.sign(event.deltaX) * 0.1);
      else zoom(event.deltaY > 0 ? 1.25 : 0.8, toTime(Math.max(event.offsetX, gutter)));
    }, {passive: false});
    canvas.addEventListener("pointerdown", (event) => {
      state.drag = {x: event.offsetX, from: state.from, to: state.to};
      canvas.setPointerCapture(event.pointerId);
      tell(...findEvent(event.offsetX, event.offsetY), event.offsetX);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (state.drag === null) { tell(...findEvent(event.offsetX, event.offsetY), event.offsetX); return; }
      const by = (state.drag.x - event.offsetX) / (width - gutter) * (state.drag.to - state.drag.from);
      if (Math.abs(state.drag.x - event.offsetX) <= 2) return;
      tip.hidden = true;
      show(state.drag.from + by, state.drag.to + by);
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => { state.drag = null; });
    canvas.addEventListener("pointerleave", () => { if (state.drag === null) tip.hidden = true; });
    for (const name of ["focus", "blur"]) canvas.addEventListener(name, drawSoon);
    window.addEventListener("resize", drawSoon);
  };

  const writeLegend = () => {  // the kinds that there are, by group
    const used = new Set(data.rows.flatMap((row) => row.events.filter((_, i) => i % 4 === 3)));
    const hasAny = (name) => {
      const at = data.groups.findIndex(([one]) => one === name), end = data.groups[at + 1] || ["", data.kinds.length];
      return [...used].some((kind) => kind >= data.groups[at][1] && kind < end[1]);
    };
    const addGroup = (name) => {
      const line = document.createElement("div");
      line.textContent = `${name}: `;
      find("legend").append(line);
    };
    data.kinds.forEach(([label, colour], number) => {
      for (const [group, first] of data.groups) if (number === first && hasAny(group)) addGroup(group);
      if (!used.has(number) || number < data.groups[0][1]) return;
      const item = document.createElement("span"), mark = document.createElement("i");
      mark.style.background = colour;
      item.append(mark, label);
      find("legend").lastElementChild.append(item);
    });
  };

  live.hidden = false;
  find("still").open = false;
  writeLegend();
  listen();
  draw();
})();
