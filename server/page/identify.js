// Which known layouts IDs are of, and which IDs a text has. It is
// internal/layouts of the Go library once more; the tests hold it to that package.
"use strict";

const identify = (() => {
  const { decode, check, formatTime, parse, parseBase32, parseBase58, parseBase62, quote, SnowflakeError } = snowflake;
  const second = 1_000_000_000n;
  const day = 86_400n * second;

  /** How far ahead of now an ID's time may lie. */
  const tolerance = day;

  /** How many IDs are looked at. */
  const most = 10_000;

  const maxBits = 63;

  // Ranking.

  /** A span of time in seconds, rounded as Go's Duration.Seconds is. */
  const seconds = (nanos) => Number(nanos / second) + Number(nanos % second) / 1e9;

  const since = (known) => known.since ?? known.layout.epoch * 1_000_000n;

  /** Says why an ID cannot be of a layout, or returns "". */
  function refuse(known, id, time, now) {
    try {
      check(known.layout, id);
    } catch (e) {
      if (e instanceof SnowflakeError) return "it has more bits than the layout";
      throw e;
    }
    if (time < since(known)) return `its time, ${dateOf(time)}, is before there were such IDs`;
    if (time > now + tolerance) return `its time, ${dateOf(time)}, lies in the future`;
    return "";
  }

  /**
   * Ranks the known layouts, the likeliest first. It is a
   * generator that yields after each layout, so that a page can stay usable.
   */
  function* rankSteps(ids, now) {
    const sorted = [...new Set(ids.slice(0, most))].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    const matches = [];
    const random = -sorted.length * maxBits * Math.LN2;
    let best = random;
    for (const known of knownLayouts) {
      const m = { known, share: 0, ...judge(known, sorted, now) };
      if (!m.not) best = Math.max(best, m.log);
      matches.push(m);
      yield;
    }
    let sum = Math.exp(random - best);
    for (const m of matches) {
      if (m.not) continue;
      m.share = Math.exp(m.log - best);
      sum += m.share;
    }
    for (const m of matches) m.share /= sum;
    twins(matches);
    return matches.sort((a, b) => b.share - a.share);
  }

  function rank(ids, now) {
    const steps = rankSteps(ids, now);
    for (;;) {
      const { done, value } = steps.next();
      if (done) return value;
    }
  }

  /** The most that a layout can have of the share of all that differ in the epoch only. */
  const mostOfTwins = 0.8;

  /** Caps the share of a layout if others differ from it in the epoch only. */
  function twins(matches) {
    const groups = new Map();
    for (const m of matches) {
      if (m.not) continue;
      const { unit, timeBits, clockSeqBits, datacenterBits, workerBits, sequenceBits, workerLast } = m.known.layout;
      const key = [unit, timeBits, clockSeqBits, datacenterBits, workerBits, sequenceBits, workerLast, m.known.random].join();
      groups.set(key, [...(groups.get(key) ?? []), m]);
    }
    for (const group of groups.values()) {
      if (group.length < 2) continue;
      const sum = group.reduce((s, m) => s + m.share, 0);
      const best = group.reduce((a, b) => (b.share > a.share ? b : a));
      const excess = best.share - mostOfTwins * sum;
      if (excess > 0) {
        best.share -= excess;
        const others = group.filter((m) => m !== best);
        const weights = others.reduce((s, m) => s + m.known.weight, 0);
        for (const m of others) m.share += (excess * m.known.weight) / weights;
      }
      for (const m of group) {
        m.why.push("only the epoch tells it from " + group.filter((o) => o !== m).map((o) => o.known.name).join(", "));
      }
    }
  }

  /** The logarithm of the probability of the IDs, which are sorted. */
  function judge(known, ids, now) {
    let log = Math.log(known.weight);
    let reason = "";
    const before = new Map(); // the last ID of each generator
    const e = {
      refused: 0, counted: 0, ticks: 0, first: null, last: null, workers: new Map(), clockSeqs: new Set(), starts: 0, zeros: 0, maxSequence: 0,
    };
    for (const id of ids) {
      const p = decode(known.layout, id);
      const r = refuse(known, id, p.time, now);
      if (r) {
        log += Math.log(0.01) - maxBits * Math.LN2; // any number, instead of an ID: one in a hundred is
        e.refused++;
        reason ||= r;
        continue;
      }
      const g = `${p.clockSeq}/${p.datacenter}/${p.worker}`;
      const sequence = Number(p.sequence);
      log += timeOf(known, p.time, e, now);
      log += workerOf(known.layout, p, g, e);
      log += sequenceOf(known, p.time, sequence, before.get(g), e);
      before.set(g, { time: p.time, sequence });
      e.last = p.time;
      e.maxSequence = Math.max(e.maxSequence, sequence);
    }
    if (ids.length === 0) return { log, why: [], not: "there are no IDs" };
    if (2 * e.refused > ids.length) {
      return { log, why: [], not: ids.length > 1 ? `${e.refused} of ${ids.length}: ${reason}` : reason };
    }
    return { log, why: why(known.layout, e, ids.length, now), not: "" };
  }

  /** The logarithm of the probability of a time, given the times before it. */
  function timeOf(known, time, e, now) {
    const unit = seconds(known.layout.unit);
    const span = Math.max(1, seconds(now - since(known)));
    if (e.last === null) {
      e.first = time;
      e.ticks++;
      const year = 365 * 24 * 3600; // half of all questions are about an ID of the last year
      const age = Math.max(0, seconds(now - time));
      return Math.log(unit / ((age + year) * Math.log((span + year) / year)));
    }
    const delta = Math.round(seconds(time - e.last) / unit);
    if (delta > 0) e.ticks++;
    const longest = 20 * 365 * 24 * 3600; // for layouts of every age
    return -Math.log((delta + 1) * (Math.log(longest / unit + 1) + 1));
  }

  /** The logarithm of the probability of a generator, which is often one seen before. */
  function workerOf(l, p, g, e) {
    const seen = e.workers.get(g) ?? 0;
    const all = e.counted++;
    e.workers.set(g, seen + 1);
    if (seen > 0) return Math.log(seen / (all + 1));
    let clockSeq = 0; // few clocks step back: it costs something where it first comes
    if (!e.clockSeqs.has(p.clockSeq)) {
      e.clockSeqs.add(p.clockSeq);
      clockSeq = small(Number(p.clockSeq), l.clockSeqBits);
    }
    return -Math.log(all + 1) + clockSeq + small(Number(p.datacenter), l.datacenterBits) + small(Number(p.worker), l.workerBits);
  }

  /** The logarithm of the probability of a sequence number, after the generator's last ID. */
  function sequenceOf(known, time, sequence, last, e) {
    const bits = known.layout.sequenceBits;
    if (bits === 0) return 0;
    const any = -bits * Math.LN2;
    if (last && last.time === time) return sequence === last.sequence + 1 ? Math.log(0.9) : Math.log(0.1) + any;
    if (known.random) return any;
    const { zeros, starts } = e;
    e.starts++;
    if (sequence === 0) {
      e.zeros++;
      return Math.log((zeros + 1) / (starts + 2));
    }
    return Math.log((starts - zeros + 1) / (starts + 2)) + small(sequence - 1, bits);
  }

  /** The logarithm of the probability of a field's value: small ones are likelier. */
  function small(v, bits) {
    if (bits === 0) return 0;
    const size = 2 ** bits;
    return Math.log(0.8 / ((v + 1) * (Math.log(size) + 0.6)) + 0.2 / size);
  }

  function why(l, e, n, now) {
    if (n === 1) {
      const said = [`its time is ${toMillis(e.first)}, ${ago(now - e.first)}`];
      const [clockSeq, datacenter, worker] = [...e.workers.keys()][0].split("/");
      if (l.clockSeqBits > 0) said.push(`clock sequence ${clockSeq}`);
      if (l.datacenterBits > 0) said.push(`datacenter ${datacenter}`);
      if (l.workerBits > 0) said.push(`worker ${worker}`);
      if (l.sequenceBits > 0) said.push(`sequence ${e.maxSequence}`);
      return said;
    }
    const said = [`times from ${toMillis(e.first)} to ${toMillis(e.last)}`];
    if (l.clockSeqBits + l.datacenterBits + l.workerBits > 0) said.push(count(e.workers.size, "generator"));
    said.push(count(e.ticks, "tick"));
    if (l.sequenceBits > 0) said.push(`sequences up to ${e.maxSequence}`);
    if (e.refused > 0) said.push(`but ${e.refused} of ${n} IDs are not of it`);
    return said;
  }

  const dateOf = (time) => formatTime(time).split("T")[0];
  const toMillis = (time) => formatTime(time).replace(/(\.\d{3})\d*Z$/, "$1Z");
  const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

  function ago(nanos) {
    if (nanos < 0n) return "just ahead of now";
    if (nanos < 2n * day) return "in the last two days";
    if (nanos < 365n * day) return `${count(Number(nanos / day), "day")} ago`;
    return `${(seconds(nanos) / 3600 / 24 / 365.25).toFixed(1)} years ago`;
  }

  // Texts.

  const sortable = "234567abcdefghijklmnopqrstuvwxyz";

  /** Reads a TID of the AT Protocol: 13 digits of 5 bits, of which the first has 4. */
  function parseSortable(s) {
    if (s.length !== 13 || [...s].some((c) => !sortable.includes(c)) || sortable.indexOf(s[0]) > 7) {
      throw new SnowflakeError("ErrInvalidID", `base 32, sortable ${quote(s.slice(0, 32))}: it is not 13 of the characters ${sortable}`);
    }
    let id = 0n;
    for (const c of s) id = (id << 5n) | BigInt(sortable.indexOf(c));
    return id;
  }

  /**
   * The ways to write IDs, in the order in which they are tried. A text that does not
   * match like has no ID in the form; to match is quicker than to parse.
   */
  const forms = [
    { name: "decimal", parse, like: /^[0-9]{1,19}$/ },
    { name: "base 32", parse: parseBase32, like: /^[0-7][0-9A-HJKMNP-TV-Z]{12}$/ },
    { name: "base 62", parse: parseBase62, like: /^[0-9A-Za-z]{11}$/ },
    { name: "base 58", parse: parseBase58, like: /^[1-9A-HJ-NP-Za-km-z]{1,11}$/ },
    { name: "base 32, sortable", parse: parseSortable, like: /^[2-7a-j][2-7a-z]{12}$/ },
  ];

  /** The ID that a text is in a form, or null. */
  function idOf(form, text) {
    if (!form.like.test(text)) return null;
    try {
      return form.parse(text);
    } catch (e) {
      if (e instanceof SnowflakeError) return null;
      throw e;
    }
  }

  /** Why a text is no ID in a form. */
  function reasonIn(form, text) {
    try {
      form.parse(text);
      return "";
    } catch (e) {
      return e.message;
    }
  }

  /** How many errors a reading explains. */
  const mostErrors = 10;

  /** The IDs of the words in a form, how many words are no IDs, and why the first of them are not. */
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

  /** Names a text that is an ID of another kind, or returns "". */
  function foreign(s) {
    if (/^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$/.test(s)) return `a UUID, version ${s[14]}`;
    if (/^[0-9A-HJKMNP-TV-Z]{26}$/.test(s.toUpperCase())) return "a ULID";
    if (/^[2-9a-x]{16}$/.test(s)) return "an ID of muyo/sno, of 80 bits";
    if (/^[0-9a-f]{24}$/.test(s)) return "an ObjectID of MongoDB, of 96 bits";
    if (/^[0-9a-v]{20}$/.test(s)) return "an ID of rs/xid, of 96 bits";
    return "";
  }

  /** The lines of a text that are not blank, with their numbers and words. */
  function wordsOf(text) {
    const lines = [];
    text.split(/\r\n|\r|\n/).forEach((line, i) => {
      const words = line.split(/[\s,;"'[\]]+/).filter(Boolean);
      if (words.length > 0) lines.push({ number: i + 1, text: line, words });
    });
    return lines;
  }

  /**
   * The IDs in lines of a log: runs of 15 to 19 decimal digits without a leading zero,
   * that no letter touches and that are not the fraction of a number.
   */
  function readLog(lines) {
    const items = [];
    for (const { text, number } of lines) {
      for (const [digits] of text.matchAll(/(?<![0-9A-Za-z]|[0-9]\.)[1-9][0-9]{14,18}(?![0-9A-Za-z])/g)) {
        const id = BigInt(digits);
        if (id < 1n << 63n) items.push({ id, line: number });
      }
    }
    return items;
  }

  /**
   * The readings of a text, the likeliest first: {form, items: [{id, line}], errors:
   * [{line, message}], refused}, where refused counts the words that are no IDs. A text without IDs has no reading, and a reason for it.
   */
  function read(text, now) {
    const lines = wordsOf(text);
    if (lines.length === 0) return { readings: [], lines: 0, reason: "" };
    const words = lines.flatMap((l) => l.words.map((w) => ({ text: w, line: l.number })));
    const all = forms.map((f) => readAs(f, words));
    const best = Math.max(...all.map((r) => r.items.length));
    const list = lines.every((l) => l.words.length === 1);
    // Short words of a sentence are base 58 by accident.
    const ids = list ? best > 0 : best === words.length && words.every((w) => w.text.length >= 8);
    if (ids) {
      const readings = all.filter((r) => r.items.length === best);
      return { readings: byLikelihood(readings, now), lines: lines.length, reason: "" };
    }
    const items = readLog(lines);
    if (items.length > 0) return { readings: [{ form: "log", items, errors: [], refused: 0 }], lines: lines.length, reason: "" };
    return { readings: [], lines: lines.length, reason: reasonOf(words) };
  }

  /** Digits only are decimal; else the share of the readings' best known layouts decides. */
  function byLikelihood(readings, now) {
    if (readings.length < 2) return readings;
    const share = (r) => (r.form === "decimal" ? 2 : rank(r.items.slice(0, 20).map((i) => i.id), now)[0].share);
    return readings.map((reading) => ({ reading, share: share(reading) })).sort((a, b) => b.share - a.share).map((r) => r.reading);
  }

  /** Why a text has no IDs: the reason of the form that the first word comes nearest to. */
  function reasonOf(words) {
    if (words.length > 1) {
      return `no ID in ${words.length} words: write one ID a line, or a text with a decimal ID of 15 to 19 digits`;
    }
    const [{ text }] = words;
    const other = foreign(text);
    if (other) return `${quote(text)} is ${other}, which has more than 64 bits`;
    const reasonAs = (name) => reasonIn(forms.find((f) => f.name === name), text);
    if (/^[-+]?[0-9]+$/.test(text)) return reasonAs("decimal");
    if (text.length === 13) return reasonAs("base 32");
    if (text.length === 11) return reasonAs("base 62");
    if (text.length < 11) return reasonAs("base 58");
    return `${quote(text.slice(0, 32))}${text.length > 32 ? "..." : ""} has ${text.length} characters: an ID has 1 to 19 digits in decimal, 13 characters in base 32, 1 to 11 in base 58, 11 in base 62`;
  }

  return { rank, rankSteps, read, foreign, ago, count, forms, tolerance };
})();
