package layouts

import (
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Known is a layout that a known system or library uses.
type Known struct {
	Name   string
	Also   []string // the names of other libraries with the same layout
	Layout snowflake.Layout
	About  string // a phrase for people
	Source string // the file or document that defines it

	// hosts are the sites whose URLs have IDs of this layout.
	hosts []string

	// since is a time before the first ID; if it is zero, the epoch. If a layout
	// counts from 1970, its first ID is much later than its epoch.
	since time.Time

	// random is true if the layout's sequence is random or scrambled, and does not
	// count up from 0 in each tick.
	random bool

	// countsOn is true if the sequence goes on from tick to tick, and does not begin with 0.
	countsOn bool

	// anyWorker is true if a worker's number is part of its address, so that small numbers are
	// no likelier than others.
	anyWorker bool

	// common says how often people meet IDs of this layout, beside the others.
	common float64
}

// All returns the known layouts: first this library's own, then by how well known they are.
func All() []Known {
	return []Known{
		{Name: "default", Layout: snowflake.DefaultLayout(), About: "this library's default", Source: "snowflake.DefaultLayout", common: 20},
		{Name: "twitter", Also: []string{"hutool", "mybatis-plus"}, Layout: Twitter(),
			About: "Twitter's snowflake, with 5 bits of datacenter", Source: "twitter-archive/snowflake: IdWorker.scala", hosts: []string{"twitter.com", "x.com"}, common: 50},
		{Name: "bwmarrin", Also: []string{"leaf"}, Layout: Bwmarrin(),
			About: "bwmarrin/snowflake's default, and Meituan Leaf's", Source: "bwmarrin/snowflake: snowflake.go; Meituan-Dianping/Leaf: SnowflakeIDGenImpl.java", common: 12},
		{Name: "clockseq", Layout: snowflake.ClockSeqLayout(), About: "the default with 3 bits of clock sequence", Source: "snowflake.ClockSeqLayout", common: 1},
		{Name: "jssafe", Layout: snowflake.JSSafeLayout(), About: "52 bits, for JavaScript's numbers", Source: "snowflake.JSSafeLayout", common: 1},
		{Name: "baidu", Layout: Baidu(), About: "Baidu's uid-generator, which ran out in 2024", Source: "baidu/uid-generator: DefaultUidGenerator.java", common: 1},
		{Name: "redis", Layout: Redis(), About: "the Redis-based ID services", Source: "hengyunabc/redis-id-generator: README.md", since: year(2012), common: 1},
		{Name: "sonyflake", Layout: Sonyflake(), About: "sony/sonyflake, version 1", Source: "sony/sonyflake: sonyflake.go", anyWorker: true, common: 5},
		{Name: "sonyflake-v2", Layout: SonyflakeV2(), About: "sony/sonyflake, version 2", Source: "sony/sonyflake: v2/sonyflake.go", anyWorker: true, common: 2},
		{Name: "discord", Also: []string{"disgo"}, Layout: Discord(),
			About: "Discord's IDs, and disgo's for bots", Source: "Discord's API reference; disgoorg/snowflake: snowflake.go", hosts: []string{"discord.com", "discordapp.com", "discordapp.net"}, countsOn: true, common: 40},
		{Name: "instagram", Layout: Instagram(), About: "Instagram's sharded IDs", Source: "Instagram's engineering blog, 2012", hosts: []string{"instagram.com"}, random: true, common: 5},
		{Name: "mastodon", Layout: Mastodon(), About: "Mastodon's, whose low 16 bits are scrambled",
			Source: "mastodon/mastodon: lib/mastodon/snowflake.rb", hosts: []string{"mastodon.social", "mastodon.online"}, since: year(2016), random: true, common: 5},
		{Name: "hazelcast", Layout: Hazelcast(), About: "Hazelcast's FlakeIdGenerator",
			Source: "hazelcast/hazelcast: FlakeIdGeneratorConfig.java, FlakeIdGeneratorProxy.java", common: 0.5},
		{Name: "shardingsphere", Layout: ShardingSphere(), About: "ShardingSphere's, on a machine set to UTC",
			Source: "apache/shardingsphere: SnowflakeKeyGenerateAlgorithm.java", common: 1},
		{Name: "shardingsphere-cst", Layout: ShardingSphereCST(), About: "ShardingSphere's, on a machine set to UTC+8",
			Source: "apache/shardingsphere: SnowflakeKeyGenerateAlgorithm.java", common: 1},
		{Name: "pgedge", Layout: PgEdge(), About: "pgEdge's snowflake sequences for PostgreSQL",
			Source: "pgEdge/snowflake: snowflake.c", common: 0.3},
		{Name: "yitter", Layout: Yitter(), About: "yitter/idgenerator's default",
			Source: "yitter/idgenerator-go: idgen/IdGeneratorOptions.go", common: 1},
		{Name: "cosid", Layout: CosID(), About: "CosId's MillisecondSnowflakeId",
			Source: "Ahoo-Wang/CosId: CosId.java, MillisecondSnowflakeId.java", common: 0.5},
		{Name: "cosid-second", Layout: CosIDSecond(), About: "CosId's SecondSnowflakeId",
			Source: "Ahoo-Wang/CosId: CosId.java, SecondSnowflakeId.java", common: 0.3},
		{Name: "godruoyi", Layout: Godruoyi(), About: "godruoyi/go-snowflake's default",
			Source: "godruoyi/go-snowflake: snowflake.go", since: year(2019), common: 0.5},
		{Name: "tsid", Also: []string{"hypersistence-tsid"}, Layout: TSID(), About: "TSIDs, of tsid-creator and hypersistence-tsid",
			Source: "vladmihalcea/hypersistence-tsid: TSID.java", random: true, common: 1},
		{Name: "cockroachdb", Layout: CockroachDB(), About: "CockroachDB's unique_rowid()",
			Source: "cockroachdb/cockroach: pkg/sql/sem/builtins", common: 3},
		{Name: "tidb-tso", Layout: TiDB(), About: "TiDB's and TiKV's timestamps (TSO)",
			Source: "tikv/client-go: oracle/oracle.go", since: year(2016), common: 1},
		{Name: "atproto-tid", Layout: ATProto(), About: "Bluesky's TIDs, whose low 10 bits are random",
			Source: "the AT Protocol's specification of TIDs", hosts: []string{"bsky.app"}, since: year(2022), random: true, common: 5},
	}
}

func year(y int) time.Time { return time.Date(y, 1, 1, 0, 0, 0, 0, time.UTC) }

// ByName returns the layout whose Name is name, or that has name in Also. If there is
// no such layout, ok is false.
func ByName(name string) (k Known, ok bool) {
	for _, k := range All() {
		if k.Name == name || slices.Contains(k.Also, name) {
			return k, true
		}
	}
	return Known{}, false
}

// ByHost returns the layout of the IDs in the URLs of a host, such as x.com or www.x.com. If it is not
// known, ok is false.
func ByHost(host string) (k Known, ok bool) {
	host = strings.ToLower(host)
	for _, k := range All() {
		for _, h := range k.hosts {
			if host == h || strings.HasSuffix(host, "."+h) {
				return k, true
			}
		}
	}
	return Known{}, false
}

// begin returns the time before which no ID can have been issued.
func (k *Known) begin() time.Time {
	if k.since.IsZero() {
		return k.Layout.Epoch.Time()
	}
	return k.since
}
