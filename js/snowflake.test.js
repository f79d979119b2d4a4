// Holds snowflake.js to vectors.json, which the Go library writes (js_test.go).
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as snowflake from "./snowflake.js";

// Numbers in the vectors are strings, as IDs in JSON are.
const vectors = JSON.parse(readFileSync(new URL("vectors.json", import.meta.url), "utf8"));
const big = (fields) => Object.fromEntries(Object.entries(fields).map(([k, v]) => [k, BigInt(v)]));
const layoutOf = (l) => ({ ...l, epoch: BigInt(l.epoch), unit: BigInt(l.unit) });
const layouts = Object.fromEntries(vectors.layouts.map((l) => [l.name, layoutOf(l.layout)]));

const forms = {
  decimal: [String, snowflake.parse],
  base32: [snowflake.base32, snowflake.parseBase32],
  base58: [snowflake.base58, snowflake.parseBase58],
  base62: [snowflake.base62, snowflake.parseBase62],
};

// throws holds f to throw the error that Go returned, or to return what Go did.
function holds(f, error, want, message) {
  if (error) {
    assert.throws(f, (e) => e instanceof snowflake.SnowflakeError && e.code === error && e.message !== "", `${message} must throw ${error}`);
  } else {
    assert.deepEqual(f(), want, message);
  }
}

test("there are vectors of each kind", () => {
  for (const kind of ["layouts", "texts", "refused", "ids", "encodes", "ranges", "times"]) {
    assert.ok(vectors[kind].length >= 10, kind);
  }
});

test("layouts", () => {
  const presets = new Set();
  for (const { name, preset, layout, error, expires } of vectors.layouts) {
    holds(() => snowflake.validate(layouts[name]), error, undefined, name);
    if (preset) {
      presets.add(name);
      assert.deepEqual(snowflake.layouts[name], layoutOf(layout), name);
    }
    if (!error) assert.equal(snowflake.expires(layouts[name]), BigInt(expires), name);
  }
  assert.deepEqual(new Set(Object.keys(snowflake.layouts)), presets);
  assert.ok(Object.isFrozen(snowflake.layouts) && Object.isFrozen(snowflake.layouts.default));
});

test("texts", () => {
  for (const { id, ...texts } of vectors.texts) {
    for (const [form, text] of Object.entries(texts)) {
      const [write, parse] = forms[form];
      assert.equal(write(BigInt(id)), text);
      assert.equal(parse(text), BigInt(id), `${form} ${text}`);
    }
  }
  for (const { form, text } of vectors.refused) {
    holds(() => forms[form][1](text), "ErrInvalidID", undefined, `${form} ${JSON.stringify(text)}`);
  }
});

test("what is no text, and what is no ID", () => {
  for (const [name, [write, parse]] of Object.entries(forms)) {
    for (const bad of [1, 117469438034313216, 5n, null, undefined, {}, ["1"]]) {
      holds(() => parse(bad), "ErrInvalidID", undefined, `${name} ${String(bad)}`);
    }
    if (write === String) continue;
    for (const bad of [-1n, 1n << 63n, 1, "1", null, undefined]) {
      holds(() => write(bad), "ErrInvalidID", undefined, `${name} ${String(bad)}`);
    }
  }
});

test("decode and check", () => {
  for (const { layout, id, parts, text, error } of vectors.ids) {
    const l = layouts[layout];
    const message = `${layout} ${id}`;
    holds(() => snowflake.check(l, BigInt(id)), error, undefined, message);
    const got = snowflake.decode(l, BigInt(id));
    assert.deepEqual(got, big(parts), message);
    assert.equal(snowflake.format(got), text, message);
    if (!error) assert.equal(snowflake.encode(l, got), BigInt(id), message);
  }
});

test("encode", () => {
  for (const { layout, parts, id, error } of vectors.encodes) {
    holds(() => snowflake.encode(layouts[layout], big(parts)), error, id && BigInt(id), `${layout} ${JSON.stringify(parts)}`);
  }
});

test("range", () => {
  for (const { layout, from, to, lo, hi, error } of vectors.ranges) {
    holds(() => snowflake.range(layouts[layout], BigInt(from), BigInt(to)), error,
      error ? undefined : { lo: BigInt(lo), hi: BigInt(hi) }, `${layout} ${from} ${to}`);
  }
});

test("times", () => {
  for (const { time, text } of vectors.times) {
    assert.equal(snowflake.formatTime(BigInt(time)), text);
    const date = snowflake.toDate(BigInt(time));
    if (!Number.isNaN(date.getTime())) {
      assert.equal(snowflake.fromDate(date), BigInt(time) - (((BigInt(time) % 1000000n) + 1000000n) % 1000000n));
    }
  }
  assert.equal(snowflake.toDate(-1n).getTime(), -1);
});

test("every name has its types", () => {
  const types = readFileSync(new URL("snowflake.d.ts", import.meta.url), "utf8");
  for (const name of Object.keys(snowflake)) {
    assert.match(types, new RegExp(`export (declare )?(function|const|class) ${name}\\b`), name);
  }
});
