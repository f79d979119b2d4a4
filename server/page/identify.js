// Finds the IDs in a text, in the forms that snowflake.js parses. The server parses the other
// forms, and has the reasons why a text has no ID.
import { parse, parseBase32, parseBase58, parseBase62, quote, SnowflakeError } from "./snowflake.js";

/** The maximum time of an ID after now, in nanoseconds. */
export const tolerance = 86_400_000_000_000n;

/** Hexadecimal digits: after 0x, or 14 to 16 that are not all decimal. */
const hex = /^(0x[0-9a-f]{1,16}|(?=.*[a-f])[0-9a-f]{14,16})$/i;

/**
 * The forms of IDs, in the order in which they are tried. A text that does not match like has no
 * ID in the form; matching is faster than parsing.
 */
const forms = [
  { name: "decimal", parse, like: /^[0-9]{1,19}$/ },
  { name: "base 32", parse: parseBase32, like: /^[0-7][0-9A-HJKMNP-TV-Z]{12}$/ },
  { name: "base 62", parse: parseBase62, like: /^[0-9A-Za-z]{11}$/ },
  { name: "base 58", parse: parseBase58, like: /^[1-9A-HJ-NP-Za-km-z]{1,11}$/ },
  { name: "hexadecimal", parse: parseHex, like: hex },
  { name: "typed", parse: (text) => parseBase32(text.slice(text.lastIndexOf("_") + 1)), like: /^[a-z]([a-z0-9_]{0,61}[a-z0-9])?_[0-7][0-9A-HJKMNP-TV-Z]{12}$/ },
];

function parseHex(text) {
  if (hex.test(text)) return parse(String(BigInt(text.replace(/^(0x)?/i, "0x"))));
  throw new SnowflakeError("ErrInvalidID", `${shortly(text)} is neither 0x and hexadecimal digits nor 14 to 16 of them`);
}

/** Reports whether a text has the form of package opaque. More needs the key. */
const looksOpaque = (text) => /^([a-z][a-z0-9_]*_)?([0-9A-Za-z]{22}|[0-9a-hjkmnp-tv-z]{26})$/.test(text);
const shortly = (text) => quote(text.slice(0, 32)) + (text.length > 32 ? "..." : "");
const isOpaque = (text) => `${shortly(text)} may be an opaque text, which only a program with its key reads`;

/** Returns the ID of a text in a form, or null. */
function idOf(form, text) {
  if (!form.like.test(text)) return null;
  try {
    return form.parse(text);
  } catch (e) {
    if (e instanceof SnowflakeError) return null;
    throw e;
  }
}

/** Returns the reason why a text is not an ID in a form. */
function reasonIn(form, text) {
  if (looksOpaque(text)) return isOpaque(text);
  try {
    form.parse(text);
    return "";
  } catch (e) {
    return e.message;
  }
}

/** The maximum number of errors that a reading explains. */
export const mostErrors = 10;

/** Returns the IDs of the words in a form, the number of other words, and errors for the first of these. */
function readAs(form, words) {
  const items = [];
  const errors = [];
  for (const { text, line } of words) {
    const id = idOf(form, text);
    if (id !== null) items.push({ id, line });
    else if (errors.length < mostErrors) errors.push({ line, message: reasonIn(form, text) });
  }
  return { form: form.name, items, errors, refused: words.length - items.length };
}

/** Returns the lines of a text that are not blank, with their numbers and words. */
function wordsOf(text) {
  const lines = [];
  text.split(/\r\n|\r|\n/).forEach((line, i) => {
    const words = line.split(/[\s,;"'[\]]+/).filter(Boolean);
    if (words.length > 0) lines.push({ number: i + 1, text: line, words });
  });
  return lines;
}

/**
 * Returns the IDs in lines of a log: runs of 15 to 19 decimal digits without a leading zero, not
 * next to a letter and not the fraction of a number.
 */
function readLog(lines) {
  const items = [];
  for (const { text, number } of lines) {
    for (const [digits] of text.matchAll(/(?<![0-9A-Za-z]|[0-9]\.)[1-9][0-9]{14,18}(?![0-9A-Za-z])/g)) {
      const id = BigInt(digits);
      const url = text.split(/\s+/).find((word) => /^https?:/.test(word) && word.includes(digits)); // the host says much
      if (id < 1n << 63n) items.push({ id, line: number, url });
    }
  }
  return items;
}

/** The maximum length of a word for the server. */
const longestWord = 200;

/**
 * Returns the readings of a text: {form, items: [{id, line}], errors: [{line, message}], refused},
 * where refused is the number of words that are not IDs. A text without IDs has no reading, but a
 * reason and, if it is a list, its words.
 */
export function read(text) {
  const lines = wordsOf(text);
  if (lines.length === 0) return { readings: [], reason: "" };
  const words = lines.flatMap((l) => l.words.map((w) => ({ text: w, line: l.number })));
  const all = forms.map((f) => readAs(f, words));
  const best = Math.max(...all.map((r) => r.items.length));
  const list = lines.every((l) => l.words.length === 1);
  // Short words of a sentence are base 58 by accident.
  const ids = list ? best > 0 : best === words.length && words.every((w) => w.text.length >= 8);
  if (ids) return { readings: all.filter((r) => r.items.length === best), reason: "" };
  const items = readLog(lines);
  if (items.length > 0) return { readings: [{ form: "log", items, errors: [], refused: 0 }], reason: "" };
  if (words.every((w) => looksOpaque(w.text))) return { readings: [], reason: isOpaque(words[0].text) };
  const reason = words.length > 1
    ? `no ID in ${words.length} words: write one ID a line, or a text with a decimal ID of 15 to 19 digits`
    : `the text has ${words[0].text.length} characters: an ID has 1 to 19 digits in decimal, 14 to 16 in hexadecimal, 13 characters in base 32, 1 to 11 in base 58, 11 in base 62`;
  return { readings: [], reason, words: list && words.every((w) => w.text.length <= longestWord) ? words : null };
}
