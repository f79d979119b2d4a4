// Parses, checks and formats layouts, for people, Go and the command. The tests compare it with
// cmd/snowflake.
import { knownLayouts } from "./server.js";
import { SnowflakeError, decode, formatDuration, formatTime, layouts, quote, validate } from "./snowflake.js";

const bad = (why) => new SnowflakeError("ErrInvalidLayout", why);
const millisecond = 1_000_000n;
const maxInt64 = (1n << 63n) - 1n;

const units = {
  ns: 1n, us: 1000n, "µs": 1000n, "μs": 1000n, ms: millisecond, s: 1000n * millisecond, m: 60_000n * millisecond, h: 3_600_000n * millisecond,
};

/** Parses a tick like Go's time.ParseDuration: 10ms, 1.5s, 1h30m. */
function parseUnit(text) {
  const refused = bad(`${quote(text.slice(0, 32))} is not a tick such as 10ms`);
  const [, sign, rest] = text.match(/^([-+]?)(.*)$/s);
  if (rest === "0") return 0n;
  if (!/^((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+$/.test(rest)) throw refused;
  let nanos = 0n;
  for (const [, whole, fraction = "", unit] of rest.matchAll(/(\d*)\.?(\d*)(ns|us|µs|μs|ms|s|m|h)/g)) {
    nanos += BigInt(whole || 0) * units[unit] + (BigInt(fraction || 0) * units[unit]) / 10n ** BigInt(fraction.length);
  }
  if (nanos > maxInt64) throw refused;
  return sign === "-" ? -nanos : nanos;
}

const leap = (y) => (y % 4 === 0 && y % 100 !== 0) || y % 400 === 0;
const daysIn = (y, m) => (m === 2 ? (leap(y) ? 29 : 28) : [4, 6, 9, 11].includes(m) ? 30 : 31);

/** Parses an epoch: Unix milliseconds, or a time, in UTC if it has no zone. */
function parseEpoch(text) {
  if (/^\d{4}$/.test(text)) throw bad(`epoch ${quote(text)} is ambiguous: write the year as ${text}-01-01, or Unix milliseconds`);
  if (/^[-+]?\d+$/.test(text)) {
    const ms = BigInt(text.replace(/^\+/, ""));
    if (ms >= -maxInt64 - 1n && ms <= maxInt64) return ms;
  }
  const refused = bad(
    `cannot read the time ${quote(text.slice(0, 64))}: want one like 2026-01-31, 2026-01-31 15:04 (UTC) or 2026-01-31T15:04:05+01:00`);
  const m = text.match(/^(\d{4})-(\d\d)-(\d\d)(?:([T ])(\d\d):(\d\d)(?::(\d\d)(?:\.(\d+))?)?(Z|[-+]\d\d:\d\d)?)?$/);
  if (!m) throw refused;
  const [year, month, day, hour, minute, sec] = [1, 2, 3, 5, 6, 7].map((i) => Number(m[i] ?? 0));
  const [between, fraction, zone] = [m[4], m[8] ?? "", m[9] ?? ""];
  const valid = month >= 1 && month <= 12 && day >= 1 && day <= daysIn(year, month) && hour < 24 && minute < 60 && sec < 60;
  if (!valid || (between === " " && zone)) throw refused;
  const [, sign, zoneHours, zoneMinutes] = zone.match(/^([-+])(\d\d):(\d\d)$/) ?? [, "+", "0", "0"];
  if (Number(zoneHours) > 24 || Number(zoneMinutes) > 60) throw refused;
  if (/[1-9]/.test(fraction.slice(3, 9))) throw bad("an epoch is a whole number of milliseconds");
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, sec, Number(fraction.slice(0, 3).padEnd(3, "0")));
  const offset = (Number(zoneHours) * 60 + Number(zoneMinutes)) * 60_000;
  return BigInt(date.getTime() - (sign === "-" ? -offset : offset));
}

/** Parses the width of a field. */
function parseBits(name, text) {
  if (!/^\d+$/.test(text) || BigInt(text) > 255n) throw bad(`${quote(text.slice(0, 32))} is not a number of bits: ${name} has 0 to 63`);
  return Number(text);
}

/**
 * Returns the layout of a form's texts, or the error of a field: {layout} or {error, field}.
 */
export function read(texts) {
  const layout = { workerLast: texts.workerLast };
  const fields = [
    ["epoch", parseEpoch], ["unit", parseUnit],
    ["timeBits", (s) => parseBits("time", s)], ["clockSeqBits", (s) => parseBits("clock sequence", s)],
    ["datacenterBits", (s) => parseBits("datacenter", s)], ["workerBits", (s) => parseBits("worker", s)],
    ["sequenceBits", (s) => parseBits("sequence", s)],
  ];
  let at = "";
  try {
    for (const [field, parse] of fields) {
      at = field;
      layout[field] = parse(texts[field].trim());
    }
    at = layout.timeBits === 0 ? "timeBits" : bitsOf(layout) > 63 ? "" : "unit"; // what validate can refuse
    if (layout.unit <= 0n) at = "unit";
    validate(layout);
    return { layout };
  } catch (e) {
    if (!(e instanceof SnowflakeError)) throw e;
    return { error: e.message, field: at };
  }
}

/** Returns the texts of a layout, which read parses. */
export const texts = (l) => ({
  epoch: epochText(l.epoch), unit: formatDuration(l.unit), workerLast: l.workerLast,
  timeBits: String(l.timeBits), clockSeqBits: String(l.clockSeqBits), datacenterBits: String(l.datacenterBits),
  workerBits: String(l.workerBits), sequenceBits: String(l.sequenceBits),
});

/** Returns an epoch's text for the command: a date, if possible, RFC 3339, or Unix milliseconds. */
function epochText(ms) {
  const text = formatTime(ms * millisecond);
  if (!/^\d{4}-/.test(text)) return String(ms);
  return text.replace("T00:00:00.000Z", "").replace(".000Z", "Z");
}

const same = (a, b) => Object.keys(a).every((k) => a[k] === b[k]);

/** Returns the known layout with the same fields, or undefined. */
export const knownAs = (l) => knownLayouts.find((k) => same(k.layout, l));

/** Returns the command's arguments for the layout. */
export function flags(l) {
  const known = knownAs(l);
  if (known) return `--layout ${known.name}`;
  const widths = [l.timeBits, l.clockSeqBits, l.datacenterBits, l.workerBits, l.sequenceBits];
  if (l.datacenterBits === 0) widths.splice(2, 1);
  if (l.datacenterBits === 0 && l.clockSeqBits === 0) widths.splice(1, 1);
  return `--layout ${widths.join("/")}@${epochText(l.epoch)},${formatDuration(l.unit)}${l.workerLast ? ",worker-last" : ""}`;
}

const goUnits = [["Hour", units.h], ["Minute", units.m], ["Second", units.s], ["Millisecond", units.ms], ["Microsecond", units.us], ["Nanosecond", 1n]];

function goUnit(unit) {
  const [name, size] = goUnits.find(([, size]) => unit % size === 0n);
  return unit === size ? `time.${name}` : `${unit / size} * time.${name}`;
}

/** Returns the layout as a Go literal. */
export function goLiteral(l) {
  const bits = [["TimeBits", l.timeBits], ["ClockSeqBits", l.clockSeqBits], ["DatacenterBits", l.datacenterBits],
    ["WorkerBits", l.workerBits], ["SequenceBits", l.sequenceBits]].filter(([, n]) => n > 0);
  const lines = [["Epoch", `${l.epoch}, // ${epochText(l.epoch)}`], ["Unit", `${goUnit(l.unit)},`], ...bits.map(([name, n]) => [name, `${n},`])];
  if (l.workerLast) lines.push(["WorkerLast", "true,"]);
  const width = Math.max(...lines.map(([name]) => name.length)) + 2;
  return `snowflake.Layout{\n${lines.map(([name, v]) => `\t${(name + ":").padEnd(width)}${v}`).join("\n")}\n}`;
}

/** Returns the number of IDs a second that some bits allow, as a fraction of BigInts. */
export const rate = (l, bits) => ({ ids: 1_000_000_000n << BigInt(l.sequenceBits + bits), per: l.unit });

/** Returns the fields from high to low, without empty ones: {name, label, bits, high, low}. */
export function fields(l) {
  const worker = ["worker", "worker", l.workerBits];
  const sequence = ["sequence", "sequence", l.sequenceBits];
  const used = [["time", "time", l.timeBits], ["clockSeq", "clock sequence", l.clockSeqBits], ["datacenter", "datacenter", l.datacenterBits],
    ...(l.workerLast ? [sequence, worker] : [worker, sequence])];
  const unused = 63 - used.reduce((n, [, , bits]) => n + bits, 0);
  let bit = 63;
  return [["sign", "sign", 1], ["unused", "unused", unused], ...used].filter(([, , bits]) => bits > 0).map(([name, label, bits]) => {
    const field = { name, label, bits, high: bit, low: bit - bits + 1 };
    bit -= bits;
    return field;
  });
}

export const bitsOf = (l) => l.timeBits + l.clockSeqBits + l.datacenterBits + l.workerBits + l.sequenceBits;

/** Returns the time of the first ID of 2^53 or more, in nanoseconds, or null if there is none. */
export const passes2to53 = (l) => (bitsOf(l) <= 53 ? null : decode(l, 1n << 53n).time);
