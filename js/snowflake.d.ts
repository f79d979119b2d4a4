export type Layout = {
    /**
     * the time at which the time field is 0, in milliseconds since 1970
     */
    epoch: bigint;
    /**
     * the length of a tick, in nanoseconds; the time field counts ticks
     */
    unit: bigint;
    /**
     * 1 to 63
     */
    timeBits: number;
    clockSeqBits: number;
    datacenterBits: number;
    workerBits: number;
    sequenceBits: number;
    workerLast: boolean;
};
export type Parts = {
    /**
     * the start of the tick, in nanoseconds since 1970
     */
    time: bigint;
    clockSeq: bigint;
    datacenter: bigint;
    worker: bigint;
    sequence: bigint;
};
export type Code = "ErrInvalidID" | "ErrInvalidLayout" | "ErrInvalidRange" | "ErrBeforeEpoch" | "ErrTimeExhausted" | "ErrFieldRange";
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
export declare class SnowflakeError extends Error {
    /** @type {Code} */
    code: Code;
    /**
     * @param {Code} code
     * @param {string} message
     */
    constructor(code: Code, message: string);
}
/** The layouts of the Go library, by the names of its command line. */
export declare const layouts: Readonly<{
    default: Readonly<Layout>;
    twitter: Readonly<Layout>;
    bwmarrin: Readonly<Layout>;
    clockseq: Readonly<Layout>;
    jssafe: Readonly<Layout>;
    baidu: Readonly<Layout>;
    "baidu-readme": Readonly<Layout>;
    redis: Readonly<Layout>;
    unix: Readonly<Layout>;
    sonyflake: Readonly<Layout>;
    "sonyflake-v2": Readonly<Layout>;
    discord: Readonly<Layout>;
    tiktok: Readonly<Layout>;
    instagram: Readonly<Layout>;
    weibo: Readonly<Layout>;
    mastodon: Readonly<Layout>;
    hazelcast: Readonly<Layout>;
    shardingsphere: Readonly<Layout>;
    "shardingsphere-cst": Readonly<Layout>;
    pgedge: Readonly<Layout>;
    "pgedge-node-last": Readonly<Layout>;
    yitter: Readonly<Layout>;
    "yitter-csharp": Readonly<Layout>;
    cosid: Readonly<Layout>;
    "cosid-second": Readonly<Layout>;
    godruoyi: Readonly<Layout>;
    "godruoyi-php": Readonly<Layout>;
    "godruoyi-php-cst": Readonly<Layout>;
    "zheng-ji": Readonly<Layout>;
    idgen: Readonly<Layout>;
    "laravel-snowflake": Readonly<Layout>;
    "snowflake-uuid": Readonly<Layout>;
    snowid: Readonly<Layout>;
    tsid: Readonly<Layout>;
    cockroachdb: Readonly<Layout>;
    "tidb-tso": Readonly<Layout>;
    "atproto-tid": Readonly<Layout>;
    "seata-1.4": Readonly<Layout>;
    pubnub: Readonly<Layout>;
    "unix-nanoseconds": Readonly<Layout>;
    "unix-microseconds": Readonly<Layout>;
    "unix-milliseconds": Readonly<Layout>;
}>;
/**
 * Quotes a text for people. If a character is not printable, or changes the direction of
 * the text around it, it becomes an escape.
 * @param {string} text
 * @returns {string}
 */
export declare const quote: (text: string) => string;
/**
 * Reads an ID in decimal, as the Go library writes it in JSON. If the text has other
 * characters than digits, a leading zero, or more than 9223372036854775807, it throws.
 * @param {string} text
 * @returns {bigint}
 */
export declare function parse(text: string): bigint;
/**
 * Compares IDs in decimal by their numbers, for Array.prototype.sort: negative if a comes before b, 0 if
 * they are equal, positive if a comes after b. As texts, "99" comes after "100". If parse refuses a text,
 * compare throws.
 * @param {string} a
 * @param {string} b
 * @returns {number}
 */
export declare function compare(a: string, b: string): number;
/** Crockford's base 32, 13 characters. @param {bigint} id @returns {string} */
export declare const base32: (id: bigint) => string;
/** Reads a text of base32. @param {string} text @returns {bigint} */
export declare const parseBase32: (text: string) => bigint;
/** Base 58 with the alphabet of bwmarrin/snowflake, 1 to 11 characters. @param {bigint} id @returns {string} */
export declare const base58: (id: bigint) => string;
/** Reads a text of base58. @param {string} text @returns {bigint} */
export declare const parseBase58: (text: string) => bigint;
/** Base 62, 11 characters. @param {bigint} id @returns {string} */
export declare const base62: (id: bigint) => string;
/** Reads a text of base62. @param {string} text @returns {bigint} */
export declare const parseBase62: (text: string) => bigint;
/**
 * Throws if the layout is not valid: its IDs could not be issued and read back.
 * @param {Layout} l
 */
export declare function validate(l: Layout): void;
/**
 * The first time that is too late for the layout.
 * @param {Layout} l
 * @returns {bigint} nanoseconds since 1970
 */
export declare function expires(l: Layout): bigint;
/**
 * Throws if id is negative, or if it has more bits than the layout.
 * @param {Layout} l
 * @param {bigint} id
 */
export declare function check(l: Layout, id: bigint): void;
/**
 * Takes an ID apart. It accepts every BigInt: if check refuses the ID, the time is before
 * the epoch, or not before expires. If a field of the layout is missing, it throws.
 * @param {Layout} l
 * @param {bigint} id
 * @returns {Parts}
 */
export declare function decode(l: Layout, id: bigint): Parts;
/**
 * Puts an ID together, with its time rounded down to a whole tick. If a part does not fit
 * the layout, it throws.
 * @param {Layout} l
 * @param {Partial<Parts> & {time: bigint}} parts a missing field counts as 0n
 * @returns {bigint}
 */
export declare function encode(l: Layout, { time, clockSeq, datacenter, worker, sequence }: Partial<Parts> & {
    time: bigint;
}): bigint;
/**
 * The bounds of the IDs of a span of time: from <= decode(l, id).time < to if and only if
 * lo <= id < hi. If a time is before the epoch or after expires, or if from is after to,
 * it throws.
 * @param {Layout} l
 * @param {bigint} from nanoseconds since 1970
 * @param {bigint} to
 * @returns {{lo: bigint, hi: bigint}}
 */
export declare function range(l: Layout, from: bigint, to: bigint): {
    lo: bigint;
    hi: bigint;
};
/** Throws if date is invalid. @param {Date} date @returns {bigint} nanoseconds since 1970 */
export declare function fromDate(date: Date): bigint;
/**
 * A Date, to the millisecond. It is invalid if the year is past 275760.
 * @param {bigint} time nanoseconds since 1970
 * @returns {Date}
 */
export declare const toDate: (time: bigint) => Date;
/**
 * A time in UTC with milliseconds: 2026-11-21T08:30:00.000Z. If the time is finer, it has
 * more digits. It also writes years that a Date does not have.
 * @param {bigint} time nanoseconds since 1970
 * @returns {string}
 */
export declare function formatTime(time: bigint): string;
/**
 * A span of time as the Go library writes it: 10ms, 1.5s, 1h0m0s.
 * @param {bigint} nanos
 * @returns {string}
 */
export declare function formatDuration(nanos: bigint): string;
/**
 * The parts as one line: time=2026-11-21T08:30:00.000Z worker=7 sequence=42. If the clock
 * sequence or the datacenter is 0, it is left out.
 * @param {Parts} p
 * @returns {string}
 */
export declare const format: (p: Parts) => string;
