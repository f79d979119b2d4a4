// IDs of github.com/seed-5394e6b1/snowflake in JavaScript. This module reads, writes and
// takes apart the IDs of the Go library, for any layout. It does not issue IDs.
//
// Every number is a BigInt, because JavaScript's Numbers round integers above 2^53.
// Times are nanoseconds since 1970; see fromDate and toDate.

/**
 * Which of an ID's 63 bits belong to which field. From high to low: time, clock sequence,
 * datacenter, worker, sequence. If workerLast is true, the worker is lowest.
 * @typedef {object} Layout
 * @property {bigint} epoch the time at which the time field is 0, in milliseconds since 1970
 * @property {bigint} unit the length of a tick, in nanoseconds; the time field counts ticks
 * @property {number} timeBits 1 to 63
 * @property {number} clockSeqBits
 * @property {number} datacenterBits
 * @property {number} workerBits
 * @property {number} sequenceBits
 * @property {boolean} workerLast
 */

/**
 * An ID taken apart. If the layout does not have a field, the field is 0n.
 * @typedef {object} Parts
 * @property {bigint} time the start of the tick, in nanoseconds since 1970
 * @property {bigint} clockSeq
 * @property {bigint} datacenter
 * @property {bigint} worker
 * @property {bigint} sequence
 */

/**
 * Which rule a value broke. The Go library's errors have the same names.
 * @typedef {"ErrInvalidID" | "ErrInvalidLayout" | "ErrInvalidRange" | "ErrBeforeEpoch" | "ErrTimeExhausted" | "ErrFieldRange"} Code
 */

/** If a function of this module refuses a value, it throws a SnowflakeError. */
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
const over = `it is over ${maxID}`;

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
const discordEpoch = 1420070400000n; // 2015-01-01
const cosidEpoch = 1577203200000n;
const sonyflake = { unit: 10n * millisecond, timeBits: 39, workerBits: 16, sequenceBits: 8, workerLast: true };

const five = { datacenterBits: 5, workerBits: 5 };
const yitter = { timeBits: 51, workerBits: 6, sequenceBits: 6 };
const timestamp = { workerBits: 0, sequenceBits: 0 };

/** The layouts of the Go library, by the names of its command line. */
export const layouts = Object.freeze({
  default: preset({ epoch: defaultEpoch, workerBits: 10 }),
  twitter: preset({ epoch: twitterEpoch, ...five }),
  bwmarrin: preset({ epoch: twitterEpoch, workerBits: 10 }),
  clockseq: preset({ epoch: defaultEpoch, clockSeqBits: 3, workerBits: 7 }),
  jssafe: preset({ epoch: defaultEpoch, unit: second, timeBits: 33, workerBits: 4, sequenceBits: 15 }),
  baidu: preset({ epoch: 1463673600000n, unit: second, timeBits: 28, workerBits: 22, sequenceBits: 13 }),
  "baidu-readme": preset({ epoch: 1474300800000n, unit: second, timeBits: 29, workerBits: 21, sequenceBits: 13 }),
  redis: preset({ workerBits: 12, sequenceBits: 10 }),
  unix: preset({ workerBits: 10 }),
  sonyflake: preset({ epoch: 1409529600000n, ...sonyflake }),
  "sonyflake-v2": preset({ epoch: 1735689600000n, ...sonyflake }),
  discord: preset({ epoch: discordEpoch, ...five }),
  tiktok: preset({ unit: second, timeBits: 31, workerBits: 14, sequenceBits: 18, workerLast: true }),
  instagram: preset({ epoch: 1314220021721n, timeBits: 40, workerBits: 13, sequenceBits: 10 }),
  weibo: preset({ epoch: 515483463000n, unit: second, timeBits: 32, workerBits: 4, sequenceBits: 18 }),
  mastodon: preset({ timeBits: 47, sequenceBits: 16 }),
  hazelcast: preset({ epoch: 1514764800000n, workerBits: 16, sequenceBits: 6, workerLast: true }),
  shardingsphere: preset({ epoch: 1477958400000n, workerBits: 10 }),
  "shardingsphere-cst": preset({ epoch: 1477929600000n, workerBits: 10 }),
  pgedge: preset({ epoch: 1672531200000n, workerBits: 10 }),
  "pgedge-node-last": preset({ epoch: 1672531200000n, workerBits: 10, workerLast: true }),
  yitter: preset({ epoch: 1582136402000n, ...yitter }),
  "yitter-csharp": preset({ epoch: 1582165202020n, ...yitter }),
  cosid: preset({ epoch: cosidEpoch, workerBits: 10 }),
  "cosid-second": preset({ epoch: cosidEpoch, unit: second, timeBits: 31, workerBits: 10, sequenceBits: 22 }),
  godruoyi: preset({ epoch: 1226358000000n, workerBits: 10 }),
  "godruoyi-php": preset({ epoch: 1565251688000n, ...five }),
  "godruoyi-php-cst": preset({ epoch: 1565222888000n, ...five }),
  "zheng-ji": preset({ epoch: 1474802888000n, workerBits: 10 }),
  idgen: preset({ epoch: discordEpoch, workerBits: 10 }),
  "laravel-snowflake": preset({ epoch: 1554076800000n, ...five }),
  "snowflake-uuid": preset({ epoch: 1609459200000n, ...five }),
  snowid: preset({ epoch: 1704067200000n, workerBits: 10 }),
  tsid: preset({ epoch: 1577836800000n, workerBits: 10 }),
  cockroachdb: preset({ epoch: discordEpoch, unit: millisecond / 100n, timeBits: 48, workerBits: 15, sequenceBits: 0 }),
  "tidb-tso": preset({ timeBits: 45, sequenceBits: 18 }),
  "atproto-tid": preset({ unit: millisecond / 1000n, timeBits: 53, workerBits: 10, sequenceBits: 0 }),
  "seata-1.4": preset({ epoch: 1588435200000n, workerBits: 10 }),
  pubnub: preset({ unit: millisecond / 10000n, timeBits: 60, ...timestamp }),
  "unix-nanoseconds": preset({ unit: 1n, timeBits: 63, ...timestamp }),
  "unix-microseconds": preset({ unit: millisecond / 1000n, timeBits: 53, ...timestamp }),
  "unix-milliseconds": preset({ timeBits: 43, ...timestamp }),
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
  const more = text.length > 32 ? "..." : "";
  return new SnowflakeError("ErrInvalidID", `${form} ${quote(text.slice(0, 32))}${more}: ${why}`);
}

/**
 * Quotes a text for people. If a character is not printable, or changes the direction of
 * the text around it, it becomes an escape.
 * @param {string} text
 * @returns {string}
 */
export const quote = (text) =>
  JSON.stringify(text).replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, (c) => {
    const code = /** @type {number} */ (c.codePointAt(0)).toString(16);
    return code.length > 4 ? "\\U" + code.padStart(8, "0") : "\\u" + code.padStart(4, "0");
  });

/** A text for any value: some objects have no String. @param {unknown} v */
const shown = (v) => (typeof v === "object" && v !== null && !(v instanceof Date) ? "an object" : String(v));

/**
 * @param {Code} code
 * @param {string} name
 * @param {unknown} v
 */
function mustBeBigInt(code, name, v) {
  if (typeof v === "bigint") return;
  const help = typeof v === "string" ? "see parse" : v instanceof Date ? "see fromDate" : "a Number may have lost digits";
  throw new SnowflakeError(code, `${name} ${shown(v)} is a ${v instanceof Date ? "Date" : typeof v}, not a BigInt; ${help}`);
}

/**
 * @param {string} form
 * @param {unknown} text
 * @returns {string}
 */
function mustBeText(form, text) {
  if (typeof text === "string") return text;
  throw parseError(form, shown(text), `it is a ${typeof text}, not a string; a Number may have lost digits`);
}

/**
 * Reads an ID in decimal, as the Go library writes it in JSON. If the text has other
 * characters than digits, a leading zero, or more than 9223372036854775807, it throws.
 * @param {string} text
 * @returns {bigint}
 */
export function parse(text) {
  const s = mustBeText("decimal", text);
  if (s === "") throw parseError("decimal", s, "it is empty");
  if (s[0] === "0" && s.length > 1) throw parseError("decimal", s, "it has a leading zero");
  // The digits before the first other character can be over the limit already.
  const [digits] = /** @type {RegExpMatchArray} */ (s.match(/^[0-9]*/));
  if (digits.length > 19) throw parseError("decimal", s, over);
  const id = inRange("decimal", s, BigInt(digits));
  if (digits !== s) throw parseError("decimal", s, "it has a character that is not a digit");
  return id;
}

/**
 * Compares IDs in decimal by their numbers, for Array.prototype.sort: negative if a comes before b, 0 if
 * they are equal, positive if a comes after b. As texts, "99" comes after "100". If parse refuses a text,
 * compare throws.
 * @param {string} a
 * @param {string} b
 * @returns {number}
 */
export function compare(a, b) {
  const [x, y] = [parse(a), parse(b)];
  return x < y ? -1 : x > y ? 1 : 0;
}

/**
 * @param {string} form
 * @param {string} text
 * @param {bigint} id
 */
function inRange(form, text, id) {
  if (id > maxID) throw parseError(form, text, over);
  return id;
}

/**
 * @param {bigint} id
 * @param {string} digits
 * @param {number} width if the text is shorter, it gets leading zeros
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
  if (width === 0 && s.length > 1 && s[0] === digits[0]) throw parseError(form, s, `it has a leading ${digits[0]}, which is a zero here`);
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
/** Reads a text of base32. @param {string} text @returns {bigint} */
export const parseBase32 = (text) => read("base 32", text, digits32, 13);
/** Base 58 with the alphabet of bwmarrin/snowflake, 1 to 11 characters. @param {bigint} id @returns {string} */
export const base58 = (id) => write(id, digits58, 1);
/** Reads a text of base58. @param {string} text @returns {bigint} */
export const parseBase58 = (text) => read("base 58", text, digits58, 0);
/** Base 62, 11 characters. @param {bigint} id @returns {string} */
export const base62 = (id) => write(id, digits62, 11);
/** Reads a text of base62. @param {string} text @returns {bigint} */
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

/** @param {string} why */
const badLayout = (why) => new SnowflakeError("ErrInvalidLayout", why);

/**
 * Throws if a field is missing or has another type. Otherwise JavaScript would return NaN.
 * @param {Layout} l
 */
function mustBeLayout(l) {
  if (typeof l !== "object" || l === null) throw badLayout(`the argument layout is ${shown(l)}, not an object such as layouts.default; it comes first`);
  const { epoch, unit, timeBits, clockSeqBits, datacenterBits, workerBits, sequenceBits, workerLast } = l;
  for (const [name, v] of Object.entries({ epoch, unit })) {
    if (typeof v !== "bigint") throw badLayout(`${name} is ${shown(v)}, not a BigInt`);
  }
  for (const [name, bits] of Object.entries({ timeBits, clockSeqBits, datacenterBits, workerBits, sequenceBits })) {
    if (!Number.isInteger(bits) || bits < 0 || bits > 255) throw badLayout(`${name} is ${shown(bits)}, not a Number of 0 to 255`);
  }
  if (typeof workerLast !== "boolean") throw badLayout(`workerLast is ${shown(workerLast)}, not true or false`);
}

/**
 * Throws if the layout is not valid: its IDs could not be issued and read back.
 * @param {Layout} l
 */
export function validate(l) {
  mustBeLayout(l);
  if (l.unit <= 0n) throw badLayout(`unit ${formatDuration(l.unit)} is not positive`);
  if (l.timeBits === 0) throw badLayout("no time bits");
  if (bitsOf(l) > 63) throw badLayout(`${bitsOf(l)} bits in all, an ID has 63`);
  if (((1n << BigInt(l.timeBits)) * l.unit) / second > 1n << 60n) {
    throw badLayout(`${l.timeBits} bits of ${formatDuration(l.unit)} last longer than 36 billion years`);
  }
}

/**
 * The first time that is too late for the layout.
 * @param {Layout} l
 * @returns {bigint} nanoseconds since 1970
 */
export function expires(l) {
  mustBeLayout(l);
  return epochOf(l) + (1n << BigInt(l.timeBits)) * l.unit;
}

/** @param {bigint} id */
function mustBeID(id) {
  mustBeBigInt("ErrInvalidID", "ID", id);
  if (id < 0n) throw new SnowflakeError("ErrInvalidID", `${id} is negative`);
  if (id > maxID) throw new SnowflakeError("ErrInvalidID", `${id} is over 9223372036854775807`);
}

/**
 * Throws if id is negative, or if it has more bits than the layout.
 * @param {Layout} l
 * @param {bigint} id
 */
export function check(l, id) {
  mustBeLayout(l);
  mustBeID(id);
  if (id >> BigInt(bitsOf(l)) !== 0n) {
    throw new SnowflakeError("ErrInvalidID", `${id} has ${id.toString(2).length} bits, the layout ${bitsOf(l)}`);
  }
}

/**
 * Takes an ID apart. It accepts every BigInt: if check refuses the ID, the time is before
 * the epoch, or not before expires. If a field of the layout is missing, it throws.
 * @param {Layout} l
 * @param {bigint} id
 * @returns {Parts}
 */
export function decode(l, id) {
  mustBeLayout(l);
  mustBeBigInt("ErrInvalidID", "ID", id);
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
 * Puts an ID together, with its time rounded down to a whole tick. If a part does not fit
 * the layout, it throws.
 * @param {Layout} l
 * @param {Partial<Parts> & {time: bigint}} parts a missing field counts as 0n
 * @returns {bigint}
 */
export function encode(l, { time, clockSeq = 0n, datacenter = 0n, worker = 0n, sequence = 0n }) {
  validate(l);
  /** @param {string} name @param {bigint} value @param {number} bits @param {number} shift */
  const field = (name, value, bits, shift) => {
    mustBeBigInt("ErrFieldRange", name, value);
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
  mustBeBigInt("ErrFieldRange", "time", time);
  mustHold(l, time);
  return (((time - epochOf(l)) / l.unit) << BigInt(timeShift(l))) | low;
}

/**
 * The bounds of the IDs of a span of time: from <= decode(l, id).time < to if and only if
 * lo <= id < hi. If a time is before the epoch or after expires, or if from is after to,
 * it throws.
 * @param {Layout} l
 * @param {bigint} from nanoseconds since 1970
 * @param {bigint} to
 * @returns {{lo: bigint, hi: bigint}}
 */
export function range(l, from, to) {
  validate(l);
  mustBeBigInt("ErrInvalidRange", "from", from);
  mustBeBigInt("ErrInvalidRange", "to", to);
  if (from > to) {
    throw new SnowflakeError("ErrInvalidRange", `from ${formatTime(from)} is after to ${formatTime(to)}`);
  }
  return { lo: firstID(l, from), hi: firstID(l, to) };
}

/** The smallest ID with this time or a later time. @param {Layout} l @param {bigint} time */
function firstID(l, time) {
  if (time !== expires(l)) mustHold(l, time);
  const id = ((time - epochOf(l) + l.unit - 1n) / l.unit) << BigInt(timeShift(l));
  if (id > maxID) { // a layout of all 63 bits has no ID to name its end
    throw new SnowflakeError("ErrTimeExhausted", `the layout ended at ${formatTime(expires(l))}, the time is ${formatTime(time)}`);
  }
  return id;
}

// Times and texts for people.

/** Throws if date is invalid. @param {Date} date @returns {bigint} nanoseconds since 1970 */
export function fromDate(date) {
  const ms = date?.getTime?.();
  if (!Number.isInteger(ms)) throw new SnowflakeError("ErrFieldRange", `${shown(date)} is no Date, or an invalid one`);
  return BigInt(ms) * millisecond;
}

/**
 * A Date, to the millisecond. It is invalid if the year is past 275760.
 * @param {bigint} time nanoseconds since 1970
 * @returns {Date}
 */
export const toDate = (time) => new Date(Number(floorDiv(time, millisecond)));

/** @param {bigint} a @param {bigint} b */
const floorDiv = (a, b) => a / b - (a % b < 0n ? 1n : 0n);

/**
 * A time in UTC with milliseconds: 2026-11-21T08:30:00.000Z. If the time is finer, it has
 * more digits. It also writes years that a Date does not have.
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
 * A span of time as the Go library writes it: 10ms, 1.5s, 1h0m0s.
 * @param {bigint} nanos
 * @returns {string}
 */
export function formatDuration(nanos) {
  const sign = nanos < 0n ? "-" : "";
  const n = nanos < 0n ? -nanos : nanos;
  if (n === 0n) return "0s";
  /** @param {bigint} v @param {bigint} unit */
  const decimal = (v, unit) => {
    const fraction = (v % unit).toString().padStart(unit.toString().length - 1, "0").replace(/0+$/, "");
    return `${v / unit}${unit > 1n && fraction ? "." + fraction : ""}`;
  };
  if (n < 1000n) return `${sign}${n}ns`;
  if (n < millisecond) return `${sign}${decimal(n, 1000n)}µs`;
  if (n < second) return `${sign}${decimal(n, millisecond)}ms`;
  const minute = 60n * second;
  const hours = n / (60n * minute);
  const minutes = (n / minute) % 60n;
  return sign + (hours ? `${hours}h` : "") + (n >= minute ? `${minutes}m` : "") + `${decimal(n % minute, second)}s`;
}

/**
 * The date of a day, counted from 1970-01-01. The calendar repeats every 400 years, which
 * are 146,097 days, so a Date within 400 years is enough.
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
 * The parts as one line: time=2026-11-21T08:30:00.000Z worker=7 sequence=42. If the clock
 * sequence or the datacenter is 0, it is left out.
 * @param {Parts} p
 * @returns {string}
 */
export const format = (p) => {
  const unlessZero = (key, v) => (v === 0n ? "" : ` ${key}=${v}`);
  return `time=${formatTime(p.time)}${unlessZero("clockSeq", p.clockSeq)}${unlessZero("datacenter", p.datacenter)} worker=${p.worker} sequence=${p.sequence}`;
};
