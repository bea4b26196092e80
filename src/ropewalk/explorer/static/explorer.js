// The page that turns: this moves what the server drew. One formula lives here (turn by m·θ); the rest is asked for.
(() => {
  "use strict";
  const LOCAL = ["pair", "m", "n", "s", "q"]; // answered here; the other parameters are the server's to answer
  const LIMIT = 1e9, TURN = 2 * Math.PI, DEGREES = 180 / Math.PI;
  const exported = location.protocol === "file:" || "exported" in document.body.dataset;
  const $ = (selector, root = document) => root.querySelector(selector);
  const $$ = (selector, root = document) => [...root.querySelectorAll(selector)];
  const put = (element, values) => Object.entries(values).forEach(([name, value]) => element.setAttribute(name, value));
  const clamp = (value, low, high) => Math.min(Math.max(value, low), high);
  let data, params, base; // θ, vectors, words and defaults from the block #data; the address; the address that the server drew
  let state, now, view, frame; // what the address says; its numbers; the elements that show them; a frame asked for

  // ---- numbers as text, as pages.py writes them ----
  function fixed(x, digits) {
    if (x === null) return "–";
    const size = Math.abs(x), tie = (size * 2 ** (digits + 1)) % 2 === 1; // exactly between two: take the even one
    const text = size.toFixed(digits), right = tie && text.at(-1) % 2 ? (size * (1 - 2 ** -50)).toFixed(digits) : text;
    return x < 0 || Object.is(x, -0) ? `-${right}` : right;
  }
  const signed = (x, digits) => fixed(x, digits).replace(/^-(?=[0.]+$)/, "");
  const noise = (x) => (x === 0 ? "0" : x.toExponential(1).replace("e+", "e"));
  function prose(x, digits) {
    const [whole, part] = fixed(x, digits).split(".");
    return whole.replace(/\B(?=(\d{3})+$)/g, data.thousands) + (part ? data.decimal + part : "");
  }
  const numbers = (text) => text.split(/[,;]/).filter((part) => part.trim()).map(Number);

  // ---- the formula; rows are named as the cells that show them ----
  const turn = (vector, position) => data.theta.map((theta, i) => {
    const a = vector[data.first[i]], b = vector[data.second[i]], angle = position * theta, g = data.factor;
    const cos = Math.cos(angle), sin = Math.sin(angle), out = [g * (a * cos - b * sin), g * (b * cos + a * sin)];
    const radius = Math.hypot(a, b), turned = Math.hypot(...out), left = (angle * DEGREES) % 360;
    const degrees = ((left < 0 ? left + 360 : left) % 360) + 0;
    return { angle, degrees, in: [a, b], out, radius, turned, deviation: turned - g * radius };
  });
  const meet = (q, k, steps) => data.theta.map((theta, i) => {
    const a = data.first[i], b = data.second[i], distance = steps * theta;
    const straight = q[a] * k[a] + q[b] * k[b], cross = q[a] * k[b] - q[b] * k[a];
    const contribution = data.factor ** 2 * (straight * Math.cos(distance) + cross * Math.sin(distance));
    return { distance, straight, cross, contribution };
  });
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  function compute({ m, n, s, q }) {
    const total = (values) => sum(values) + data.still; // channels that never turn add what they are
    const dot = (one, two) => total(one.map(({ out: [a, b] }, i) => a * two[i].out[0] + b * two[i].out[1]));
    const length = (v, rows) => Math.hypot(...rows.map((row) => row.turned), ...view.still.map((i) => v[i]));
    const k = data.k, query = turn(q, m), key = turn(k, n), parts = meet(q, k, m - n);
    return {
      query, key, parts, total: total(parts.map((row) => row.contribution)), score: dot(query, key),
      shifted: dot(turn(q, m + s), turn(k, n + s)), unrotated: sum(q.map((value, i) => value * k[i])),
      q: [Math.hypot(...q), length(q, query)], k: [Math.hypot(...k), length(k, key)],
    };
  }

  // ---- what is shown: numbers with their digits; without digits it is float noise ----
  const CELLS = { angle: 4, in: 3, out: 3, degrees: 3, distance: 6, straight: 4, cross: 4, contribution: 6 };
  function readings({ pair, m, n, s }) {
    const row = now.query[pair], key = now.key[pair], theta = data.theta[pair], bound = now.q[1] * now.k[1];
    const [a, b] = row.out, [c, d] = key.out, between = Math.atan2(Math.abs(a * d - b * c), a * c + b * d) * DEGREES;
    return {
      "live.angle": [row.angle, 3], "live.degrees": [(row.angle % TURN) * DEGREES, 2], "live.score": [now.score, 6],
      "live.turns": [Math.round((Math.abs(row.angle) - (Math.abs(row.angle) % TURN)) / TURN), 0],
      "live.distance": [m - n, 0], "head.distance": [m - n, 0], "head.score": [now.score, 6],
      "a.pair": [pair, 0], "a.detail": [pair, 0], "a.freq": [theta, 8], "a.frequency": [theta, 8],
      "a.query_angle": [row.angle, 6], "a.query_degrees": [row.degrees, 2],
      "a.key_angle": [key.angle, 6], "a.key_degrees": [key.degrees, 2],
      "a.radius_before": [row.radius, 6], "a.radius_after": [row.turned, 6], "a.radius_deviation": [row.deviation],
      "a.between": [row.turned * key.turned === 0 ? null : between, 2],
      "b.m": [m, 0], "b.n": [n, 0], "b.score": [now.score, 9], "b.unrotated": [now.unrotated, 9],
      "b.ms": [m + s, 0], "b.ns": [n + s, 0], "b.shifted": [now.shifted, 9], "b.difference": [now.shifted - now.score],
      "b.total": [now.total, 6], "b.low": [-bound, 6], "b.high": [bound, 6], "b.q_before": [now.q[0], 6],
      "b.q_after": [now.q[1], 6], "b.k_before": [now.k[0], 6], "b.k_after": [now.k[1], 6],
    };
  }
  function reading(name, x, digits) {
    if (name === "live.turns") return data.words[["none", "one"][x] ?? "many"].replace("{count}", x);
    return digits === undefined ? noise(x) : (name.startsWith("live.") ? prose : fixed)(x, digits);
  }
  function cell(name, x, digits) {
    if (Array.isArray(x)) return `(${signed(x[0], digits)}, ${signed(x[1], digits)})`;
    return digits ? signed(x, digits) + (name === "degrees" ? "°" : "") : noise(x);
  }
  const away = new Set(); // rows and readings out of view: they wait for the end of a drag
  const watch = new IntersectionObserver((entries) =>
    entries.forEach(({ target, isIntersecting }) => away[isIntersecting ? "delete" : "add"](target)));
  function show(element, x, text) {
    if (element.textContent !== text) element.textContent = text;
    element.dataset.raw = x; // at full precision
  }
  function render() {
    frame = 0;
    now = compute(state);
    const all = readings(state), waits = (box) => held && away.has(box);
    view.readings.forEach(([element, name, box]) => {
      if (all[name] && !waits(box)) show(element, all[name][0], reading(name, ...all[name]));
    });
    view.cells.forEach(([element, name, i, box]) => {
      const x = now.query[i][name] ?? now.parts[i][name];
      if (x !== undefined && !waits(box)) show(element, x, cell(name, x, CELLS[name]));
    });
    view.inputs.forEach((input) => {
      const value = input.name === "q" ? list().join(", ") : String(state[input.name]);
      const typing = input === document.activeElement && (input.name === "q" || input.value === "");
      if (!typing && input.value !== value) input.value = value;
    });
    choose();
    draw();
    check();
  }
  function choose() { // the drawn pair is one everywhere
    if (view.circle.dataset.pair === String(state.pair)) return;
    put(view.circle, { "aria-label": view.circle.getAttribute("aria-label").replace(/\d+/, state.pair) });
    [view.circle, ...$$("[data-pair-formula]")].forEach((element) => put(element, { "data-pair": state.pair }));
    const rows = $$(":is(#a, #b, #c) tr[data-pair], .pick");
    rows.forEach((row) => row.classList.toggle("chosen", Number(row.dataset.pair) === state.pair));
  }
  function draw() { // the circle as figures.circle draws it, and where the distance lies on the score curve
    const row = now.query[state.pair], key = now.key[state.pair], svg = $("svg.curve");
    const longest = Math.max(row.radius, key.radius, row.turned, key.turned, 1e-9);
    const scale = drag?.scale ?? 92 / longest; // held while the faint arrow is dragged, or it would run away
    const at = (radius, angle) => `${(radius * Math.cos(angle)).toFixed(3)} ${(-radius * Math.sin(angle)).toFixed(3)}`;
    const arc = ({ in: [x, y], angle }, radius) => {
      const start = Math.atan2(y, x), sweep = angle % TURN, large = Number(Math.abs(sweep) > Math.PI);
      return `M${at(radius, start)}A${radius} ${radius} 0 ${large} ${Number(sweep < 0)} ${at(radius, start + sweep)}`;
    };
    for (const [name, [x, y]] of Object.entries({ before: row.in, key: key.out, query: row.out })) {
      const [shaft, head, grip] = view.arrows[name].children, px = (x * scale).toFixed(3), py = (-y * scale).toFixed(3);
      put(shaft, { x2: px, y2: py });
      put(grip, { cx: px, cy: py });
      put(head, { transform: `translate(${px} ${py}) rotate(${(Math.atan2(-y, x) * DEGREES).toFixed(3)})` });
    }
    const spoken = (m, degrees) => ({ "aria-valuenow": m, "aria-valuetext": `${m}, ${fixed(degrees, 2)}°` });
    put(view.arrows.query, spoken(state.m, row.degrees));
    put(view.arrows.key, spoken(state.n, key.degrees));
    put($(".orbit", view.circle), { r: (row.radius * scale).toFixed(3) });
    put($(".query-arc", view.circle), { d: arc(row, 34) });
    put($(".key-arc", view.circle), { d: arc(key, 26) });
    put(view.circle, { "data-scale": scale });
    if (!svg) return;
    const here = $(".here", svg) ?? svg.appendChild(document.createElementNS(svg.namespaceURI, "line"));
    const { width, height } = svg.viewBox.baseVal, far = Math.abs(state.m - state.n);
    const inside = far >= 1 && far <= data.window;
    const x = inside ? 4 + (Math.log(far) / Math.log(Math.max(data.window, 10))) * (width - 8) : 0;
    put(here, { class: "mark here", x1: x, x2: x, y1: 0, y2: height - 16, visibility: inside ? "visible" : "hidden" });
  }

  // ---- the address is the state ----
  const read = (query) => new URLSearchParams(Object.fromEntries(new URLSearchParams(query))); // of two, the last one
  function canonical(from, without = []) {
    const names = Object.keys(data.defaults), given = (name) => from.get(name) ?? data.defaults[name];
    const own = names.filter((name) => !without.includes(name) && given(name) !== data.defaults[name]);
    const other = names.map((name) => `b.${name}`).filter((name) => from.has(name));
    if (from.get("b.model") === given("model")) other.shift(); // compared with itself: with nothing, or changed
    const written = [...own, ...other].map((name) => `${name}=${encodeURIComponent(from.get(name))}`).join("&");
    return (written && "?") + written.replaceAll("%2C", ",").replaceAll("%3A", ":");
  }
  const address = () => location.pathname + canonical(params) + location.hash;
  function list() { // the reader's own query numbers, as many as there are
    const given = numbers(params.get("q") ?? data.defaults.q);
    return given.length && given.every((x) => Math.abs(x) <= 1e6) ? given : numbers(data.defaults.q);
  }
  function derive() { // params to state, as State does it
    const fine = (text) => /^\s*[+-]?\d+\s*$/.test(text) && Math.abs(text) <= LIMIT;
    const whole = (name) => Number(fine(params.get(name)) ? params.get(name) : data.defaults[name]);
    const given = list(), q = data.q.map((_, i) => given[i % given.length]);
    state = { pair: Math.min(whole("pair"), data.theta.length - 1), m: whole("m"), n: whole("n"), s: whole("s"), q };
  }
  // A gesture (a drag, a run of keys, a walk) is one entry of the history: its first change pushes, the others replace.
  let open = false, held = false, quiet = 0, written = 0;
  function change(name, value) {
    const [low, high] = name === "pair" ? [0, data.theta.length - 1] : [-LIMIT, LIMIT];
    const next = name === "q" ? value.join(",") : String(clamp(value, low, high));
    if (next === String(name === "q" ? list() : state[name])) return;
    params.set(name, next);
    derive();
    check();
    frame ||= requestAnimationFrame(render);
    if (!open && !exported) history.pushState(null, "", address());
    else if (performance.now() > written + 400) write(); // browsers refuse an address that changes in every frame
    open = true;
    clearTimeout(quiet);
    if (!held) quiet = setTimeout(settle, 500);
  }
  function write() {
    written = performance.now();
    if (!exported) history.replaceState(null, "", address());
  }
  function settle(kept = true) { // the end of a gesture: what was not worth a frame follows
    if (!open) return;
    clearTimeout(quiet);
    open = held = false;
    if (!kept) return;
    write();
    frame ||= requestAnimationFrame(render);
    const query = canonical(params), moved = params.get("q") !== base.get("q");
    $$(".languages a, .top a[aria-current=page], [data-keep]").forEach((link) => exported || (link.search = query));
    $$('[data-snippet="CLI"], [data-snippet="link"]').forEach((code) =>
      (code.textContent = code.textContent.replace(/(\/\w\w\/)[^"\n]*/, (_, path) => path + query)));
    const stale = $("details[data-fresh][open], table.compare") || (moved && $("svg.curve"));
    if (stale) ask({}, false); // numbers that only the server makes
  }
  function follow(href) { // a link as the server wrote it, with what was changed here since
    const next = read(href), same = (name) => next.get(name) === base.get(name);
    const kept = LOCAL.filter((name) => same(name) && (name !== "pair" || same("model")));
    kept.forEach((name) => next.set(name, params.get(name) ?? data.defaults[name]));
    go(next, true);
  }
  function go(next, push) { // to another address: by the formula where that suffices, else by the server
    walk(false);
    settle(push);
    request?.abort();
    waiting = {};
    if (canonical(next, LOCAL) !== canonical(params, LOCAL)) return void ask(next, push);
    params = next;
    derive();
    render();
    if (push && !exported) history.pushState(null, "", address());
  }

  // ---- what only the server can answer ----
  let request, delay, waiting = {};
  async function ask(next, push = true) { // next: a whole address, or what changes in this one
    if (exported) return;
    request?.abort();
    request = new AbortController();
    const whole = next instanceof URLSearchParams;
    const target = () => (whole ? next : new URLSearchParams({ ...Object.fromEntries(params), ...next }));
    try {
      const answer = await fetch(location.pathname + canonical(target()), { signal: request.signal });
      if (!answer.ok) throw new Error(answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html"), focus = document.activeElement;
      const fresh = $("#data", page).textContent, typing = push && !whole && focus.matches("[data-ask]") ? focus : null;
      walk(false);
      settle();
      params = target();
      if (push) waiting = {};
      history[push ? "pushState" : "replaceState"](null, "", address());
      morph($("#page"), $("#page", page));
      $("#data").textContent = fresh;
      $$("#page :is(select, input:not([type=hidden]))[name]").forEach((field) => {
        const given = field.matches("select") ? $("[selected]", field) ?? field.options[0] : field.attributes.value;
        if (field !== typing) field.value = given.value;
      });
      if (!focus.isConnected && focus.name) $(`#page [name="${focus.name}"]`)?.focus({ preventScroll: true });
      begin();
    } catch (error) {
      if (error.name !== "AbortError" && whole) location.reload(); // else everything stays as it was
    }
  }
  function morph(old, next) { // change only what differs, so that focus, scroll and open details stay
    if (old.isEqualNode(next)) return;
    if (["nodeName", "id", "name"].some((key) => old[key] !== next[key])) return void old.replaceWith(next);
    if (old.nodeType !== Node.ELEMENT_NODE) return void (old.data = next.data);
    [...old.attributes].forEach(({ name }) => name === "open" || next.hasAttribute(name) || old.removeAttribute(name));
    [...next.attributes].forEach(({ name, value }) => old.getAttribute(name) === value || put(old, { [name]: value }));
    const from = [...old.childNodes], to = [...next.childNodes];
    from.slice(to.length).forEach((node) => node.remove());
    to.forEach((node, i) => (from[i] ? morph(from[i], node) : old.append(node)));
  }
  function demand(field) { // what is typed within a moment is asked for together
    const choice = field.matches("select"), given = numbers(field.value);
    const fine = choice || (field.checkValidity() && given.length && given.every(Number.isFinite));
    put(field, { "aria-invalid": !fine });
    if (!fine) return;
    waiting[field.name] = choice ? field.value : given.join(",");
    clearTimeout(delay);
    delay = setTimeout(() => ask({ ...waiting }), 150);
  }

  // ---- dragging: the arrows by angle, the faint arrow by its tip, numbers sideways; walking along the positions ----
  let drag = null, walking = 0;
  function grab(event) {
    const grip = event.target.closest(".grip"), scrub = event.target.closest(".scrub");
    if (!data || event.button !== 0 || !(grip || scrub) || scrub === document.activeElement) return;
    walk(false);
    settle();
    const name = scrub?.name ?? { query: "m", key: "n", before: "q" }[grip.parentNode.dataset.arrow];
    const matrix = view.circle.getScreenCTM().inverse(), theta = data.theta[state.pair];
    const place = ({ clientX, clientY }) => new DOMPoint(clientX, clientY).matrixTransform(matrix);
    const { x, y } = place(event), off = ["cx", "cy"].map((at, i) => Number(grip?.getAttribute(at)) - [x, y][i]);
    const scale = name === "q" ? Number(view.circle.dataset.scale) : undefined;
    const start = { value: state[name], x: event.clientX };
    const step = theta - TURN * Math.round(theta / TURN); // what one position turns the arrow
    drag = { id: event.pointerId, name, scrub, place, off, scale, start, step, angle: Math.atan2(-y, x), turned: 0 };
    (grip ?? scrub).setPointerCapture(event.pointerId);
    grip?.parentNode.focus({ preventScroll: true });
  }
  function move(event) {
    if (event.pointerId !== drag?.id) return;
    const { x, y } = drag.place(event), angle = Math.atan2(-y, x), by = angle - drag.angle;
    const rounded = (length) => clamp(Math.round((100 * length) / drag.scale) / 100 + 0, -1e6, 1e6);
    held = true;
    drag.turned += by - TURN * Math.round(by / TURN); // goes on across full turns
    drag.angle = angle;
    const steps = drag.scrub ? (event.clientX - drag.start.x) / 8 : drag.step && drag.turned / drag.step;
    if (drag.name !== "q") return change(drag.name, drag.start.value + Math.round(steps));
    const own = list(), q = own.length < data.q.length ? [...state.q] : own;
    q[data.first[state.pair]] = rounded(x + drag.off[0]);
    q[data.second[state.pair]] = rounded(-y - drag.off[1]);
    change("q", q);
  }
  function release(event) {
    if (event.pointerId !== drag?.id) return;
    if (drag.scrub && event.type === "pointerup" && !open) drag.scrub.select();
    drag = null;
    held = false;
    settle();
  }
  function walk(on) {
    if (!on && !walking) return;
    clearTimeout(walking);
    walking = on ? setTimeout(walk, 1000 / $('[data-do="speed"]').value, true) : 0;
    put($('[data-do="play"]'), { "aria-pressed": on });
    held = on;
    if (on) change("m", state.m + 1);
    else settle();
  }

  // ---- one pair lights up everywhere; quiz and tour ----
  function light(target) {
    const pair = target?.closest?.("[data-pair]")?.dataset.pair;
    $$(".lit").forEach((element) => element.classList.remove("lit"));
    if (pair !== undefined) $$(`[data-pair="${pair}"]`).forEach((element) => element.classList.add("lit"));
    check();
  }
  function mark() {
    $$("#quiz .option").forEach((option) => {
      const { checked, dataset } = $("input", option);
      $("details", option).open = checked;
      option.classList.toggle("right", checked && dataset.right === "1");
      option.classList.toggle("wrong", checked && dataset.right !== "1");
    });
    const status = $("[data-quiz-mark]"), total = $$("[data-question]").length;
    const text = status.dataset[$$("#quiz :checked").length === total ? "template" : "open"];
    status.textContent = text.replace("{right}", $$("#quiz .option.right").length).replace("{total}", total);
  }
  let card = 0, was; // the card shown, counted from 1, and what the state was when it came
  const slowest = () => $$(".pick").at(-1)?.classList.contains("lit");
  const DONE = {
    "drag-query": () => state.m !== was.m, "drag-key": () => state.n !== was.n, shift: () => state.s !== was.s,
    score: () => now.score > 0, swap: () => state.m === was.n && state.n === was.m && was.m !== was.n,
    pair: () => state.pair !== was.pair, wavelength: slowest,
    window: () => data.window > was.window, pairing: () => params.get("pairing") !== was.pairing,
  };
  function check() {
    const shown = card && $$("#tour .card")[card - 1];
    if (shown && DONE[shown.dataset.do]?.()) shown.classList.add("done");
  }
  function tour(number) { // show a card, or none
    const cards = $$("#tour .card"), count = $("#tour .count"), opening = !card;
    if (!data || !cards.length || (opening && !number)) return;
    card = number <= cards.length ? number : 0;
    was = { ...state, window: data.window, pairing: params.get("pairing") };
    $("#tour").hidden = !card;
    cards.forEach((each, i) => (each.hidden = i + 1 !== card));
    count.textContent = count.dataset.template.replace("{number}", card).replace("{total}", cards.length);
    if (!exported) history.replaceState(null, "", location.pathname + location.search + (card ? `#tour=${card}` : ""));
    if (opening || !card) $(card ? "#tour button" : ".tour-start")?.focus({ preventScroll: true });
    check();
  }
  const SPACES = "input:not([type=number]), button, select, summary, a"; // where the space bar has its own meaning
  const tourAt = () => Number(location.hash.match(/^#tour=(\d{1,3})$/)?.[1] ?? 0);

  // ---- what buttons, keys and fields do ----
  const ACTS = {
    play: () => (matchMedia("(prefers-reduced-motion: reduce)").matches ? change("m", state.m + 1) : walk(!walking)),
    step: () => change("m", state.m + 1), back: () => change("m", state.m - 1),
    reset: () => (exported ? LOCAL.forEach((name) => change(name, data[name])) : go(new URLSearchParams(), true)),
    tour: () => tour(1), next: () => tour(card + 1), close: () => tour(0),
  };
  async function copy(button) {
    const code = $(`[data-snippet="${button.dataset.copy}"]`), label = button.textContent;
    try {
      await navigator.clipboard.writeText(button.dataset.copy === "link" ? location.href : code.textContent);
      button.textContent = data.words.copied;
      setTimeout(() => (button.textContent = label), 1500);
    } catch {
      getSelection().selectAllChildren(code);
    }
  }
  function speak(language) { // in an exported file: the page in another language, with the state kept
    const page = $(`template[data-main="${language}"]`);
    if (!page) return;
    walk(false);
    $("#main").replaceChildren(page.content.cloneNode(true));
    document.documentElement.lang = language === "zh" ? "zh-Hans" : language;
    $$(".languages a").forEach((link) => link.toggleAttribute("aria-current", link.dataset.language === language));
    card = 0;
    begin();
  }
  function click(event) {
    const link = event.target.closest("a"), button = event.target.closest("button, a.button");
    if (!data || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
    if (link?.dataset.language) speak(link.dataset.language);
    else if (link?.dataset.pair) settle(), change("pair", Number(link.dataset.pair)), settle();
    else if (link?.getAttribute("href").startsWith("?")) exported || follow(link.getAttribute("href"));
    else if (button?.dataset.copy) copy(button);
    else if (ACTS[button?.dataset.do]) ACTS[button.dataset.do]();
    else return;
    if (link) event.preventDefault();
  }
  function press(event) {
    const { target, key, shiftKey } = event, arrow = target.closest("[role=slider]");
    if (!data || event.ctrlKey || event.metaKey || event.altKey || $("dialog[open]")) return;
    const field = target.matches("#page input[type=number]:not([data-ask])") && target;
    const name = arrow ? { query: "m", key: "n" }[arrow.dataset.arrow] : field.name;
    const step = { ArrowUp: 1, ArrowDown: -1, ...(arrow && { ArrowRight: 1, ArrowLeft: -1 }) }[key];
    const end = { Home: 0, End: { m: state.n, n: state.m, pair: data.theta.length - 1 }[name] }[key];
    if (name && step && (arrow || shiftKey)) change(name, state[name] + step * (shiftKey ? 10 : 1));
    else if (name && end !== undefined) change(name, end);
    else if (key === "?" && !target.matches("input[type=text]")) $("#keys")?.showModal();
    else if (key === "Escape" && card) tour(0);
    else if (key === " " && card && !target.matches(SPACES)) tour(card + 1);
    else return;
    event.preventDefault();
  }
  function input({ target }) {
    if (target.closest("#quiz")) mark();
    else if (!data || !target.matches("#page [name]")) return;
    else if (target.matches("[data-ask]")) demand(target);
    else if (target.value !== "" && Number.isInteger(Number(target.value))) change(target.name, Number(target.value));
  }
  function begin() { // with what the server drew: at first, and after each answer
    const first = !params, circle = $("#circle");
    if (!circle) return;
    data = JSON.parse($("#data").textContent);
    if (first) params = exported ? new URLSearchParams(LOCAL.map((name) => [name, data[name]])) : read(location.search);
    base = new URLSearchParams(params);
    derive();
    const turning = new Set([...data.first, ...data.second]), rows = $$("tr[data-pair]");
    view = {
      circle, still: data.q.map((_, i) => i).filter((i) => !turning.has(i)),
      readings: $$("[data-v]").map((element) => [element, element.dataset.v, element.closest("dl, tr")]),
      cells: rows.flatMap((row) => $$("[data-c]", row).map((td) => [td, td.dataset.c, Number(row.dataset.pair), row])),
      arrows: Object.fromEntries($$("[data-arrow]", circle).map((arrow) => [arrow.dataset.arrow, arrow])),
      inputs: $$("#page input[name]").filter((field) => LOCAL.includes(field.name)),
    };
    now = compute(state);
    watch.disconnect();
    away.clear();
    $$("#page :is(dl, tr)").forEach((box) => watch.observe(box));
    $$("output[data-v]").forEach((element) => put(element, { "aria-live": "off" })); // the sliders speak
    $$("[role=slider]", circle).forEach((arrow) => put(arrow, { "aria-valuemin": -LIMIT, "aria-valuemax": LIMIT }));
    $$("[data-copy], .tour-start, #page .submit").forEach((button) => (button.hidden = button.matches(".submit")));
    (first ? choose : render)();
    if ($("#quiz")) mark();
  }
  const on = (names, act, capture) => names.split(" ").forEach((name) => document.addEventListener(name, act, capture));
  on("click", click);
  on("keydown", press);
  on("input", input);
  on("submit", (event) => event.target.id === "page" && (event.preventDefault(), settle()));
  on("pointerdown", grab);
  on("mousedown", (event) => drag && event.preventDefault()); // no text is selected by a drag
  on("pointermove", move);
  on("pointerup lostpointercapture", release);
  on("pointerover focusin", ({ target }) => light(target.closest?.("[data-pair]") ?? document.activeElement));
  on("focusout", () => light(null));
  on("toggle", ({ target }) => target.open && target.matches("[data-fresh]") && ask({}, false), true);
  addEventListener("popstate", () => {
    if (params && !exported) go(read(location.search), false);
    if (tourAt() !== card) tour(tourAt());
  });
  begin();
  if (tourAt()) tour(tourAt());
  if (exported && location.hash.length === 3) speak(location.hash.slice(1));
})();
