/**
 * Reads an ID in decimal, as the Go library writes it in JSON: digits and nothing else,
 * without leading zeros, at most 9223372036854775807.
 * @param {string} text
 * @returns {bigint}
 */
export function parse(text: string): bigint;
/**
 * Throws if IDs of this layout could not be issued and read back.
 * @param {Layout} l
 */
export function validate(l: Layout): void;
/**
 * Throws if id is negative or has bits that the layout does not.
 * @param {Layout} l
 * @param {bigint} id
 */
export function check(l: Layout, id: bigint): void;
/**
 * Takes an ID apart. It takes every BigInt: one that check refuses has a time before
 * the epoch, or at or past expires.
 * @param {Layout} l
 * @param {bigint} id
 * @returns {Parts}
 */
export function decode(l: Layout, id: bigint): Parts;
/**
 * Puts an ID together, its time rounded down to a whole tick. It throws if a part
 * does not fit the layout.
 * @param {Layout} l
 * @param {Partial<Parts> & {time: bigint}} parts fields left out are 0n
 * @returns {bigint}
 */
export function encode(l: Layout, { time, clockSeq, datacenter, worker, sequence }: Partial<Parts> & {
    time: bigint;
}): bigint;
/**
 * The bounds of the IDs that were stamped from one time until another:
 * from <= decode(l, id).time < to exactly when lo <= id < hi. Both times must lie
 * between the epoch and expires.
 * @param {Layout} l
 * @param {bigint} from nanoseconds since 1970
 * @param {bigint} to
 * @returns {{lo: bigint, hi: bigint}}
 */
export function range(l: Layout, from: bigint, to: bigint): {
    lo: bigint;
    hi: bigint;
};
/**
 * A time in UTC with milliseconds, and with more digits only if it has them:
 * 2026-11-21T08:30:00.000Z. Any year is written, also those that a Date does not have.
 * @param {bigint} time nanoseconds since 1970
 * @returns {string}
 */
export function formatTime(time: bigint): string;
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
    constructor(code: Code, message: string);
    /** @type {Code} */
    code: Code;
}
/** The layouts of the Go library, by the names of its command line. */
export const layouts: Readonly<{
    default: Readonly<Layout>;
    clockseq: Readonly<Layout>;
    jssafe: Readonly<Layout>;
    twitter: Readonly<Layout>;
    bwmarrin: Readonly<Layout>;
    discord: Readonly<Layout>;
    instagram: Readonly<Layout>;
    sonyflake: Readonly<Layout>;
    "sonyflake-v2": Readonly<Layout>;
    baidu: Readonly<Layout>;
    redis: Readonly<Layout>;
}>;
export function base32(id: bigint): string;
export function parseBase32(text: string): bigint;
export function base58(id: bigint): string;
export function parseBase58(text: string): bigint;
export function base62(id: bigint): string;
export function parseBase62(text: string): bigint;
export function expires(l: Layout): bigint;
export function fromDate(date: Date): bigint;
export function toDate(time: bigint): Date;
export function format(p: Parts): string;
/**
 * How the 63 bits of an ID are shared. From high to low: time, clock sequence,
 * datacenter, worker, sequence; with workerLast the worker is lowest.
 */
export type Layout = {
    /**
     * where the time field is 0, in milliseconds since 1970
     */
    epoch: bigint;
    /**
     * what the time field counts, in nanoseconds
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
/**
 * An ID taken apart. Fields that the layout does not have are 0n.
 */
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
/**
 * Which rule a value broke; the names are those of the Go library's errors.
 */
export type Code = "ErrInvalidID" | "ErrInvalidLayout" | "ErrInvalidRange" | "ErrBeforeEpoch" | "ErrTimeExhausted" | "ErrFieldRange";
