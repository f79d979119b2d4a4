// The page. Users' input is shown as text, never as HTML.
import * as design from "./design.js";
import * as identify from "./identify.js";
import { programs } from "./programs.js";
import { knownLayouts, needsToken, serverLayout } from "./server.js";
import * as snowflake from "./snowflake.js";

const { toDate, formatTime, decode, SnowflakeError } = snowflake;
const $ = (id) => document.getElementById(id);
const now = () => BigInt(Date.now()) * 1_000_000n;
const group = (n) => n.toString().replace(/\B(?=(\d{3})+$)/g, ",");

/** Makes an element of text and other elements. */
function el(tag, properties, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (name.includes("-") || name === "role" || name === "for") e.setAttribute(name, value);
    else e[name] = value;
  }
  e.append(...children);
  return e;
}

/** Shows a text in an element, or hides the element if the text is empty. */
function say(id, text) {
  $(id).textContent = text;
  $(id).hidden = text === "";
}

// Layouts.

/** The known layouts, the server's first. */
const layouts = withServer(serverLayout);

function withServer(layout) {
  const known = design.knownAs(layout);
  const other = { name: "this server", also: [], about: "the layout of the IDs that this server issues", layout };
  return [{ ...(known ?? other), served: true }, ...knownLayouts.filter((k) => k !== known)];
}

/** Returns the name of a layout for people. */
const layoutName = ({ name, served }) => (served && name !== "this server" ? `${name} (this server)` : name);

// State.

const designFields = ["timeBits", "clockSeqBits", "datacenterBits", "workerBits", "sequenceBits"];
const initialDesign = design.texts(snowflake.layouts.default);

const state = {
  text: "", // what the user pasted
  as: "", // the form to read it in, if not the likeliest
  layout: "", // the name of the layout, "designed", or nothing for the most plausible
  selected: 0, // which of the IDs is shown
  design: { ...initialDesign },
  view: "explain", // or "designer", which has the page for itself
};

/** The maximum length of a text in the URL. */
const longestText = 6000;

/** Writes the state into the URL's fragment. */
function saveState() {
  const p = new URLSearchParams();
  const tooLong = state.text.length > longestText;
  const shown = shownID();
  if (!tooLong && state.text) p.set("id", state.text);
  if (tooLong && shown !== null) p.set("id", String(shown));
  if (state.as && !tooLong) p.set("as", state.as);
  if (state.layout) p.set("layout", state.layout);
  if (state.selected && !tooLong) p.set("n", String(state.selected + 1));
  if (state.view === "designer") p.set("view", "designer");
  const d = state.design;
  if (Object.keys(initialDesign).some((k) => d[k] !== initialDesign[k])) {
    p.set("design", designFields.map((f) => d[f]).join("/"));
    p.set("epoch", d.epoch);
    p.set("unit", d.unit);
    if (d.workerLast) p.set("last", "1");
  }
  const fragment = p.toString();
  history.replaceState(null, "", fragment ? "#" + fragment : location.pathname + location.search);
}

/** Reads the state from the URL's fragment, which may be invalid. */
function loadState() {
  const p = new URLSearchParams(location.hash.slice(1));
  const widths = (p.get("design") ?? "").split("/");
  Object.assign(state, {
    text: p.get("id") ?? "", as: p.get("as") ?? "", layout: p.get("layout") ?? "",
    selected: Math.max(0, Math.trunc(Number(p.get("n"))) - 1 || 0), design: { ...initialDesign },
    view: p.get("view") === "designer" ? "designer" : "explain",
  });
  if (state.layout !== "designed" && !layouts.some((k) => k.name === state.layout)) state.layout = "";
  if (widths.length === designFields.length) {
    designFields.forEach((f, i) => (state.design[f] = widths[i]));
    Object.assign(state.design, { epoch: p.get("epoch") ?? initialDesign.epoch, unit: p.get("unit") ?? initialDesign.unit, workerLast: p.get("last") === "1" });
  }
}

// Explaining IDs.

/** The readings of the text, and the layouts ranked for it. */
let current = { readings: [], reading: null, ranked: null };
let round = 0; // counts readings, so that a ranking of an old text ends

function shownID() {
  return current.reading?.items[state.selected]?.id ?? null;
}

/** Whether the page shows an earlier text. */
function setBusy(busy) {
  $("busy").hidden = !busy;
  $("result").setAttribute("aria-busy", String(busy));
}

const pause = () => new Promise((resume) => setTimeout(resume));

/** Reads the text, and shows the result. */
async function explain() {
  const mine = ++round;
  setBusy(true);
  if (state.text.length > longestText) await pause(); // until the page shows that it is busy
  if (mine !== round) return;
  let { readings, reason, words } = identify.read(state.text);
  if (words) ({ readings, reason } = await readByServer(words, reason));
  if (mine !== round) return;
  say("error", reason);
  $("text").setAttribute("aria-invalid", String(reason !== ""));
  if (readings.length === 0) {
    current = { readings, reading: null, ranked: null };
    $("result").hidden = true;
    setBusy(false);
    saveState();
    return;
  }
  const ranks = await Promise.all(readings.map(candidates));
  if (mine !== round) return;
  readings.forEach((r, i) => (r.ranked = ranks[i]));
  // Digits are decimal. Numbers have no layout with the same probability in every form: that is the measure.
  const none = (r) => (r.form === "decimal" ? -1 : r.ranked.none ?? 1);
  readings.sort((a, b) => none(a) - none(b));
  const reading = readings.find((r) => r.form === state.as) ?? readings[0];
  current = { readings, reading, ranked: reading.ranked };
  $("result").hidden = false;
  state.selected = Math.min(state.selected, reading.items.length - 1);
  if (reading.form === readings[0].form) state.as = "";
  showReadings();
  showErrors(reading);
  showNotes(reading);
  showLayouts();
  setBusy(false);
}

/** Returns the possible layouts of a reading's IDs: this server's if it fits, then the likeliest. */
async function candidates(reading) {
  const ranked = await rank(reading);
  const [known] = layouts;
  if (!known.served || !reading.items.every(({ id, url }) => !url && warningOf(known.layout, "", id) === "")) return ranked;
  const guess = ranked.find((m) => m.known === known) ?? { known, share: 0 };
  const { none, otherEpoch } = ranked;
  return Object.assign([guess, ...ranked.filter((m) => m !== guess)], { none, otherEpoch });
}

/** The maximum number of IDs in a request. */
const mostAsked = 2000;

/** Lets the server parse words in forms that the page does not know. If there is no answer, the page gives the reason. */
async function readByServer(words, reason) {
  try {
    const { readings } = JSON.parse(await ask("identify", { method: "POST", body: words.slice(0, mostAsked).map((w) => w.text).join("\n") }));
    return { readings: readings.map((r) => readingOf(r, words)), reason: "" };
  } catch (e) {
    return { readings: [], reason: e instanceof Refusal ? refusalOf(e.message, words) : `${reason}. The server knows more forms, but ${e.message}` };
  }
}

/** Returns a reading of the server. It skips words that are not IDs. */
function readingOf({ form, ids, skipped = [] }, words) {
  const kept = words.filter((_, i) => !skipped.some((s) => s.at === i));
  return {
    form, refused: skipped.length,
    items: ids.map((id, i) => ({ id: BigInt(id), line: kept[i].line, url: form === "URL" ? kept[i].text : undefined })),
    errors: skipped.slice(0, identify.mostErrors).map((s) => ({ line: words[s.at].line, message: plainly(s.why) })),
  };
}

/** Returns the message of a refused ID, without the words common to all. */
const plainly = (message) => message.replace(/^body: /, "").replace(/^(snowflake: )?invalid ID: /, "");

/** Returns the server's error for the words, with the line instead of the request's field. */
function refusalOf(message, words) {
  const why = plainly(message);
  const bad = words.find((w) => [w.text, w.text.slice(0, 32)].some((text) => why.includes(snowflake.quote(text))));
  return (bad ? `line ${bad.line}: ` : "") + `not an ID: ${why}`;
}

/** Asks the server for the layouts of a reading's IDs, the likeliest first. Without an answer, no layout is likelier. */
async function rank(reading) {
  const { items } = reading;
  const urls = items.every((i) => i.url);
  const ids = [...new Set(items.map((i) => (urls ? i.url : i.id)))].slice(0, mostAsked);
  try {
    const { guesses, none, otherEpoch, notes = [] } = JSON.parse(await ask("identify", { method: "POST", body: ids.join("\n") }));
    say("fit-error", "");
    reading.notes = notes;
    const ranked = guesses.map((g) => ({ ...g, known: layouts.find((k) => k.name === g.name) })).filter((g) => g.known);
    return Object.assign(ranked, { none, otherEpoch });
  } catch (e) {
    say("fit-error", `Which layouts fit is not known, because ${e.message}. Choose a layout.`);
    return layouts.map((known) => ({ known, share: 0 }));
  }
}

/** Redraws the controls in a box. If one has the focus, the new control with its value gets the focus. */
function redraw(box, children) {
  const value = box.contains(document.activeElement) ? document.activeElement.value : null;
  box.replaceChildren(...children);
  if (value !== null) [...box.querySelectorAll("button, input")].find((e) => e.value === value)?.focus();
}

const formNames = { log: "IDs in a log" };

function showReadings() {
  const { readings, reading } = current;
  if (readings.length === 1) { // there is nothing to choose
    $("reading-list").replaceChildren(formNames[reading.form] ?? reading.form);
    return;
  }
  redraw($("reading-list"), readings.map((r) =>
    el("label", { className: "check" },
      el("input", { type: "radio", name: "reading", value: r.form, checked: r === reading }), formNames[r.form] ?? r.form)));
}

function showErrors({ errors, refused }) {
  const lines = errors.map((e) => el("li", {}, `line ${e.line}: not an ID: ${e.message}`));
  if (refused > errors.length) lines.push(el("li", {}, `and ${group(refused - errors.length)} more lines that are no IDs`));
  $("errors").replaceChildren(...lines);
  $("errors").hidden = lines.length === 0;
}

/** Shows the server's remarks on all IDs together, such as that they are a mixture. */
function showNotes({ notes = [] }) {
  $("notes").replaceChildren(...notes.map((note) => el("li", {}, `${note[0].toUpperCase()}${note.slice(1)}.`)));
  $("notes").hidden = notes.length === 0;
}

/** Returns the chosen layout: {layout, name, error}. */
function chosenLayout() {
  if (state.layout === "designed") {
    const { layout, error } = design.read(state.design);
    return { layout, name: "the designed layout", error };
  }
  const known = layouts.find((k) => k.name === state.layout) ?? current.ranked[0].known;
  return { layout: known.layout, name: layoutName(known) };
}

/** Shows all that depends on the layout. */
function showLayouts() {
  if (!current.ranked) return;
  const { layout, name, error } = chosenLayout();
  $("layout").value = state.layout;
  $("layout").options[0].textContent = `most plausible: ${layoutName(current.ranked[0].known)}`;
  showFits();
  $("one").hidden = $("many").hidden = Boolean(error);
  if (error) {
    say("warning", `The designed layout is invalid: ${error}`);
    return;
  }
  const { items } = current.reading;
  $("many").hidden = items.length < 2;
  if (items.length > 1) showMany(layout);
  showOne(layout, name);
  saveState();
}

/** Returns objections to an ID's layout, or nothing. */
function warningOf(layout, name, id) {
  try {
    snowflake.check(layout, id);
  } catch (e) {
    if (e instanceof SnowflakeError) return `Not an ID of ${name}: ${e.message}`;
    throw e;
  }
  if (decode(layout, id).time > now() + identify.tolerance) return `Its time lies in the future: it is probably not an ID of ${name}.`;
  return "";
}

function showOne(layout, name) {
  const id = shownID();
  const parts = decode(layout, id);
  say("warning", warningOf(layout, name, id));
  $("one-title").replaceChildren(el("span", { className: "mono" }, String(id)), ` as ${name}`);
  showLikely(id);
  const fields = design.fields(layout);
  const bits = id.toString(2).padStart(64, "0");
  drawBits($("bits"), fields, (bit) => bits[63 - bit]);
  $("bits").setAttribute("aria-label", "Bits, " + fields.map((f) => `${f.label}: ${bits.slice(63 - f.high, 64 - f.low)}`).join(", "));
  $("fields").replaceChildren(...fields.filter((f) => f.name in parts).map((f) => fieldRow(f, parts)));
  $("glossary").replaceChildren(...fields.filter((f) => f.name in glossary).flatMap((f) => [el("dt", {}, f.label), el("dd", {}, glossary[f.name])]));
  $("forms").replaceChildren(...[["decimal", String(id)], ["base 32", snowflake.base32(id)], ["base 58", snowflake.base58(id)], ["base 62", snowflake.base62(id)]]
    .map(([form, text]) => el("tr", {}, el("th", { scope: "row" }, form), el("td", { className: "mono" }, text),
      el("td", {}, copyButton(text, `Copy ${form}`)))));
  const rounded = BigInt(Number(id));
  $("rounded").textContent = id <= 1n << 53n
    ? "Within 2^53: JavaScript’s Numbers hold this ID."
    : `Over 2^53: JavaScript’s Numbers round such IDs${rounded === id ? "" : `, this one to ${rounded}`}. Send IDs as strings.`;
}

/** Shows the likeliest layouts, in a sentence and as buttons. */
function showLikely(id) {
  const likely = current.ranked.filter((m) => !m.not && (m.share >= least || m.known.served)).slice(0, mostFits);
  const said = likely.slice(0, 2).map((m) => `${layoutName(m.known)}, ${yearOf(decode(m.known.layout, id).time)}`);
  const sure = likely[0]?.known.served ? "It fits " : likely[0]?.likely ? "Probably " : "Perhaps ";
  say("likely", said.length === 0 ? "" : sure + said.join("; or ") + ".");
  const chosen = chosenLayout().layout;
  redraw($("chips"), likely.map((m) => el("button",
    { type: "button", className: "chip", value: m.known.name, "aria-pressed": String(m.known.layout === chosen), title: m.known.about },
    layoutName(m.known), ...(m.known.served ? [] : [" ", el("span", { className: "quiet" }, wordOf(m))]))));
}

const isAlone = () => current.reading.items.length === 1;

/** Returns a layout's probability: for a single ID a word, because a percentage would look exact. */
const wordOf = ({ likely, share }) => (likely ? "likely" : isAlone() ? "possible" : percentOf(share));

const yearOf = (time) => formatTime(time).split("-")[0];
const percentOf = (share) => (share > 0.995 ? ">99%" : `${Math.round(100 * share)}%`);

/** The meanings of the fields, for tooltips and the list below the fields. */
const glossary = {
  time: "when the ID was made, in ticks since the layout’s epoch; a tick is the layout’s unit of time, such as a millisecond",
  clockSeq: "changes when a clock has gone back, so that no ID comes twice",
  datacenter: "in which datacenter the ID was made",
  worker: "which process made the ID; no two processes have the same number at a time",
  sequence: "tells apart the IDs that one worker makes within a tick",
};

const where = (f) => (f.bits === 1 ? `bit ${f.low}` : `bits ${f.high}–${f.low}`);
const nameOf = (f) => el("span", { className: `name ${f.name}`, title: glossary[f.name] ?? "" }, f.label);

function fieldRow(f, parts) {
  const value = el("td", { className: "value" });
  if (f.name === "time") {
    value.append(el("strong", { id: "human" }, humanTime(parts.time)), el("small", { id: "ago" }, relative(parts.time - now())),
      el("small", { id: "utc", className: "mono" }, formatTime(parts.time)), el("small", { id: "local" }, localTime(parts.time)));
  } else {
    value.append(String(parts[f.name]), " ", el("small", { className: "room" }, `of 0 to ${group((1n << BigInt(f.bits)) - 1n)}`));
  }
  return el("tr", {}, el("th", { scope: "row" }, nameOf(f)), el("td", { className: "where" }, where(f)), value);
}

/** Fills a grid with the 64 bits, each in the color of its field. */
function drawBits(grid, fields, text) {
  grid.replaceChildren(...fields.flatMap((f) =>
    Array.from({ length: f.bits }, (_, i) => {
      const bit = f.high - i;
      const cell = el("span", { className: f.name }, text(bit, f));
      if (bit === f.high) cell.classList.add("first");
      if (bit === f.low) cell.classList.add("last");
      if (bit % 8 === 7) cell.dataset.bit = bit;
      return cell;
    })));
}

/** Formats a time for people, in the zone and the language of the browser. */
function humanTime(time) {
  const date = toDate(time);
  if (Number.isNaN(date.getTime())) return formatTime(time);
  return new Intl.DateTimeFormat(undefined, { dateStyle: "full", timeStyle: "medium" }).format(date);
}

/** Formats a time in the zone of the browser. */
function localTime(time) {
  const date = toDate(time);
  if (Number.isNaN(date.getTime())) return "beyond the years that a Date has";
  const pad = (n, width = 2) => String(n).padStart(width, "0");
  const offset = -date.getTimezoneOffset();
  const zone = `${offset < 0 ? "-" : "+"}${pad(Math.trunc(Math.abs(offset) / 60))}:${pad(Math.abs(offset) % 60)}`;
  const day = `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())}`;
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map((n) => pad(n)).join(":");
  return `${day} ${clock}.${pad(date.getMilliseconds(), 3)} ${zone}, your time (${Intl.DateTimeFormat().resolvedOptions().timeZone})`;
}

/** Units of time: the name, the unit in seconds, and the minimum in seconds for its use. */
const spans = [["year", 31_557_600, 31_557_600], ["day", 86_400, 172_800], ["hour", 3600, 7200], ["minute", 60, 120], ["second", 1, 1]];

/** Formats the distance of a time from now. */
function relative(nanos) {
  const seconds = Math.abs(Number(nanos / 1_000_000n)) / 1000;
  if (seconds < 1) return "now";
  const [noun, size] = spans.find(([, , from]) => seconds >= from);
  const n = noun === "year" ? (seconds / size).toFixed(1) : Math.floor(seconds / size);
  const text = `${noun === "year" && seconds / size >= 1000 ? group(BigInt(Math.floor(seconds / size))) : n} ${noun}${String(n) === "1" ? "" : "s"}`;
  return nanos < 0n ? `${text} ago` : `in ${text}`;
}

// Many IDs.

/** The number of rows drawn at first, and added on request. */
const fewRows = 50;
const moreRows = 500;
let rowsDrawn = 0;

function showMany(layout) {
  const { items } = current.reading;
  const ids = items.map((i) => i.id);
  const distinct = new Set(ids).size;
  const low = ids.reduce((a, b) => (b < a ? b : a));
  const high = ids.reduce((a, b) => (b > a ? b : a));
  const mask = (1n << BigInt(layout.clockSeqBits + layout.datacenterBits + layout.workerBits + layout.sequenceBits)) - 1n;
  const sequence = ((1n << BigInt(layout.sequenceBits)) - 1n) << BigInt(layout.workerLast ? layout.workerBits : 0);
  const facts = [
    ["IDs", group(ids.length) + (distinct < ids.length ? `, of which ${group(distinct)} are distinct` : ", all distinct")],
    ["first", formatTime(decode(layout, low).time)],
    ["last", formatTime(decode(layout, high).time)],
  ];
  if (mask !== sequence) facts.push(["generators", group(new Set(ids.map((id) => id & mask & ~sequence)).size)]);
  setFacts("summary", facts);
  const fields = design.fields(layout).filter((f) => f.name !== "sign" && f.name !== "unused" && f.name !== "time");
  $("rows").tHead.replaceChildren(el("tr", {}, ...["line", "ID", "time (UTC)", ...fields.map((f) => f.label)].map((h) => el("th", { scope: "col" }, h))));
  $("rows").tBodies[0].replaceChildren();
  rowsDrawn = 0;
  drawRows(layout, fields, fewRows);
  $("more").onclick = () => {
    const at = rowsDrawn;
    drawRows(layout, fields, moreRows);
    $("rows").tBodies[0].rows[at].querySelector("button").focus({ preventScroll: true });
  };
  if (state.selected >= rowsDrawn) drawRows(layout, fields, state.selected + 1 - rowsDrawn);
}

function drawRows(layout, fields, n) {
  const { items } = current.reading;
  const rows = items.slice(rowsDrawn, rowsDrawn + n).map(({ id, line }, i) => {
    const parts = decode(layout, id);
    const at = rowsDrawn + i;
    const button = el("button", { type: "button", "data-row": at }, String(id));
    const row = el("tr", {}, el("td", { "data-label": "line" }, String(line)), el("td", {}, button), el("td", {}, formatTime(parts.time)),
      ...fields.map((f) => el("td", { "data-label": f.label }, String(parts[f.name]))));
    if (at === state.selected) row.setAttribute("aria-current", "true");
    return row;
  });
  $("rows").tBodies[0].append(...rows);
  rowsDrawn += rows.length;
  const left = items.length - rowsDrawn;
  $("more").hidden = left === 0;
  $("more").textContent = `Show ${group(Math.min(left, moreRows))} more of ${group(left)}`;
}

function selectRow(at) {
  state.selected = at;
  for (const row of $("rows").tBodies[0].rows) {
    if (row.rowIndex - 1 === at) row.setAttribute("aria-current", "true");
    else row.removeAttribute("aria-current");
  }
  const { layout, name } = chosenLayout();
  showOne(layout, name);
  saveState();
  $("one").scrollIntoView({ block: "nearest" });
}

// Layouts that fit.

const mostFits = 5;
const least = 0.01; // the share of a layout that is worth a word

function showFits() {
  const likely = current.ranked.filter((m) => m.share >= least).slice(0, mostFits);
  const { none = 0, otherEpoch = 0 } = current.ranked;
  const epoch = otherEpoch >= least ? ["Many systems have one of these shapes with an epoch of their own."] : [];
  const other = none > 0.5 ? ["Probably of no known layout: of another one, a random number, or no ID."] : [];
  say("fit-note", [...other, ...epoch].join(" "));
  $("fits").replaceChildren(...likely.map(fit));
  const reasons = new Map([["The time would be too early", []], ["The time would lie in the future", []], ["It has more bits", []]]);
  for (const { known: { name }, not = "" } of current.ranked) {
    if (not.includes("before there were")) reasons.get("The time would be too early").push(name);
    else if (not.includes("future")) reasons.get("The time would lie in the future").push(name);
    else if (not) reasons.get("It has more bits").push(name);
  }
  const said = [...reasons].filter(([, names]) => names.length > 0);
  $("nots").replaceChildren(...said.flatMap(([why, names]) => [el("dt", {}, why), el("dd", {}, names.join(", "))]));
  $("ruled-out").hidden = said.length === 0;
}

function fit(match) {
  const { known, share, why } = match;
  const meter = isAlone() ? "" : el("meter", { value: share, "aria-label": `how likely ${known.name} is` });
  return el("li", {},
    el("div", {}, el("span", { className: "share" }, wordOf(match)), meter),
    el("div", {}, el("strong", {}, layoutName(known)), known.also.length ? el("span", { className: "quiet" }, ` also ${known.also.join(", ")}`) : "",
      el("p", {}, known.about), el("p", { className: "quiet" }, (why ?? []).join("; "))));
}

function useLayout(name) {
  state.layout = name;
  showLayouts();
  saveState();
}

// Copying.

function copyButton(text, label) {
  const button = el("button", { type: "button", "aria-label": label }, "Copy");
  button.addEventListener("click", () => copy(text, button));
  return button;
}

async function copy(text, button) {
  const before = button.dataset.label ?? button.textContent;
  button.dataset.label = before;
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copyOld(text);
  }
  button.textContent = done ? "Copied" : "Not copied";
  $("copied").textContent = done ? "Copied." : "The browser did not let the page copy.";
  setTimeout(() => {
    button.textContent = before;
    $("copied").textContent = "";
  }, 1500);
}

/** Copies without navigator.clipboard, which pages on plain HTTP do not have. */
function copyOld(text) {
  const area = el("textarea", { value: text, className: "hidden" });
  const focused = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  focused?.focus();
  return done;
}

// IDs issued live.

const mostIssued = 50;
const interval = 2000;
let issuedCount = 0;
let issuing = false;

async function issue() {
  if (issuing) return;
  issuing = true;
  try {
    const ids = await fetchIDs();
    issuedCount += ids.length;
    say("live-error", "");
    $("live-status").textContent = `${group(issuedCount)} IDs issued. Choose one to see what it says.`;
    $("issued").prepend(...ids.map((id) => el("li", {}, el("button", { type: "button", "data-id": id }, id))));
    while ($("issued").children.length > mostIssued) $("issued").lastChild.remove();
  } catch (e) {
    say("live-error", `No IDs: ${e.message}`);
    $("keep").checked = false;
  } finally {
    issuing = false;
  }
}

/** An error of the server, which refused the request. */
class Refusal extends Error {}

/** Returns the text of the server's answer in JSON. */
async function ask(path, options) {
  if (needsToken) throw new Error("this server asks for a token, and this page has none");
  let answer, text;
  try {
    answer = await fetch(path, { headers: { Accept: "application/json" }, cache: "no-store", signal: AbortSignal.timeout(10_000), ...options });
    text = await answer.text();
  } catch (e) {
    throw new Error(e.name === "TimeoutError" ? "the server has not answered for 10 seconds" : "the server does not answer: it is down, or the network is");
  }
  if (answer.status === 401) throw new Error("the server asks for a token, and this page has none");
  if (answer.status === 400) throw new Refusal(messageOf(text));
  if (!answer.ok) throw new Error(`the server answered ${answer.status} ${answer.statusText}: ${messageOf(text)}`);
  return text;
}

/** Returns the message of an error. */
function messageOf(text) {
  try {
    return String(JSON.parse(text).message ?? text);
  } catch {
    return text.trim().slice(0, 200);
  }
}

async function fetchIDs() {
  const text = await ask("ids?n=10");
  let ids;
  try {
    ids = JSON.parse(text).ids.map((id) => String(snowflake.parse(id)));
  } catch (e) {
    throw new Error(`the server answered ${snowflake.quote(text.slice(0, 80))}: ${e.message}`);
  }
  return ids;
}

/** Shows how programs get an ID from this server. */
function showPrograms() {
  const texts = programs(new URL("id", location.origin + location.pathname).href, needsToken);
  for (const [name, text] of Object.entries(texts)) $(`with-${name}`).textContent = text;
}

function startLive() {
  showPrograms();
  if (needsToken) {
    $("issue").disabled = $("keep").disabled = true;
    $("live-status").textContent = "This server asks for a token, and this page has none. A program sends its own, as below.";
    return;
  }
  $("issue").addEventListener("click", issue);
  $("keep").addEventListener("change", () => $("keep").checked && issue());
  setInterval(() => $("keep").checked && !document.hidden && issue(), interval);
}

// The designer.

function showDesign() {
  const { layout, error, field } = design.read(state.design);
  say("design-error", error ? `invalid layout: ${error}` : "");
  for (const f of [...designFields, "unit", "epoch"]) {
    const bad = f === field || (error && field === "" && designFields.includes(f));
    $(f).setAttribute("aria-invalid", String(Boolean(bad)));
  }
  $("design-result").hidden = Boolean(error);
  $("start").value = (layout && design.knownAs(layout)?.name) || "";
  if (layout) drawDesign(layout);
}

const letters = { sign: "0", unused: "·", time: "t", clockSeq: "c", datacenter: "d", worker: "w", sequence: "s" };

function drawDesign(l) {
  const fields = design.fields(l);
  drawBits($("design-bits"), fields, (_, f) => letters[f.name]);
  $("design-bits").setAttribute("aria-label", "Bits, " + fields.map((f) => `${f.label}: ${f.bits}`).join(", "));
  $("design-legend").replaceChildren(...fields.filter((f) => f.name !== "sign").map((f) => el("li", {}, el("span", { className: `name ${f.name}` }, `${f.label} ${f.bits}`))));
  setFacts("facts", designFacts(l));
  $("literal").textContent = design.goLiteral(l);
  $("spelling").textContent = `snowflake new ${design.flags(l)}`;
}

function designFacts(l) {
  const values = (bits) => group(1n << BigInt(bits));
  const facts = [];
  if (l.clockSeqBits > 0) facts.push(["clock sequences", values(l.clockSeqBits)]);
  if (l.datacenterBits > 0) facts.push(["datacenters", values(l.datacenterBits)]);
  const each = l.datacenterBits > 0 ? ` in each datacenter, ${values(l.datacenterBits + l.workerBits)} in all` : "";
  facts.push(["workers", values(l.workerBits) + each]);
  facts.push(["IDs a second", `${rateText(l, 0)} for one worker, ${rateText(l, l.datacenterBits + l.workerBits)} in all`]);
  facts.push(["counts from", formatTime(l.epoch * 1_000_000n)]);
  const end = snowflake.expires(l);
  facts.push(["runs out", `${formatTime(end)}, ${relative(end - now())}`, end <= now() ? "which is past: no more IDs can be issued" : ""]);
  const passes = design.passes2to53(l);
  facts.push(["within 2^53", passes === null ? "yes" : "no", passes === null
    ? `${design.bitsOf(l)} bits: JavaScript’s Numbers hold each ID`
    : `${design.bitsOf(l)} bits: JavaScript’s Numbers round IDs from ${formatTime(passes)} on`]);
  return facts;
}

/** Formats a number of IDs a second, as a whole number or with 4 digits. */
function rateText(l, bits) {
  const { ids, per } = design.rate(l, bits);
  if (ids % per === 0n && ids / per < 10n ** 15n) return group(ids / per);
  const n = Number(ids) / Number(per);
  if (n >= 1e15 || n < 0.001) return n.toExponential(3).replace(/e\+?(-?\d+)/, " × 10^$1");
  return n >= 1000 ? group(BigInt(Math.floor(n))) : String(Number(n.toPrecision(4)));
}

function setFacts(id, facts) {
  $(id).replaceChildren(...facts.flatMap(([name, value, note]) => {
    const dd = el("dd", {}, value);
    if (value === "yes" || value === "no") dd.replaceChildren(el("strong", { className: value === "yes" ? "good" : "bad" }, value));
    if (note) dd.append(value === "yes" || value === "no" ? `; ${note}` : "; ", value === "yes" || value === "no" ? "" : el("strong", { className: "bad" }, note));
    return [el("dt", {}, name), dd];
  }));
}

/** Puts the state into the form. */
function fillDesign() {
  for (const [name, value] of Object.entries(state.design)) {
    if (name === "workerLast") $(name).checked = value;
    else $(name).value = value;
  }
}

function designChanged() {
  for (const name of Object.keys(state.design)) state.design[name] = name === "workerLast" ? $(name).checked : $(name).value;
  showDesign();
  if (state.layout === "designed") showLayouts();
  saveState();
}

// Start.

/** Shows either the designer or everything else. */
function showView() {
  $("designer").hidden = state.view !== "designer";
  $("explain").hidden = $("live").hidden = state.view === "designer";
  for (const button of document.querySelectorAll("[data-goto]")) {
    if (button.dataset.goto === state.view) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

/** Makes the ID that a worker of this layout would make now. Nobody gets it. */
function showSample() {
  const { layout } = layouts[0];
  const parts = { clockSeq: 0n, datacenter: 0n, worker: BigInt(Math.min(7, 2 ** layout.workerBits - 1)), sequence: 0n, time: now() };
  try {
    const id = String(snowflake.encode(layout, parts));
    $("sample-worker").textContent = String(parts.worker);
    $("sample").textContent = $("sample").dataset.id = id;
  } catch (e) {
    if (!(e instanceof SnowflakeError)) throw e;
    $("sample-line").hidden = true; // the layout has not begun or has ended
  }
}

const examples = {
  id: { text: "117469438034341930" },
  tweet: { text: "1541815603606036480", layout: "twitter" },
  text: { text: snowflake.base62(117469438034341930n) },
  log: { text: [
    "2026-11-21T03:41:36.511Z INFO order placed id=117469438034341930 took=12ms",
    '{"time":"2026-11-21T03:41:36.9Z","msg":"paid","order":"117469438034341930","payment":"117469439577829377"}',
    "2026-11-21T03:41:38.024Z INFO order placed id=117469444397105152 took=9ms",
  ].join("\n") },
};

function setText(text) {
  Object.assign(state, { text, as: "", selected: 0 });
  $("text").value = text;
  return explain();
}

function option(value, text) {
  return el("option", { value }, text);
}

function load() {
  loadState();
  $("text").value = state.text;
  fillDesign();
  showDesign();
  showView();
  explain();
}

function listen() {
  let timer = 0;
  $("text").addEventListener("input", () => {
    clearTimeout(timer);
    setBusy(true);
    timer = setTimeout(() => {
      Object.assign(state, { text: $("text").value, as: "", selected: 0 });
      explain();
    }, $("text").value.length > longestText ? 300 : 0);
  });
  $("examples").addEventListener("click", (e) => {
    const example = examples[e.target.dataset.example];
    if (!example) return;
    state.layout = example.layout ?? "";
    setText(example.text);
  });
  $("sample").addEventListener("click", () => {
    state.layout = "";
    setText($("sample").dataset.id);
  });
  $("clear").addEventListener("click", () => {
    state.layout = "";
    setText("");
    $("text").focus();
  });
  $("link").addEventListener("click", (e) => copy(location.href, e.target));
  $("reading-list").addEventListener("change", (e) => {
    Object.assign(state, { as: e.target.value, selected: 0 });
    explain();
  });
  $("layout").addEventListener("change", () => useLayout($("layout").value));
  $("chips").addEventListener("click", (e) => {
    const name = e.target.closest("button")?.value;
    if (name) useLayout(name);
  });
  $("rows").addEventListener("click", (e) => e.target.dataset.row && selectRow(Number(e.target.dataset.row)));
  $("issued").addEventListener("click", (e) => {
    if (!e.target.dataset.id) return;
    setText(e.target.dataset.id);
    $("explain").scrollIntoView();
  });
  $("design").addEventListener("input", (e) => e.target.id !== "start" && designChanged());
  $("design").addEventListener("submit", (e) => e.preventDefault());
  $("start").addEventListener("change", () => {
    const known = layouts.find((k) => k.name === $("start").value);
    if (!known) return;
    state.design = design.texts(known.layout);
    fillDesign();
    designChanged();
  });
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", () => copy($(button.dataset.copy).textContent, button));
  }
  for (const button of document.querySelectorAll("[data-goto]")) {
    button.addEventListener("click", () => {
      state.view = button.dataset.goto === "designer" ? "designer" : "explain";
      showView();
      saveState();
      $(button.dataset.goto).focus({ preventScroll: true });
      $(button.dataset.goto).scrollIntoView();
    });
  }
  const showTheme = () => ($("theme").textContent = `Theme: ${theme.current()}`);
  $("theme").addEventListener("click", () => {
    theme.next();
    showTheme();
  });
  showTheme();
  window.addEventListener("hashchange", load);
  setInterval(() => {
    if (!document.hidden) showSample();
    const id = shownID();
    if (id === null || !current.ranked || $("one").hidden || document.hidden) return;
    $("ago").textContent = relative(decode(chosenLayout().layout, id).time - now());
  }, 1000);
}

const names = () => layouts.map((k) => option(k.name, layoutName(k)));
$("layout").append(option("", "most plausible"), ...names(), option("designed", "the designed layout"));
$("start").append(option("", "your own"), ...names());
listen();
startLive();
showSample();
load();
