// IDs of github.com/seed-5394e6b1/snowflake in JavaScript: reads, writes and takes
// apart what the Go library issues, for any layout. It does not issue IDs.
//
// Every number is a BigInt: JavaScript's Numbers round integers above 2^53.
// Times are nanoseconds since 1970; see fromDate and toDate.

/**
 * How the 63 bits of an ID are shared. From high to low: time, clock sequence,
 * datacenter, worker, sequence; with workerLast the worker is lowest.
 * @typedef {object} Layout
 * @property {bigint} epoch where the time field is 0, in milliseconds since 1970
 * @property {bigint} unit what the time field counts, in nanoseconds
 * @property {number} timeBits 1 to 63
 * @property {number} clockSeqBits
 * @property {number} datacenterBits
 * @property {number} workerBits
 * @property {number} sequenceBits
 * @property {boolean} workerLast
 */

/**
 * An ID taken apart. Fields that the layout does not have are 0n.
 * @typedef {object} Parts
 * @property {bigint} time the start of the tick, in nanoseconds since 1970
 * @property {bigint} clockSeq
 * @property {bigint} datacenter
 * @property {bigint} worker
 * @property {bigint} sequence
 */

/**
 * Which rule a value broke; the names are those of the Go library's errors.
 * @typedef {"ErrInvalidID" | "ErrInvalidLayout" | "ErrInvalidRange" | "ErrBeforeEpoch" | "ErrTimeExhausted" | "ErrFieldRange"} Code
 */

/** What every function of this module throws. */
export class SnowflakeError extends Error {
  /**
   * @param {Code} code
   * @param {string} message
   */
  constructor(code, message) {
    super(message);
    this.name = "SnowflakeError";
    /** @type {Code} */
    this.code = code;
  }
}

const millisecond = 1_000_000n;
const second = 1_000_000_000n;
const maxID = (1n << 63n) - 1n;

/**
 * @param {Partial<Layout>} fields
 * @returns {Readonly<Layout>}
 */
const preset = (fields) =>
  Object.freeze({
    epoch: 0n, unit: millisecond, timeBits: 41, clockSeqBits: 0, datacenterBits: 0,
    workerBits: 0, sequenceBits: 12, workerLast: false, ...fields,
  });

const defaultEpoch = 1767225600000n; // 2026-01-01
const twitterEpoch = 1288834974657n;
const sonyflake = { unit: 10n * millisecond, timeBits: 39, workerBits: 16, sequenceBits: 8, workerLast: true };

/** The layouts of the Go library, by the names of its command line. */
export const layouts = Object.freeze({
  default: preset({ epoch: defaultEpoch, workerBits: 10 }),
  clockseq: preset({ epoch: defaultEpoch, clockSeqBits: 3, workerBits: 7 }),
  jssafe: preset({ epoch: defaultEpoch, unit: second, timeBits: 33, workerBits: 4, sequenceBits: 15 }),
  twitter: preset({ epoch: twitterEpoch, datacenterBits: 5, workerBits: 5 }),
  bwmarrin: preset({ epoch: twitterEpoch, workerBits: 10 }),
  discord: preset({ epoch: 1420070400000n, datacenterBits: 5, workerBits: 5 }),
  instagram: preset({ epoch: 1314220021721n, timeBits: 40, workerBits: 13, sequenceBits: 10 }),
  sonyflake: preset({ epoch: 1409529600000n, ...sonyflake }),
  "sonyflake-v2": preset({ epoch: 1735689600000n, ...sonyflake }),
  baidu: preset({ epoch: 1463673600000n, unit: second, timeBits: 28, workerBits: 22, sequenceBits: 13 }),
  redis: preset({ workerBits: 12, sequenceBits: 10 }),
});

// Text forms.

const digits32 = "0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const digits58 = "123456789abcdefghijkmnopqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ";
const digits62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/**
 * @param {string} form
 * @param {string} text
 * @param {string} why
 * @returns {SnowflakeError}
 */
function parseError(form, text, why) {
  const shown = text.length > 32 ? text.slice(0, 32) + "..." : text;
  return new SnowflakeError("ErrInvalidID", `${form} ${JSON.stringify(shown)}: ${why}`);
}

/**
 * @param {string} form
 * @param {unknown} text
 * @returns {string}
 */
function mustBeText(form, text) {
  if (typeof text === "string") return text;
  throw parseError(form, String(text), `it is a ${typeof text}, not a string; a Number may have lost digits`);
}

/**
 * Reads an ID in decimal, as the Go library writes it in JSON: digits and nothing else,
 * without leading zeros, at most 9223372036854775807.
 * @param {string} text
 * @returns {bigint}
 */
export function parse(text) {
  const s = mustBeText("decimal", text);
  if (!/^(0|[1-9][0-9]{0,18})$/.test(s)) {
    throw parseError("decimal", s, "it is not 1 to 19 digits without a leading zero");
  }
  return inRange("decimal", s, BigInt(s));
}

/**
 * @param {string} form
 * @param {string} text
 * @param {bigint} id
 */
function inRange(form, text, id) {
  if (id > maxID) throw parseError(form, text, "it is over 9223372036854775807");
  return id;
}

/**
 * @param {bigint} id
 * @param {string} digits
 * @param {number} width the text is filled up to this with zeros
 */
function write(id, digits, width) {
  mustBeID(id);
  const base = BigInt(digits.length);
  let text = "";
  do {
    text = digits[Number(id % base)] + text;
    id /= base;
  } while (id > 0n);
  return text.padStart(width, digits[0]);
}

/**
 * @param {string} form
 * @param {unknown} text
 * @param {string} digits
 * @param {number} width 0: 1 to 11 characters without leading zeros
 */
function read(form, text, digits, width) {
  const s = mustBeText(form, text);
  if (width > 0 ? s.length !== width : s.length < 1 || s.length > 11) {
    throw parseError(form, s, `it is not ${width || "1 to 11"} characters`);
  }
  if (width === 0 && s.length > 1 && s[0] === digits[0]) throw parseError(form, s, "it has a leading zero");
  let id = 0n;
  for (const c of s) {
    const d = digits.indexOf(c);
    if (d < 0) throw parseError(form, s, "it has a character outside of the alphabet");
    id = id * BigInt(digits.length) + BigInt(d);
  }
  return inRange(form, s, id);
}

/** Crockford's base 32, 13 characters. @param {bigint} id @returns {string} */
export const base32 = (id) => write(id, digits32, 13);
/** Reads what base32 wrote. @param {string} text @returns {bigint} */
export const parseBase32 = (text) => read("base 32", text, digits32, 13);
/** Base 58 with the alphabet of bwmarrin/snowflake, 1 to 11 characters. @param {bigint} id @returns {string} */
export const base58 = (id) => write(id, digits58, 1);
/** Reads what base58 wrote. @param {string} text @returns {bigint} */
export const parseBase58 = (text) => read("base 58", text, digits58, 0);
/** Base 62, 11 characters. @param {bigint} id @returns {string} */
export const base62 = (id) => write(id, digits62, 11);
/** Reads what base62 wrote. @param {string} text @returns {bigint} */
export const parseBase62 = (text) => read("base 62", text, digits62, 11);

// Layouts.

/** @param {Layout} l */
const sequenceShift = (l) => (l.workerLast ? l.workerBits : 0);
/** @param {Layout} l */
const workerShift = (l) => (l.workerLast ? 0 : l.sequenceBits);
/** @param {Layout} l */
const datacenterShift = (l) => l.workerBits + l.sequenceBits;
/** @param {Layout} l */
const clockSeqShift = (l) => datacenterShift(l) + l.datacenterBits;
/** @param {Layout} l */
const timeShift = (l) => clockSeqShift(l) + l.clockSeqBits;
/** @param {Layout} l */
const bitsOf = (l) => timeShift(l) + l.timeBits;
/** The largest value of some bits. @param {number} bits */
const lowBits = (bits) => (1n << BigInt(bits)) - 1n;

/** @param {Layout} l */
const epochOf = (l) => l.epoch * millisecond;

/**
 * Throws if IDs of this layout could not be issued and read back.
 * @param {Layout} l
 */
export function validate(l) {
  /** @param {string} why */
  const bad = (why) => new SnowflakeError("ErrInvalidLayout", why);
  if (typeof l.epoch !== "bigint" || typeof l.unit !== "bigint") throw bad("epoch and unit must be BigInts");
  const { timeBits, clockSeqBits, datacenterBits, workerBits, sequenceBits } = l;
  for (const [name, bits] of Object.entries({ timeBits, clockSeqBits, datacenterBits, workerBits, sequenceBits })) {
    if (!Number.isInteger(bits) || bits < 0 || bits > 255) throw bad(`${name} is ${bits}`);
  }
  if (l.unit <= 0n) throw bad(`unit ${l.unit}ns is not positive`);
  if (timeBits === 0) throw bad("no time bits");
  if (bitsOf(l) > 63) throw bad(`${bitsOf(l)} bits in all, an ID has 63`);
  if (((1n << BigInt(timeBits)) * l.unit) / second > 1n << 60n) {
    throw bad(`${timeBits} bits of ${l.unit}ns last longer than 36 billion years`);
  }
}

/**
 * The first instant that the layout can no longer stamp.
 * @param {Layout} l
 * @returns {bigint} nanoseconds since 1970
 */
export const expires = (l) => epochOf(l) + (1n << BigInt(l.timeBits)) * l.unit;

/** @param {bigint} id */
function mustBeID(id) {
  if (typeof id !== "bigint") {
    throw new SnowflakeError("ErrInvalidID", `${String(id)} is a ${typeof id}, not a BigInt; a Number may have lost digits`);
  }
  if (id < 0n) throw new SnowflakeError("ErrInvalidID", `${id} is negative`);
  if (id > maxID) throw new SnowflakeError("ErrInvalidID", `${id} is over 9223372036854775807`);
}

/**
 * Throws if id is negative or has bits that the layout does not.
 * @param {Layout} l
 * @param {bigint} id
 */
export function check(l, id) {
  mustBeID(id);
  if (id >> BigInt(bitsOf(l)) !== 0n) {
    throw new SnowflakeError("ErrInvalidID", `${id} has ${id.toString(2).length} bits, the layout ${bitsOf(l)}`);
  }
}

/**
 * Takes an ID apart. It takes every BigInt: one that check refuses has a time before
 * the epoch, or at or past expires.
 * @param {Layout} l
 * @param {bigint} id
 * @returns {Parts}
 */
export function decode(l, id) {
  /** @param {number} shift @param {number} bits */
  const field = (shift, bits) => (id >> BigInt(shift)) & lowBits(bits);
  return {
    time: epochOf(l) + (id >> BigInt(timeShift(l))) * l.unit,
    clockSeq: field(clockSeqShift(l), l.clockSeqBits),
    datacenter: field(datacenterShift(l), l.datacenterBits),
    worker: field(workerShift(l), l.workerBits),
    sequence: field(sequenceShift(l), l.sequenceBits),
  };
}

/** @param {Layout} l @param {bigint} time */
function mustHold(l, time) {
  if (time < epochOf(l)) {
    throw new SnowflakeError("ErrBeforeEpoch", `${formatTime(time)} is before ${formatTime(epochOf(l))}`);
  }
  if (time >= expires(l)) {
    throw new SnowflakeError("ErrTimeExhausted", `the layout ended at ${formatTime(expires(l))}, the time is ${formatTime(time)}`);
  }
}

/**
 * Puts an ID together, its time rounded down to a whole tick. It throws if a part
 * does not fit the layout.
 * @param {Layout} l
 * @param {Partial<Parts> & {time: bigint}} parts fields left out are 0n
 * @returns {bigint}
 */
export function encode(l, { time, clockSeq = 0n, datacenter = 0n, worker = 0n, sequence = 0n }) {
  validate(l);
  /** @param {string} name @param {bigint} value @param {number} bits @param {number} shift */
  const field = (name, value, bits, shift) => {
    if (value < 0n || value > lowBits(bits)) {
      throw new SnowflakeError("ErrFieldRange", `${name} ${value} is outside of 0 to ${lowBits(bits)}`);
    }
    return value << BigInt(shift);
  };
  const low =
    field("clock sequence", clockSeq, l.clockSeqBits, clockSeqShift(l)) |
    field("datacenter", datacenter, l.datacenterBits, datacenterShift(l)) |
    field("worker", worker, l.workerBits, workerShift(l)) |
    field("sequence", sequence, l.sequenceBits, sequenceShift(l));
  mustHold(l, time);
  return (((time - epochOf(l)) / l.unit) << BigInt(timeShift(l))) | low;
}

/**
 * The bounds of the IDs that were stamped from one time until another:
 * from <= decode(l, id).time < to exactly when lo <= id < hi. Both times must lie
 * between the epoch and expires.
 * @param {Layout} l
 * @param {bigint} from nanoseconds since 1970
 * @param {bigint} to
 * @returns {{lo: bigint, hi: bigint}}
 */
export function range(l, from, to) {
  validate(l);
  if (from > to) {
    throw new SnowflakeError("ErrInvalidRange", `from ${formatTime(from)} is after to ${formatTime(to)}`);
  }
  return { lo: firstID(l, from), hi: firstID(l, to) };
}

/** The smallest ID whose time is not before a time. @param {Layout} l @param {bigint} time */
function firstID(l, time) {
  if (time !== expires(l)) mustHold(l, time);
  const id = ((time - epochOf(l) + l.unit - 1n) / l.unit) << BigInt(timeShift(l));
  if (id > maxID) { // a layout of all 63 bits has no ID to name its end
    throw new SnowflakeError("ErrTimeExhausted", `the layout ended at ${formatTime(expires(l))}, the time is ${formatTime(time)}`);
  }
  return id;
}

// Times and texts for people.

/** @param {Date} date @returns {bigint} nanoseconds since 1970 */
export const fromDate = (date) => BigInt(date.getTime()) * millisecond;

/**
 * A Date, to the millisecond. It is invalid if the year is past 275760.
 * @param {bigint} time nanoseconds since 1970
 * @returns {Date}
 */
export const toDate = (time) => new Date(Number(floorDiv(time, millisecond)));

/** @param {bigint} a @param {bigint} b */
const floorDiv = (a, b) => a / b - (a % b < 0n ? 1n : 0n);

/**
 * A time in UTC with milliseconds, and with more digits only if it has them:
 * 2026-11-21T08:30:00.000Z. Any year is written, also those that a Date does not have.
 * @param {bigint} time nanoseconds since 1970
 * @returns {string}
 */
export function formatTime(time) {
  const day = 86_400n * second;
  const days = floorDiv(time, day);
  const { year, month, dayOfMonth } = civil(days);
  const rest = time - days * day;
  /** @param {bigint} v @param {number} width */
  const pad = (v, width) => v.toString().padStart(width, "0");
  const nanos = pad(rest % second, 9);
  const fraction = nanos.endsWith("000000") ? nanos.slice(0, 3) : nanos.replace(/0+$/, "");
  const clock = [rest / (3600n * second), (rest / (60n * second)) % 60n, (rest / second) % 60n].map((v) => pad(v, 2)).join(":");
  const sign = year < 0n ? "-" : "";
  return `${sign}${pad(year < 0n ? -year : year, 4)}-${pad(month, 2)}-${pad(dayOfMonth, 2)}T${clock}.${fraction}Z`;
}

/**
 * The date of a day, counted from 1970-01-01. The calendar repeats every 400 years,
 * which are 146,097 days, so a Date has the days of one such era.
 * @param {bigint} days
 */
function civil(days) {
  const era = floorDiv(days, 146_097n);
  const date = new Date(Number(days - era * 146_097n) * 86_400_000);
  return {
    year: BigInt(date.getUTCFullYear()) + 400n * era,
    month: BigInt(date.getUTCMonth() + 1),
    dayOfMonth: BigInt(date.getUTCDate()),
  };
}

/**
 * The parts as one line: time=2026-11-21T08:30:00.000Z clockseq=0 datacenter=0 worker=7 sequence=42
 * @param {Parts} p
 * @returns {string}
 */
export const format = (p) =>
  `time=${formatTime(p.time)} clockseq=${p.clockSeq} datacenter=${p.datacenter} worker=${p.worker} sequence=${p.sequence}`;
