package layouts

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// To add a layout, write it here, in layouts.go with its table, layouts_test.go, js/snowflake.js and
// js/snowflake.d.ts. Take the figures of identify.go from "SNOWFLAKE_FULL=1 go test -run Calibration
// -v ./layouts". Then run the tests of js and cmd/snowflake with -update, and review the diff.

// Known is a layout that a known system or library uses.
type Known struct {
	Name   string
	Also   []string // the names of other libraries with the same layout
	Layout snowflake.Layout
	About  string // a description, as a phrase
	Source string // the file or document that defines it

	// Form is the usual form of these IDs, if it is not decimal.
	Form string

	// NodeFirst is true if an ID has the worker above the time. Layout has the fields in another
	// order then, and does not decode the ID. All has no such layout.
	NodeFirst bool

	// hosts are the sites whose URLs, and the namespaces whose URNs, contain IDs of this layout.
	hosts []string

	// since is a time before the first ID; zero for the epoch. If a layout counts from 1970, its first
	// ID is much later than its epoch.
	since time.Time

	// random is true if the layout's sequence is random or scrambled, instead of counting up from 0
	// in each tick.
	random bool

	// countsOn is true if the sequence continues from tick to tick, instead of beginning with 0.
	countsOn bool

	// anyWorker is true if a worker's number is part of its address, so that small numbers are
	// no likelier than others.
	anyWorker bool

	// likelihood returns the probability of the datacenter and the worker of an ID in the system that
	// the layout is named after, if that is known; otherwise is their probability in any layout. share
	// is the share of the system's IDs among all of the layout.
	likelihood func(p snowflake.Parts, otherwise float64) float64
	share      float64

	use       use   // the default use
	otherUses []use // for other purposes

	// frequency is the relative frequency with which people meet IDs of this layout.
	frequency float64
}

// All returns the known layouts: first this library's own, then the others, roughly the best known
// first.
func All() []Known { return slices.Clone(table) }

// use is a way to use a layout.
type use struct {
	lowerHalf  bool // each tick's sequence starts at a random number of the lower half
	largeFleet bool // each run may be of any worker, because hundreds have random worker IDs
}

// Other uses of this library: with Options.RandomStart, and by a large fleet.
var (
	randomStart = use{lowerHalf: true}
	largeFleet  = use{largeFleet: true}
)

var table = []Known{
	{Name: "default", Layout: snowflake.DefaultLayout(), About: "this library's default",
		Source: "snowflake.DefaultLayout", otherUses: []use{randomStart, largeFleet}, frequency: 5},
	{Name: "twitter", Also: []string{"hutool", "mybatis-plus"}, Layout: Twitter(),
		About:  "Twitter's snowflake (Scala), with 5 bits of datacenter; hutool and mybatis-plus (Java)",
		Source: "twitter-archive/snowflake: IdWorker.scala", hosts: []string{"twitter.com", "x.com"},
		likelihood: ofTwitter, share: 0.8, frequency: 50},
	{Name: "bwmarrin", Also: []string{"leaf"}, Layout: Bwmarrin(),
		About:  "the default of bwmarrin/snowflake (Go), and of Meituan's Leaf (Java)",
		Source: "bwmarrin/snowflake: snowflake.go; Meituan-Dianping/Leaf: SnowflakeIDGenImpl.java", frequency: 12},
	{Name: "clockseq", Layout: snowflake.ClockSeqLayout(), About: "the default with 3 bits of clock sequence",
		Source: "snowflake.ClockSeqLayout", otherUses: []use{randomStart, largeFleet}, frequency: 0.5},
	{Name: "jssafe", Layout: snowflake.JSSafeLayout(), About: "52 bits, for JavaScript's numbers",
		Source: "snowflake.JSSafeLayout", otherUses: []use{randomStart}, frequency: 0.5},
	{Name: "baidu", Layout: Baidu(), About: "the code's default of Baidu's uid-generator (Java), which ran out in 2024",
		Source: "baidu/uid-generator: DefaultUidGenerator.java", frequency: 0.5},
	{Name: "baidu-readme", Layout: in(time.Second, millis(29, 21, 13, 1474300800000)),
		About:  "Baidu's uid-generator (Java), as its README configures it, in China's zone",
		Source: "baidu/uid-generator: README.md", frequency: 1},
	{Name: "redis", Layout: Redis(), About: "the Redis-based ID services (Lua)",
		Source: "hengyunabc/redis-id-generator: README.md", since: year(2012), frequency: 1},
	{Name: "unix", Also: []string{"linkedin", "clickhouse", "vd2org", "rs-snowflake"}, Layout: millis(41, 10, 12, snowflake.UnixEpoch),
		About:  "counted from 1970: LinkedIn, ClickHouse's generateSnowflakeID (C++), vd2org/snowflake (Python)",
		Source: "ClickHouse/ClickHouse: generateSnowflakeID.cpp; vd2org/snowflake: generator.py", hosts: []string{"linkedin.com", "urn:li"},
		since: year(2012), anyWorker: true, frequency: 10},
	{Name: "sonyflake", Layout: Sonyflake(), About: "sony/sonyflake (Go), version 1",
		Source: "sony/sonyflake: sonyflake.go", anyWorker: true, frequency: 4},
	{Name: "sonyflake-v2", Layout: SonyflakeV2(), About: "sony/sonyflake (Go), version 2",
		Source: "sony/sonyflake: v2/sonyflake.go", anyWorker: true, frequency: 2},
	{Name: "discord", Also: []string{"disgo"}, Layout: Discord(), About: "Discord's IDs, and disgo's for bots (Go)",
		Source: "Discord's API reference; disgoorg/snowflake: snowflake.go",
		hosts:  []string{"discord.com", "discordapp.com", "discordapp.net"}, countsOn: true,
		likelihood: ofDiscord, share: 0.9, frequency: 40},
	{Name: "tiktok", Also: []string{"douyin"}, Layout: workerLast(in(time.Second, millis(31, 14, 18, snowflake.UnixEpoch))),
		About:  "TikTok's: seconds, and below them 10 bits of milliseconds, a counter of 8 bits, and 14 bits of the place",
		Source: "dfir unfurl's parser of TikTok's IDs", hosts: []string{"tiktok.com", "douyin.com"},
		since: year(2015), random: true, frequency: 20},
	{Name: "instagram", Layout: Instagram(), About: "Instagram's sharded IDs (PL/pgSQL)",
		Source: "Instagram's engineering blog, 2012", hosts: []string{"instagram.com"}, random: true, frequency: 8},
	{Name: "weibo", Layout: in(time.Second, millis(32, 4, 18, 515483463000)),
		About:  "Weibo's: seconds since 1986-05-03, 4 bits of datacenter, a counter",
		Source: "parsers of Weibo's mid, such as cssxsh/weibo-helper",
		hosts:  []string{"weibo.com", "weibo.cn"}, since: year(2011), random: true, frequency: 2},
	{Name: "mastodon", Layout: Mastodon(), About: "Mastodon's (Ruby), whose low 16 bits are scrambled",
		Source: "mastodon/mastodon: lib/mastodon/snowflake.rb",
		hosts:  []string{"mastodon.social", "mastodon.online"}, since: year(2016), random: true, frequency: 5},
	{Name: "hazelcast", Layout: Hazelcast(), About: "Hazelcast's FlakeIdGenerator (Java)",
		Source: "hazelcast/hazelcast: FlakeIdGeneratorConfig.java, FlakeIdGeneratorProxy.java", frequency: 1},
	{Name: "shardingsphere", Layout: ShardingSphere(), About: "ShardingSphere's (Java), on a machine set to UTC",
		Source: "apache/shardingsphere: SnowflakeKeyGenerateAlgorithm.java", frequency: 1},
	{Name: "shardingsphere-cst", Layout: ShardingSphereCST(), About: "ShardingSphere's (Java), on a machine set to UTC+8",
		Source: "apache/shardingsphere: SnowflakeKeyGenerateAlgorithm.java", frequency: 1},
	{Name: "pgedge", Layout: PgEdge(), About: "pgEdge's snowflake sequences for PostgreSQL (C), since the node has the higher bits",
		Source: "pgEdge/snowflake: snowflake.c", frequency: 1},
	{Name: "pgedge-node-last", Layout: workerLast(PgEdge()),
		About:  "pgEdge's snowflake sequences for PostgreSQL (C), before version 1.2, with the node in the lowest bits",
		Source: "pgEdge/snowflake: snowflake.c of version 1.0", frequency: 0.3},
	{Name: "yitter", Layout: Yitter(), About: "the default of yitter/idgenerator in Go, Java and other languages",
		Source: "yitter/idgenerator: Go/source/idgen/IdGeneratorOptions.go", frequency: 1},
	{Name: "yitter-csharp", Layout: millis(51, 6, 6, 1582165202020), About: "the default of yitter/idgenerator in C#",
		Source: "yitter/idgenerator: C#, IdGeneratorOptions.cs", frequency: 0.7},
	{Name: "cosid", Layout: CosID(), About: "CosId's MillisecondSnowflakeId (Java)",
		Source: "Ahoo-Wang/CosId: CosId.java, MillisecondSnowflakeId.java", frequency: 0.5},
	{Name: "cosid-second", Layout: CosIDSecond(), About: "CosId's SecondSnowflakeId (Java)",
		Source: "Ahoo-Wang/CosId: CosId.java, SecondSnowflakeId.java", frequency: 0.3},
	{Name: "godruoyi", Layout: Godruoyi(), About: "the default of godruoyi/go-snowflake (Go)",
		Source: "godruoyi/go-snowflake: snowflake.go", since: year(2019), frequency: 0.5},
	{Name: "godruoyi-php", Layout: datacenters(millis(41, 10, 12, 1565251688000)),
		About:  "the default of godruoyi/php-snowflake (PHP), if PHP's zone is UTC",
		Source: "godruoyi/php-snowflake: src/Snowflake.php", countsOn: true, frequency: 1},
	{Name: "godruoyi-php-cst", Layout: datacenters(millis(41, 10, 12, 1565222888000)),
		About:  "the default of godruoyi/php-snowflake (PHP), if PHP's zone is China's",
		Source: "godruoyi/php-snowflake: src/Snowflake.php", countsOn: true, frequency: 1},
	{Name: "zheng-ji", Layout: millis(41, 10, 12, 1474802888000), About: "zheng-ji/goSnowFlake (Go)",
		Source: "zheng-ji/goSnowFlake: goSnowFlake.go", frequency: 0.5},
	{Name: "idgen", Layout: millis(41, 10, 12, discordEpoch), About: "the default of RobThree/IdGen (C#): Discord's epoch",
		Source: "RobThree/IdGen: IdGeneratorOptions.cs", frequency: 1},
	{Name: "laravel-snowflake", Layout: datacenters(millis(41, 10, 12, 1554076800000)),
		About:  "the default of kra8/laravel-snowflake (PHP), in UTC",
		Source: "kra8/laravel-snowflake: config/snowflake.php", frequency: 0.5},
	{Name: "snowflake-uuid", Layout: datacenters(millis(41, 10, 12, 1609459200000)), About: "the default of snowflake-uuid (JavaScript)",
		Source: "npm: snowflake-uuid", frequency: 0.5},
	{Name: "snowid", Layout: millis(41, 10, 12, 1704067200000), About: "the default of snowid (Rust)",
		Source: "crates.io: snowid", frequency: 0.5},
	{Name: "tsid", Also: []string{"hypersistence-tsid"}, Layout: TSID(), About: "TSIDs, of tsid-creator and hypersistence-tsid (Java)",
		Source: "vladmihalcea/hypersistence-tsid: TSID.java", random: true, frequency: 10},
	{Name: "cockroachdb", Layout: CockroachDB(), About: "CockroachDB's unique_rowid()",
		Source: "cockroachdb/cockroach: pkg/sql/sem/builtins", frequency: 4},
	{Name: "tidb-tso", Layout: TiDB(), About: "TiDB's and TiKV's timestamps (TSO)",
		Source: "tikv/client-go: oracle/oracle.go", since: year(2016), frequency: 1},
	{Name: "atproto-tid", Also: []string{"bluesky"}, Layout: ATProto(), Form: "base 32, sortable",
		About:  "Bluesky's TIDs, whose low 10 bits are random",
		Source: "the AT Protocol's specification of TIDs", hosts: []string{"bsky.app", "at://"},
		since: year(2022), random: true, frequency: 0.1},
	{Name: "seata-1.4", Layout: seata, Form: xid,
		About:  "Seata's (Java), up to version 1.4",
		Source: "seata/seata: IdWorker.java of version 1.4", anyWorker: true, frequency: 0.5},
	{Name: "pubnub", Layout: timestamps(100*time.Nanosecond, 60),
		About:  "PubNub's timetokens: a Unix time in units of 100 ns",
		Source: "PubNub's documentation, timetokens", since: year(2010), frequency: 1},
	{Name: "unix-nanoseconds", Layout: timestamps(time.Nanosecond, 63),
		About: "a Unix time in nanoseconds, such as Go's UnixNano: no ID", Source: "POSIX", since: year(2005), frequency: 2},
	{Name: "unix-microseconds", Layout: timestamps(time.Microsecond, 53),
		About: "a Unix time in microseconds: no ID", Source: "POSIX", since: year(2005), frequency: 2},
	{Name: "unix-milliseconds", Layout: timestamps(time.Millisecond, 43),
		About: "a Unix time in milliseconds, such as JavaScript's Date.now: no ID", Source: "POSIX", since: year(2005), frequency: 2},
}

// rearranged are the layouts with NodeFirst.
var rearranged = []Known{
	{Name: "seata", Layout: seata, Form: xid, NodeFirst: true,
		About:  "Seata's (Java), since version 1.5, with the node above the time",
		Source: "seata/seata: IdWorker.java, since pull request 3175", anyWorker: true, random: true, frequency: 1},
}

// seata counts from 2020-05-03 in China's zone. xid is the form of Seata's IDs.
var seata = millis(41, 10, 12, 1588435200000)

const xid = "XID of Seata"

// ofTwitter has the datacenters of Twitter's published IDs since 2015: mostly 11, and none below 8.
// For earlier years it returns otherwise.
func ofTwitter(p snowflake.Parts, otherwise float64) float64 {
	likely := 0.0
	switch {
	case p.Time.Before(year(2015)):
		return otherwise
	case p.Datacenter < 8:
	case p.Datacenter == 11:
		likely = 0.6
	case p.Datacenter == 10:
		likely = 0.15
	case p.Datacenter < 14:
		likely = 0.04
	default:
		likely = 0.09 / 18
	}
	return likely / 32
}

// ofDiscord has the fields of Discord's published IDs: nearly all have process 0, the worker here.
func ofDiscord(p snowflake.Parts, _ float64) float64 {
	likely := 0.25 * mixed(p.Worker-1, 5, 0.9)
	if p.Worker == 0 {
		likely = 0.75
	}
	return likely * mixed(p.Datacenter, 5, 0.5)
}

func year(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }

// ByName returns the layout whose Name is name, or whose Also contains name. If there is no such
// layout, ok is false.
func ByName(name string) (k Known, ok bool) {
	for _, k := range table {
		if k.Name == name || slices.Contains(k.Also, name) {
			return k, true
		}
	}
	return Known{}, false
}

// ByHost returns the layout of the IDs in the URLs of a host, such as x.com or www.x.com. If the
// host is not known, ok is false.
func ByHost(host string) (k Known, ok bool) {
	host = strings.ToLower(host)
	for _, k := range table {
		for _, h := range k.hosts {
			if host == h || strings.HasSuffix(host, "."+h) {
				return k, true
			}
		}
	}
	return Known{}, false
}

// earliest returns a time before the first ID.
func (k *Known) earliest() time.Time {
	if k.since.IsZero() {
		return k.Layout.Epoch.Time()
	}
	return k.since
}
