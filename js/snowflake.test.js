// What only JavaScript can get wrong: values of other types, dates, types. js_test.go holds the rest to the Go library.
import assert from "node:assert/strict";
import { createCipheriv, hkdfSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as snowflake from "./snowflake.js";

const forms = {
  decimal: [String, snowflake.parse],
  base32: [snowflake.base32, snowflake.parseBase32],
  base58: [snowflake.base58, snowflake.parseBase58],
  base62: [snowflake.base62, snowflake.parseBase62],
};

// throws holds f to throw an error of the library's.
function throws(f, code, message) {
  assert.throws(f, (e) => e instanceof snowflake.SnowflakeError && e.code === code && e.message !== "", `${message} must throw ${code}`);
}

test("presets are frozen", () => {
  assert.ok(Object.isFrozen(snowflake.layouts) && Object.isFrozen(snowflake.layouts.default));
});

test("what is no text, and what is no ID", () => {
  for (const [name, [write, parse]] of Object.entries(forms)) {
    for (const bad of [1, 117469438034313216, 5n, null, undefined, {}, ["1"]]) {
      throws(() => parse(bad), "ErrInvalidID", `${name} ${String(bad)}`);
    }
    if (write === String) continue;
    for (const bad of [-1n, 1n << 63n, 1, "1", null, undefined]) {
      throws(() => write(bad), "ErrInvalidID", `${name} ${String(bad)}`);
    }
  }
});

test("what is no BigInt", () => {
  const l = snowflake.layouts.default;
  const time = snowflake.expires(l) - 1n;
  for (const bad of ["117469438034313216", 117469438034313216, null, undefined, new Date(0), {}, Symbol("x"), Object.create(null)]) {
    const message = typeof bad;
    throws(() => snowflake.decode(l, bad), "ErrInvalidID", message);
    throws(() => snowflake.check(l, bad), "ErrInvalidID", message);
    throws(() => snowflake.base32(bad), "ErrInvalidID", message);
    throws(() => snowflake.parse(typeof bad === "string" ? "x" : bad), "ErrInvalidID", message);
    throws(() => snowflake.encode(l, { time: bad }), "ErrFieldRange", message);
    throws(() => snowflake.range(l, bad, time), "ErrInvalidRange", message);
    throws(() => snowflake.range(l, time, bad), "ErrInvalidRange", message);
    if (bad === undefined) continue; // a field that is left out
    for (const name of ["clockSeq", "datacenter", "worker", "sequence"]) {
      throws(() => snowflake.encode(l, { time, [name]: bad }), "ErrFieldRange", `${name} ${message}`);
    }
  }
});

test("a field that is left out is 0", () => {
  const time = 1_800_000_000_000_000_000n;
  const zero = { clockSeq: 0n, datacenter: 0n, worker: 0n, sequence: 0n };
  for (const l of Object.values(snowflake.layouts)) {
    if (time < snowflake.expires(l)) assert.equal(snowflake.encode(l, { time }), snowflake.encode(l, { time, ...zero }));
  }
});

test("what is no layout", () => {
  const l = snowflake.layouts.sonyflake;
  const users = {
    validate: (l) => snowflake.validate(l),
    expires: (l) => snowflake.expires(l),
    check: (l) => snowflake.check(l, 1n),
    decode: (l) => snowflake.decode(l, 1n),
    encode: (l) => snowflake.encode(l, { time: snowflake.expires(snowflake.layouts.sonyflake) - 1n }),
    range: (l) => snowflake.range(l, 0n, 0n),
  };
  for (const [user, f] of Object.entries(users)) {
    const refuses = (layout, says) =>
      assert.throws(() => f(layout), (e) => e instanceof snowflake.SnowflakeError && e.code === "ErrInvalidLayout" && e.message.includes(says), `${user}: ${says}`);
    for (const name of Object.keys(l)) {
      const { [name]: _, ...lacking } = l;
      refuses(lacking, `${name} is undefined`);
      refuses({ ...l, [name]: "1" }, `${name} is 1`);
      refuses({ ...l, [name]: Symbol("x") }, `${name} is Symbol(x)`);
    }
    for (const bad of [undefined, null, "default", 117469438034313216n]) refuses(bad, `the argument layout is ${bad}, not an object`);
  }
});

test("decimal strings compare as their numbers", () => {
  const sorted = ["0", "9", "10", "99999999999999999", "100000000000000000", "117469438034313216", "117469438034313217", "9223372036854775807"];
  assert.notDeepEqual([...sorted].sort(), sorted, "as texts they do not sort");
  assert.deepEqual([...sorted].reverse().sort(snowflake.compare), sorted);
  assert.equal(snowflake.compare("5", "5"), 0);
  const dayOf = (id) => snowflake.formatTime(snowflake.decode(snowflake.layouts.default, id).time).slice(0, 10);
  assert.deepEqual([dayOf(10n ** 17n), dayOf(10n ** 18n)], ["2026-10-03", "2033-07-22"], "the README says when they get longer");
  assert.equal(String(JSON.parse("117469438034313216")), "117469438034313220", "the README says what JSON.parse makes of it");
  for (const bad of [5, 5n, "", "007", "-1", "9223372036854775808", null, undefined]) {
    throws(() => snowflake.compare(bad, "5"), "ErrInvalidID", String(bad));
    throws(() => snowflake.compare("5", bad), "ErrInvalidID", String(bad));
  }
});

test("what is no date", () => {
  for (const bad of [new Date(NaN), undefined, null, 0, "2026-11-21"]) {
    throws(() => snowflake.fromDate(bad), "ErrFieldRange", String(bad));
  }
});

test("dates", () => {
  for (const time of [0n, 1n, -1n, 999_999n, 1_000_000n, -1_000_000n, 1_767_225_600_123_456_789n]) {
    const ms = (time - (((time % 1_000_000n) + 1_000_000n) % 1_000_000n)) / 1_000_000n;
    assert.equal(snowflake.toDate(time).getTime(), Number(ms), time);
    assert.equal(snowflake.fromDate(new Date(Number(ms))), ms * 1_000_000n, time);
  }
});

test("every name and every layout has its type", () => {
  const types = readFileSync(new URL("snowflake.d.ts", import.meta.url), "utf8");
  for (const name of Object.keys(snowflake)) {
    assert.match(types, new RegExp(`export (declare )?(function|const|class) ${name}\\b`), name);
  }
  const presets = [...types.matchAll(/^ +"?([\w.-]+)"?: Readonly<Layout>;$/gm)].map((m) => m[1]);
  assert.deepEqual(presets, Object.keys(snowflake.layouts), "README.md says how to write snowflake.d.ts anew");
});

test("the vectors that other languages test against", () => {
  const { layouts, refused } = JSON.parse(readFileSync(new URL("./vectors.json", import.meta.url), "utf8"));
  assert.deepEqual(layouts.map((l) => l.name), Object.keys(snowflake.layouts));
  for (const { name, ids, ...fields } of layouts) {
    const layout = { ...fields, epoch: BigInt(fields.epoch), unit: BigInt(fields.unit) };
    assert.deepEqual({ ...snowflake.layouts[name] }, layout);
    for (const { id, base32, base58, base62, ...parts } of ids) {
      const want = Object.fromEntries(Object.entries(parts).map(([k, v]) => [k, BigInt(v)]));
      assert.deepEqual(snowflake.decode(layout, BigInt(id)), want);
      assert.equal(snowflake.encode(layout, want), BigInt(id));
      for (const [form, text] of Object.entries({ decimal: id, base32, base58, base62 })) {
        const [write, parse] = forms[form];
        assert.equal(write(BigInt(id)), text);
        assert.equal(parse(text), BigInt(id));
      }
    }
  }
  for (const { form, texts } of refused) {
    for (const text of form in forms ? texts : []) throws(() => forms[form][1](text), "ErrInvalidID", `${form} ${text}`);
  }
});

// Package opaque again, to show what another language needs: HKDF, AES, and numbers of 128 bits.
test("the texts and the number of package opaque", () => {
  const { opaque } = JSON.parse(readFileSync(new URL("./vectors.json", import.meta.url), "utf8"));
  const aes = (key, purpose, info) => {
    const derived = Buffer.from(hkdfSync("sha256", Buffer.from(key, "hex"), "", info + purpose, 32));
    return (block) => { // a BigInt of 128 bits
      const cipher = createCipheriv("aes-256-ecb", derived, null).setAutoPadding(false);
      return BigInt("0x" + cipher.update(block.toString(16).padStart(32, "0"), "hex", "hex"));
    };
  };
  const text = (n, digits, width) => (width === 0 ? "" : text(n / BigInt(digits.length), digits, width - 1) + digits[Number(n % BigInt(digits.length))]);
  const digits62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
  const bits = (n, count) => n & ((1n << BigInt(count)) - 1n);
  for (const v of opaque) {
    const id = BigInt(v.id);
    const block = aes(v.key, v.purpose, "snowflake/opaque/1/")(id);
    const prefix = v.prefix && v.prefix + "_";
    assert.equal(prefix + text(block, digits62, 22), v.base62);
    assert.equal(prefix + text(block, "0123456789abcdefghjkmnpqrstvwxyz", 26), v.base32);

    // FF1 of NIST SP 800-38G, for 63 bits: the halves have 31 and 32.
    const encrypt = aes(v.key, v.purpose, "snowflake/opaque/int/1/");
    const start = encrypt(0x01020100_00020a1f_0000003f_00000000n);
    let [left, right] = [id >> 32n, bits(id, 32)];
    for (let i = 0n; i < 10n; i++) {
      const y = encrypt(start ^ (i << 32n) ^ right) >> 64n;
      [left, right] = [right, bits(left + y, i % 2n ? 32 : 31)];
    }
    assert.equal(String((left << 32n) | right), v.int);
  }
});
