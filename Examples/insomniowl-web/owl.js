// Draws owls from seeds: the same seed always gives the same owl.

const namespace = "http://www.w3.org/2000/svg";
let drawings = 0;

function element(tag, attributes = {}, ...children) {
  const node = document.createElementNS(namespace, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, String(value));
  }
  node.append(...children.flat(Infinity).filter(Boolean));
  return node;
}

const group = (attributes, ...children) => element("g", attributes, ...children);
const path = (d, attributes) => element("path", { d, ...attributes });
const circle = (cx, cy, r, attributes) => element("circle", { cx, cy, r, ...attributes });
const ellipse = (cx, cy, rx, ry, attributes) => element("ellipse", { cx, cy, rx, ry, ...attributes });
const line = (d, stroke, width, attributes) =>
  path(d, { fill: "none", stroke, "stroke-width": width, "stroke-linecap": "round", "stroke-linejoin": "round",
    ...attributes });

/** A seeded generator of random numbers from 0 to 1 (mulberry32). */
function sequence(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const plumages = [
  { name: "plum", body: "#6d4a86", dark: "#4c3163", light: "#a584bd", face: "#d9c6e6", belly: "#c3a9d4" },
  { name: "rust", body: "#a5583a", dark: "#773a24", light: "#cf8a63", face: "#f3d6bd", belly: "#e8b993" },
  { name: "teal", body: "#2f7479", dark: "#1f5157", light: "#63a9a9", face: "#cfe6de", belly: "#a6d1c7" },
  { name: "slate", body: "#566584", dark: "#3b4763", light: "#8c9bb9", face: "#dde4f0", belly: "#b9c5db" },
  { name: "moss", body: "#66763c", dark: "#475428", light: "#98a86a", face: "#e8ecc9", belly: "#cbd49b" },
  { name: "tawny", body: "#8a6642", dark: "#62462b", light: "#b9946b", face: "#f0e0c8", belly: "#dcc19b" },
  { name: "rose", body: "#a5566d", dark: "#783a4d", light: "#d08a9d", face: "#f6dbe1", belly: "#eab9c5" },
  { name: "snow", body: "#b9c3d3", dark: "#8793aa", light: "#dfe6ef", face: "#f7fafd", belly: "#eef2f8" },
];
const irises = ["#f6c453", "#f09a4a", "#e9dd78", "#8fd0c4", "#f2a8a0"];
const skies = [
  { top: "#0d1030", middle: "#232a63", low: "#5b4a8a" },
  { top: "#0b1430", middle: "#173a5e", low: "#3f6f86" },
  { top: "#160f33", middle: "#3b2664", low: "#8a4f7d" },
  { top: "#0a1026", middle: "#1b2750", low: "#41508a" },
];
const moods = {
  awake: "wide awake", sleepy: "half asleep", asleep: "fast asleep", happy: "beaming", wink: "winking",
  curious: "curious", love: "in love", crying: "in tears", shy: "blushing", lonely: "looking down",
};
const randomMoods = ["awake", "awake", "sleepy", "sleepy", "asleep", "happy", "wink", "curious"];
const extras = {
  none: "", nightcap: "in a nightcap", scarf: "in a scarf", glasses: "in round glasses", mug: "with a mug of cocoa",
  flower: "with a flower", badge: "with a medal", cushion: "on a cushion", headphones: "with headphones",
};
const randomExtras = ["none", "none", "nightcap", "scarf", "glasses", "mug", "flower", "headphones"];

/** The appearance of each owl that is sold by itself. */
export const portraits = {
  CarefreeOwl: { seed: 11, plumage: 4, mood: "happy", extra: "flower" },
  CouchOwl: { seed: 22, plumage: 5, mood: "sleepy", extra: "cushion" },
  CryingOwl: { seed: 33, plumage: 3, mood: "crying", extra: "none" },
  GoodJobOwl: { seed: 44, plumage: 1, mood: "wink", extra: "badge" },
  GoodNightOwl: { seed: 55, plumage: 0, mood: "asleep", extra: "nightcap" },
  InLoveOwl: { seed: 66, plumage: 6, mood: "love", extra: "none" },
  LonelyOwl: { seed: 77, plumage: 7, mood: "lonely", extra: "none" },
  NightOwl: { seed: 88, plumage: 2, mood: "awake", extra: "none" },
  ShyOwl: { seed: 99, plumage: 6, mood: "shy", extra: "scarf" },
};

/** The appearance of an owl: `fixed` where given, else drawn from the seed. */
function traits(seed, fixed = {}) {
  const random = sequence(seed);
  const pick = (list) => list[Math.floor(random() * list.length)];
  const drawn = {
    plumage: pick(plumages), iris: pick(irises), sky: pick(skies), mood: pick(randomMoods),
    extra: pick(randomExtras), pattern: pick(["chevrons", "scallops", "dots"]),
    accent: pick(["#d8576b", "#e0a13c", "#4fa3a5", "#7d6bd6", "#5f9e58"]),
    width: 0.94 + random() * 0.12, tufts: 10 + random() * 26, tilt: (random() - 0.5) * 8,
    moonX: 60 + random() * 280, moonY: 58 + random() * 46, moonPhase: random(), random,
  };
  return { ...drawn, ...fixed, plumage: plumages[fixed.plumage] ?? drawn.plumage };
}

/** A description of an owl, for captions and screen readers. */
function words({ plumage, mood, extra }) {
  return [`A ${plumage.name} owl`, moods[mood], extras[extra]].filter(Boolean).join(", ");
}

/** An owl on a branch at night. */
export function drawOwl(seed, fixed) {
  const look = traits(seed, fixed);
  drawings += 1;
  const id = (name) => `owl${drawings}-${name}`;
  const scene = element("svg", { viewBox: "0 0 400 480", role: "img", "aria-label": words(look), class: "owl" });
  scene.append(night(look, id), perch(look), bird(look, id));
  return scene;
}

/** A small round portrait for lists, hidden from screen readers: its name stands beside it. */
export function drawPortrait(name) {
  const look = traits(portraits[name]?.seed ?? 7, portraits[name] ?? {});
  drawings += 1;
  const id = (part) => `owl${drawings}-${part}`;
  const round = element("svg", { viewBox: "0 0 400 400", "aria-hidden": "true", class: "portrait" });
  round.append(
    element("clipPath", { id: id("round") }, circle(200, 200, 200)),
    group({ "clip-path": `url(#${id("round")})` },
      circle(200, 200, 200, { fill: look.sky.middle }),
      stars(look, 14, 400, 150),
      group({ transform: "translate(200 232) scale(0.93) translate(-200 -260)" }, bird(look, id))));
  return round;
}

/** The picture of a subscription (`moons`, with the number of months) or of units (`eggs`). */
export function drawSign(kind, count) {
  const sign = element("svg", { viewBox: "0 0 400 400", "aria-hidden": "true", class: "portrait" });
  const look = traits(count * 17 + 3);
  sign.append(circle(200, 200, 200, { fill: skies[count % 2 ? 0 : 2].middle }), stars(look, 16, 400, 380));
  if (kind === "moons") {
    sign.append(path("M238 86a120 120 0 1 0 76 170a96 96 0 0 1-76-170z", { fill: "#f7e3a1" }));
    const text = element("text", {
      x: 160, y: 246, fill: "#2a2350", "font-size": 96, "font-weight": 700, "text-anchor": "middle",
      "font-family": "ui-rounded, system-ui, sans-serif",
    });
    text.textContent = String(count);
    sign.append(text);
  } else {
    const places = [[150, 190, -14], [250, 190, 12], [110, 262, -8], [200, 256, 2], [290, 262, 9]];
    sign.append(
      ...places.map(([x, y, angle], index) => group({ transform: `translate(${x} ${y}) rotate(${angle})` },
        path("M0 -62C30 -62 42 -18 42 8C42 36 24 52 0 52S-42 36-42 8C-42 -18-30 -62 0 -62Z",
          { fill: plumages[(index * 3 + 1) % 8].face }),
        circle(-12, -10, 6, { fill: plumages[(index * 3 + 1) % 8].light }),
        circle(14, 12, 8, { fill: plumages[(index * 3 + 1) % 8].light }),
        circle(10, -26, 4, { fill: plumages[(index * 3 + 1) % 8].light }))),
      path("M52 288C90 350 310 350 348 288C352 344 300 378 200 378S48 344 52 288Z", { fill: "#8a6642" }),
      line("M72 318C130 356 270 356 330 316M96 344C150 368 250 368 306 344", "#b9946b", 8),
      line("M60 296C110 336 288 338 342 294", "#62462b", 6));
  }
  return sign;
}

// The night.

function stars({ random }, count, width, height) {
  return group({ fill: "#fff6d8" }, Array.from({ length: count }, () =>
    circle((random() * width).toFixed(1), (random() * height).toFixed(1), (0.8 + random() * 1.8).toFixed(1),
      { opacity: (0.45 + random() * 0.55).toFixed(2), class: random() < 0.25 ? "twinkle" : null })));
}

function night(look, id) {
  const { sky, moonX, moonY, moonPhase } = look;
  const sweep = 20 + moonPhase * 44;
  return group({},
    element("defs", {},
      element("linearGradient", { id: id("sky"), x1: 0, y1: 0, x2: 0, y2: 1 },
        element("stop", { offset: 0, "stop-color": sky.top }),
        element("stop", { offset: 0.55, "stop-color": sky.middle }),
        element("stop", { offset: 1, "stop-color": sky.low })),
      element("radialGradient", { id: id("glow") },
        element("stop", { offset: 0, "stop-color": "#fff3c9", "stop-opacity": 0.55 }),
        element("stop", { offset: 1, "stop-color": "#fff3c9", "stop-opacity": 0 })),
      element("mask", { id: id("moon") },
        circle(moonX, moonY, 34, { fill: "#fff" }),
        circle(moonX + sweep, moonY - sweep * 0.32, 32, { fill: "#000" }))),
    element("rect", { width: 400, height: 480, fill: `url(#${id("sky")})` }),
    stars(look, 64, 400, 320),
    circle(moonX, moonY, 92, { fill: `url(#${id("glow")})` }),
    circle(moonX, moonY, 34, { fill: "#fbe9b0", mask: `url(#${id("moon")})` }),
    path("M0 372C52 330 104 352 150 338C210 318 246 350 296 332C338 318 372 334 400 322V480H0Z",
      { fill: sky.top, opacity: 0.55 }),
    trees(look));
}

function trees({ sky, random }) {
  const places = [14, 44, 330, 362, 394].map((x) => x + (random() - 0.5) * 14);
  return group({ fill: sky.top, opacity: 0.92 }, places.map((x) => {
    const height = 96 + random() * 90;
    const base = 500;
    const tiers = [0, 1, 2].map((tier) => {
      const top = base - height + tier * height * 0.25;
      const half = 14 + tier * 9;
      return `M${x} ${top}L${x + half} ${top + height * 0.42}H${x - half}Z`;
    });
    return path(`${tiers.join("")}M${x - 4} ${base - 40}h8v40h-8Z`);
  }));
}

function perch({ random }) {
  const leaf = (x, y, angle) => path("M0 0C8 -14 26 -16 36 -4C26 8 8 10 0 0Z",
    { fill: "#4d7a58", transform: `translate(${x} ${y}) rotate(${angle})` });
  return group({},
    line("M-10 446C80 424 170 438 250 432S360 420 412 428", "#3d2a24", 24),
    line("M-10 442C80 420 170 434 250 428S360 416 412 424", "#664638", 8, { opacity: 0.8 }),
    line("M316 428C338 408 352 402 374 398", "#3d2a24", 9),
    leaf(360, 400, -30 + random() * 14), leaf(40, 432, 16 + random() * 14), leaf(374, 398, 12));
}

// The bird.

function bird(look, id) {
  const { plumage, tufts, tilt, width, extra } = look;
  const rim = { stroke: plumage.dark, "stroke-width": 5, "stroke-linejoin": "round" };
  return group({ class: "bird" },
    extra === "cushion" ? cushion(look) : null,
    path("M168 408L160 462C186 474 214 474 240 462L232 408Z", { fill: plumage.dark }),
    group({ transform: `translate(200 0) scale(${width.toFixed(3)} 1) translate(-200 0)` },
      path("M200 128C288 128 322 208 318 300C314 384 262 424 200 424S86 384 82 300C78 208 112 128 200 128Z",
        { fill: plumage.body, ...rim }),
      belly(look, id),
      wing(look, false), wing(look, true),
      group({ transform: `rotate(${tilt.toFixed(2)} 200 240)` },
        path(`M112 190C96 150 ${98 - tufts * 0.4} ${118 - tufts} ${100 - tufts * 0.5} ${104 - tufts}`
          + `C136 ${112 - tufts * 0.4} 168 128 186 142C150 150 128 166 112 190Z`, { fill: plumage.dark }),
        path(`M288 190C304 150 ${302 + tufts * 0.4} ${118 - tufts} ${300 + tufts * 0.5} ${104 - tufts}`
          + `C264 ${112 - tufts * 0.4} 232 128 214 142C250 150 272 166 288 190Z`, { fill: plumage.dark }),
        face(look, id),
        dress(look))),
    feet(), hold(look));
}

function belly({ plumage, pattern }, id) {
  const marks = [];
  for (let row = 0; row < 6; row += 1) {
    for (let column = -3; column <= 3; column += 1) {
      const x = 200 + column * 30 + (row % 2) * 15;
      const y = 304 + row * 23;
      if (pattern === "chevrons") marks.push(line(`M${x - 8} ${y}L${x} ${y + 8}L${x + 8} ${y}`, plumage.body, 4));
      if (pattern === "scallops") marks.push(line(`M${x - 13} ${y}A13 12 0 0 0 ${x + 13} ${y}`, plumage.body, 3.5));
      if (pattern === "dots") marks.push(ellipse(x, y + 4, 4.5, 6.5, { fill: plumage.body }));
    }
  }
  return [
    element("clipPath", { id: id("belly") }, ellipse(200, 350, 78, 76)),
    ellipse(200, 350, 78, 76, { fill: plumage.belly }),
    group({ "clip-path": `url(#${id("belly")})`, opacity: 0.6 }, marks),
  ];
}

function wing({ plumage, mood }, isRight) {
  // The shy owl hides behind a raised wing.
  const isRaised = mood === "shy" && isRight;
  const shape = isRaised
    ? "M312 330C330 280 304 226 262 224C240 236 238 262 250 284C262 314 284 334 312 330Z"
    : "M92 262C70 318 84 386 128 404C148 372 146 300 126 254C112 246 100 250 92 262Z";
  const feathers = isRaised
    ? "M268 238C266 262 276 288 298 310M252 254C256 276 262 290 280 308"
    : "M98 316C104 344 112 364 126 382M112 292C118 322 126 344 134 360";
  return group({ transform: isRight && !isRaised ? "translate(400 0) scale(-1 1)" : null },
    path(shape, { fill: plumage.dark }), line(feathers, plumage.light, 4, { opacity: 0.55 }));
}

function face(look, id) {
  const { plumage, mood } = look;
  const gaze = { curious: [7, -5], lonely: [-3, 12], shy: [-9, 5] }[mood] ?? [0, 0];
  return [
    path("M200 176C232 150 300 164 300 224C300 276 240 292 200 268C160 292 100 276 100 224C100 164 168 150 200 176Z",
      { fill: plumage.face }),
    path("M200 150C212 166 214 184 200 204C186 184 188 166 200 150Z", { fill: plumage.dark }),
    eye(look, id, 152, gaze, false), eye(look, id, 248, gaze, true),
    path("M200 238C212 238 217 248 212 258L200 278L188 258C183 248 188 238 200 238Z", { fill: "#e9a23b" }),
    path("M200 238C212 238 217 248 212 258L200 252L188 258C183 248 188 238 200 238Z", { fill: "#f6bf62" }),
    mood === "shy" || mood === "happy" || mood === "love"
      ? [ellipse(120, 256, 14, 8, { fill: "#ee8c94", opacity: 0.7 }), ellipse(280, 256, 14, 8,
        { fill: "#ee8c94", opacity: 0.7 })] : null,
    mood === "crying" ? tears() : null,
    mood === "lonely" ? [line("M124 190L172 176", plumage.dark, 7), line("M276 190L228 176", plumage.dark, 7)] : null,
    mood === "curious" ? line("M222 168C238 158 262 158 278 168", plumage.dark, 7) : null,
  ];
}

function eye({ plumage, iris, mood }, id, x, [shiftX, shiftY], isRight) {
  const y = 222;
  const isShut = mood === "asleep" || (mood === "wink" && isRight);
  if (isShut) return line(`M${x - 28} ${y}Q${x} ${y + 26} ${x + 28} ${y}`, plumage.dark, 7);
  if (mood === "happy") return line(`M${x - 28} ${y + 8}Q${x} ${y - 30} ${x + 28} ${y + 8}`, plumage.dark, 8);
  const clip = id(`eye${x}`);
  const lid = { sleepy: 0.5, crying: 0.22, lonely: 0.3 }[mood] ?? 0;
  const inside = mood === "love"
    ? path(`M${x} ${y + 24}C${x - 40} ${y - 2} ${x - 22} ${y - 32} ${x} ${y - 12}`
      + `C${x + 22} ${y - 32} ${x + 40} ${y - 2} ${x} ${y + 24}Z`, { fill: "#d94a5f" })
    : [circle(x + shiftX * 0.6, y + shiftY * 0.6, 28, { fill: iris }), circle(x + shiftX, y + shiftY, 17,
      { fill: "#1b1730" }), circle(x + shiftX + 7, y + shiftY - 8, 6, { fill: "#fff" })];
  return group({},
    element("clipPath", { id: clip }, circle(x, y, 36)),
    circle(x, y, 36, { fill: "#fffdf4", stroke: plumage.dark, "stroke-width": 5 }),
    group({ "clip-path": `url(#${clip})` }, inside,
      lid > 0 ? element("rect", { x: x - 40, y: y - 40, width: 80, height: 80 * lid, fill: plumage.light }) : null,
      element("rect", { x: x - 40, y: y - 40, width: 80, height: 80, fill: plumage.light, class: "lid" })),
    lid > 0 ? line(`M${x - 34} ${y - 40 + 80 * lid}H${x + 34}`, plumage.dark, 5) : null);
}

const tears = () => [132, 268].map((x) =>
  path(`M${x} 258C${x + 11} 276 ${x + 13} 290 ${x} 292C${x - 13} 290 ${x - 11} 276 ${x} 258Z`,
    { fill: "#8fd3f5", stroke: "#4d97bf", "stroke-width": 2, class: "tear" }));

const feet = () => [164, 236].map((x) => group({ fill: "#e9a23b" },
  [-16, 0, 16].map((offset) => ellipse(x + offset, 428, 9, 15, { stroke: "#a86a1c", "stroke-width": 2.5 }))));

// Clothes and things that owls hold.

function dress({ extra, accent }) {
  switch (extra) {
    case "nightcap":
      return [
        path("M112 168C120 96 190 62 250 78C310 94 338 140 346 196C326 168 306 154 284 150C292 160 292 168 290 176"
          + "C236 142 166 142 112 168Z", { fill: accent }),
        line("M108 170C166 138 238 138 294 176", "#fff8ea", 20),
        circle(346, 204, 17, { fill: "#fff8ea" }),
      ];
    case "glasses":
      return [circle(152, 222, 47, { fill: "none", stroke: "#2a2038", "stroke-width": 7 }),
        circle(248, 222, 47, { fill: "none", stroke: "#2a2038", "stroke-width": 7 }),
        line("M198 214Q200 210 202 214M106 214L92 206M294 214L308 206", "#2a2038", 7)];
    case "headphones":
      return [line("M96 228C84 86 316 86 304 228", "#2a2038", 15),
        element("rect", { x: 76, y: 196, width: 32, height: 68, rx: 15, fill: accent }),
        element("rect", { x: 292, y: 196, width: 32, height: 68, rx: 15, fill: accent })];
    case "scarf":
      return [
        path("M110 274C160 306 240 306 290 274C300 288 298 304 288 312"
          + "C236 338 164 338 112 312C102 304 100 288 110 274Z", { fill: accent }),
        path("M232 318L264 310L274 386L238 390Z", { fill: accent }),
        line("M138 292L132 318M170 304L166 330M204 308V334M238 304L244 328M268 292L276 316"
          + "M240 352L270 348M242 374L272 370", "#fff8ea", 5, { opacity: 0.75 })];
    case "flower":
      return group({ transform: "translate(292 142)" },
        [0, 72, 144, 216, 288].map((angle) => ellipse(0, -21, 13, 18, { fill: accent, transform: `rotate(${angle})` })),
        circle(0, 0, 11, { fill: "#fbe29a" }));
    default: return null;
  }
}

function hold({ extra, accent }) {
  switch (extra) {
    case "mug":
      return group({ transform: "translate(218 336)" },
        line("M58 18C86 14 86 52 56 50", accent, 10),
        path("M0 4H62L56 66C55 74 7 74 6 66Z", { fill: accent }), ellipse(31, 5, 31, 8, { fill: "#5a3524" }),
        line("M20 -10C12 -22 28 -28 20 -42M42 -10C34 -22 50 -28 42 -42", "#fff6e0", 4, { opacity: 0.65 }));
    case "badge":
      return group({ transform: "translate(200 340)" },
        path("M-20 -36L-6 6L6 6L20 -36Z", { fill: "#d8576b" }), circle(0, 22, 26, { fill: "#f0c04c" }),
        path("M0 4L6 16L19 18L9 27L12 40L0 34L-12 40L-9 27L-19 18L-6 16Z", { fill: "#fff4cf" }));
    default: return null;
  }
}

const cushion = ({ accent }) => group({},
  path("M58 408C50 384 76 380 110 388H290C324 380 350 384 342 408C350 440 324 446 290 440H110C76 446 50 440 58 408Z",
    { fill: accent }),
  line("M86 404C140 416 260 416 314 404", "#fff8ea", 4, { opacity: 0.6 }));
