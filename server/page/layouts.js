// Code generated from internal/layouts by go generate ./server/page; DO NOT EDIT.
"use strict";

const knownLayouts = Object.freeze([
  {
    name: "default", also: [], about: "this library's default", source: "snowflake.DefaultLayout",
    weight: 4, random: false, since: null,
    layout: { epoch: 1767225600000n, unit: 1000000n, timeBits: 41, clockSeqBits: 0, datacenterBits: 0, workerBits: 10, sequenceBits: 12, workerLast: false },
  },
  {
    name: "twitter", also: ["hutool", "mybatis-plus"], about: "Twitter's snowflake, with 5 bits of datacenter", source: "twitter-archive/snowflake: IdWorker.scala",
    weight: 4, random: false, since: null,
    layout: { epoch: 1288834974657n, unit: 1000000n, timeBits: 41, clockSeqBits: 0, datacenterBits: 5, workerBits: 5, sequenceBits: 12, workerLast: false },
  },
  {
    name: "bwmarrin", also: ["leaf"], about: "bwmarrin/snowflake's default, and Meituan Leaf's", source: "bwmarrin/snowflake: snowflake.go; Meituan-Dianping/Leaf: SnowflakeIDGenImpl.java",
    weight: 4, random: false, since: null,
    layout: { epoch: 1288834974657n, unit: 1000000n, timeBits: 41, clockSeqBits: 0, datacenterBits: 0, workerBits: 10, sequenceBits: 12, workerLast: false },
  },
  {
    name: "clockseq", also: [], about: "the default with 3 bits of clock sequence", source: "snowflake.ClockSeqLayout",
    weight: 1, random: false, since: null,
    layout: { epoch: 1767225600000n, unit: 1000000n, timeBits: 41, clockSeqBits: 3, datacenterBits: 0, workerBits: 7, sequenceBits: 12, workerLast: false },
  },
  {
    name: "jssafe", also: [], about: "52 bits, for JavaScript's numbers", source: "snowflake.JSSafeLayout",
    weight: 1, random: false, since: null,
    layout: { epoch: 1767225600000n, unit: 1000000000n, timeBits: 33, clockSeqBits: 0, datacenterBits: 0, workerBits: 4, sequenceBits: 15, workerLast: false },
  },
  {
    name: "baidu", also: [], about: "Baidu's uid-generator, which ran out in 2024", source: "baidu/uid-generator: DefaultUidGenerator.java",
    weight: 1, random: false, since: null,
    layout: { epoch: 1463673600000n, unit: 1000000000n, timeBits: 28, clockSeqBits: 0, datacenterBits: 0, workerBits: 22, sequenceBits: 13, workerLast: false },
  },
  {
    name: "redis", also: [], about: "the Redis-based ID services", source: "hengyunabc/redis-id-generator: README.md",
    weight: 0.5, random: false, since: 1325376000000000000n,
    layout: { epoch: 0n, unit: 1000000n, timeBits: 41, clockSeqBits: 0, datacenterBits: 0, workerBits: 12, sequenceBits: 10, workerLast: false },
  },
  {
    name: "sonyflake", also: [], about: "sony/sonyflake, version 1", source: "sony/sonyflake: sonyflake.go",
    weight: 2, random: false, since: null,
    layout: { epoch: 1409529600000n, unit: 10000000n, timeBits: 39, clockSeqBits: 0, datacenterBits: 0, workerBits: 16, sequenceBits: 8, workerLast: true },
  },
  {
    name: "sonyflake-v2", also: [], about: "sony/sonyflake, version 2", source: "sony/sonyflake: v2/sonyflake.go",
    weight: 1, random: false, since: null,
    layout: { epoch: 1735689600000n, unit: 10000000n, timeBits: 39, clockSeqBits: 0, datacenterBits: 0, workerBits: 16, sequenceBits: 8, workerLast: true },
  },
  {
    name: "discord", also: ["disgo"], about: "Discord's IDs, and disgo's for bots", source: "Discord's API reference; disgoorg/snowflake: snowflake.go",
    weight: 4, random: false, since: null,
    layout: { epoch: 1420070400000n, unit: 1000000n, timeBits: 41, clockSeqBits: 0, datacenterBits: 5, workerBits: 5, sequenceBits: 12, workerLast: false },
  },
  {
    name: "instagram", also: [], about: "Instagram's sharded IDs", source: "Instagram's engineering blog, 2012",
    weight: 1, random: false, since: null,
    layout: { epoch: 1314220021721n, unit: 1000000n, timeBits: 40, clockSeqBits: 0, datacenterBits: 0, workerBits: 13, sequenceBits: 10, workerLast: false },
  },
  {
    name: "mastodon", also: [], about: "Mastodon's, whose low 16 bits are scrambled", source: "mastodon/mastodon: lib/mastodon/snowflake.rb",
    weight: 1, random: true, since: 1451606400000000000n,
    layout: { epoch: 0n, unit: 1000000n, timeBits: 47, clockSeqBits: 0, datacenterBits: 0, workerBits: 0, sequenceBits: 16, workerLast: false },
  },
  {
    name: "hazelcast", also: [], about: "Hazelcast's FlakeIdGenerator", source: "hazelcast/hazelcast: FlakeIdGeneratorConfig.java, FlakeIdGeneratorProxy.java",
    weight: 1, random: false, since: null,
    layout: { epoch: 1514764800000n, unit: 1000000n, timeBits: 41, clockSeqBits: 0, datacenterBits: 0, workerBits: 16, sequenceBits: 6, workerLast: true },
  },
  {
    name: "shardingsphere", also: [], about: "ShardingSphere's, on a machine set to UTC", source: "apache/shardingsphere: SnowflakeKeyGenerateAlgorithm.java",
    weight: 1, random: false, since: null,
    layout: { epoch: 1477958400000n, unit: 1000000n, timeBits: 41, clockSeqBits: 0, datacenterBits: 0, workerBits: 10, sequenceBits: 12, workerLast: false },
  },
  {
    name: "shardingsphere-cst", also: [], about: "ShardingSphere's, on a machine set to UTC+8", source: "apache/shardingsphere: SnowflakeKeyGenerateAlgorithm.java",
    weight: 1, random: false, since: null,
    layout: { epoch: 1477929600000n, unit: 1000000n, timeBits: 41, clockSeqBits: 0, datacenterBits: 0, workerBits: 10, sequenceBits: 12, workerLast: false },
  },
  {
    name: "pgedge", also: [], about: "pgEdge's snowflake sequences for PostgreSQL", source: "pgEdge/snowflake: snowflake.c",
    weight: 1, random: false, since: null,
    layout: { epoch: 1672531200000n, unit: 1000000n, timeBits: 41, clockSeqBits: 0, datacenterBits: 0, workerBits: 10, sequenceBits: 12, workerLast: false },
  },
  {
    name: "yitter", also: [], about: "yitter/idgenerator's default", source: "yitter/idgenerator-go: idgen/IdGeneratorOptions.go",
    weight: 1, random: false, since: null,
    layout: { epoch: 1582136402000n, unit: 1000000n, timeBits: 51, clockSeqBits: 0, datacenterBits: 0, workerBits: 6, sequenceBits: 6, workerLast: false },
  },
  {
    name: "cosid", also: [], about: "CosId's MillisecondSnowflakeId", source: "Ahoo-Wang/CosId: CosId.java, MillisecondSnowflakeId.java",
    weight: 1, random: false, since: null,
    layout: { epoch: 1577203200000n, unit: 1000000n, timeBits: 41, clockSeqBits: 0, datacenterBits: 0, workerBits: 10, sequenceBits: 12, workerLast: false },
  },
  {
    name: "cosid-second", also: [], about: "CosId's SecondSnowflakeId", source: "Ahoo-Wang/CosId: CosId.java, SecondSnowflakeId.java",
    weight: 0.3, random: false, since: null,
    layout: { epoch: 1577203200000n, unit: 1000000000n, timeBits: 31, clockSeqBits: 0, datacenterBits: 0, workerBits: 10, sequenceBits: 22, workerLast: false },
  },
  {
    name: "godruoyi", also: [], about: "godruoyi/go-snowflake's default", source: "godruoyi/go-snowflake: snowflake.go",
    weight: 1, random: false, since: 1546300800000000000n,
    layout: { epoch: 1226358000000n, unit: 1000000n, timeBits: 41, clockSeqBits: 0, datacenterBits: 0, workerBits: 10, sequenceBits: 12, workerLast: false },
  },
  {
    name: "tsid", also: ["hypersistence-tsid"], about: "TSIDs, of tsid-creator and hypersistence-tsid", source: "vladmihalcea/hypersistence-tsid: TSID.java",
    weight: 1, random: true, since: null,
    layout: { epoch: 1577836800000n, unit: 1000000n, timeBits: 41, clockSeqBits: 0, datacenterBits: 0, workerBits: 10, sequenceBits: 12, workerLast: false },
  },
  {
    name: "cockroachdb", also: [], about: "CockroachDB's unique_rowid()", source: "cockroachdb/cockroach: pkg/sql/sem/builtins",
    weight: 1, random: false, since: null,
    layout: { epoch: 1420070400000n, unit: 10000n, timeBits: 48, clockSeqBits: 0, datacenterBits: 0, workerBits: 15, sequenceBits: 0, workerLast: false },
  },
  {
    name: "tidb-tso", also: [], about: "TiDB's and TiKV's timestamps (TSO)", source: "tikv/client-go: oracle/oracle.go",
    weight: 0.5, random: false, since: 1451606400000000000n,
    layout: { epoch: 0n, unit: 1000000n, timeBits: 45, clockSeqBits: 0, datacenterBits: 0, workerBits: 0, sequenceBits: 18, workerLast: false },
  },
  {
    name: "atproto-tid", also: [], about: "Bluesky's TIDs, whose low 10 bits are random", source: "the AT Protocol's specification of TIDs",
    weight: 1, random: true, since: 1640995200000000000n,
    layout: { epoch: 0n, unit: 1000n, timeBits: 53, clockSeqBits: 0, datacenterBits: 0, workerBits: 10, sequenceBits: 0, workerLast: false },
  },
]);
