// Package layouts provides the layouts of other systems' IDs. [Identify] guesses the layout
// of given IDs.
//
//	tweet, err := snowflake.ParseID("1541815603606036480")
//	...
//	fmt.Println(layouts.Twitter().Decode(tweet))
//
// A generator can issue IDs of such a layout, for a table that already has IDs of the other system.
// [snowflake.Layout.Follows] reports whether that is safe.
//
//	gen, err := snowflake.New(7, &snowflake.Options{Layout: layouts.Sonyflake(), After: last})
//
// # The layouts
//
//	layout            workers     IDs per worker    until    IDs of
//	Twitter           32 x 32     4,096 a ms        2080     Twitter; hutool, mybatis-plus
//	Bwmarrin          1,024       4,096 a ms        2080     bwmarrin/snowflake, Meituan's Leaf
//	Discord           32 x 32     4,096 a ms        2084     Discord, disgo
//	Instagram         8,192       1,024 a ms        2046     Instagram
//	Sonyflake         65,536      256 in 10 ms      2188     sony/sonyflake, version 1
//	SonyflakeV2       65,536      256 in 10 ms      2199     sony/sonyflake, version 2
//	Redis             4,096       1,024 a ms        2039     scripts in Redis
//	Baidu             4,194,304   8,192 a s         2024     Baidu's uid-generator: for reading only
//	Mastodon          -           65,536 a ms       6429     Mastodon
//	Hazelcast         65,536      64 a ms           2087     Hazelcast's FlakeIdGenerator
//	ShardingSphere    1,024       4,096 a ms        2086     Apache ShardingSphere, in UTC
//	ShardingSphereCST 1,024       4,096 a ms        2086     Apache ShardingSphere, in China's zone
//	PgEdge            1,024       4,096 a ms        2092     pgEdge's sequences
//	Yitter            64          64 a ms           73376    yitter/idgenerator
//	CosID             1,024       4,096 a ms        2089     CosId, in milliseconds
//	CosIDSecond       1,024       4,194,304 a s     2088     CosId, in seconds
//	Godruoyi          1,024       4,096 a ms        2078     godruoyi/go-snowflake
//	TSID              1,024       4,096 a ms        2089     tsid-creator, hypersistence-tsid
//	CockroachDB       32,768      1 in 10 µs        2104     unique_rowid()
//	TiDB              -           262,144 a ms      3084     timestamps of TiDB and TiKV
//	ATProto           1,024       1 in 1 µs         2255     Bluesky's TIDs
//
// This library's own layouts are in package snowflake. [All] returns all of these and more, without
// a function; [ByName] finds them. If a library's default epoch depends on the language, as
// yitter's does, or on the machine's time zone, as ShardingSphere's does, each has a name.
package layouts

import (
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

const (
	twitterEpoch = 1288834974657 // twepoch in IdWorker.scala
	discordEpoch = 1420070400000 // from "Snowflakes" in Discord's API reference
)

// Twitter returns the layout of Twitter's snowflake: 41 bits of milliseconds since
// 2010-11-04T01:42:54.657Z, 5 of datacenter, 5 of worker and 12 of sequence.
func Twitter() snowflake.Layout { return datacenters(Bwmarrin()) }

// Bwmarrin returns the default layout of github.com/bwmarrin/snowflake: 41 bits of
// milliseconds since 2010-11-04T01:42:54.657Z, 10 of worker (its node) and 12 of
// sequence. Meituan's Leaf has the same.
func Bwmarrin() snowflake.Layout { return millis(41, 10, 12, twitterEpoch) }

// Discord returns the layout of Discord's IDs: milliseconds since
// 2015-01-01, 5 bits of worker (the datacenter here), 5 of process
// (the worker here) and 12 of increment (the sequence here). Discord has 42 bits of time; the
// highest is the sign bit here, so this layout ends in 2084, before Discord's does.
func Discord() snowflake.Layout { return datacenters(millis(41, 10, 12, discordEpoch)) }

// Instagram returns the layout of Instagram's IDs, as its engineering blog gives it: milliseconds
// since 2011-08-24T21:07:01.721Z, 13 bits of logical shard (the worker here) and 10 of sequence.
// Instagram has 41 bits of time; the highest is the sign bit here.
func Instagram() snowflake.Layout { return millis(40, 13, 10, 1314220021721) }

// Sonyflake returns the default layout of github.com/sony/sonyflake, version 1: 39
// bits of 10 ms since 2014-09-01, 8 of sequence and, in the lowest place, 16 of
// machine (the worker here). Version 2 has another epoch: [SonyflakeV2].
func Sonyflake() snowflake.Layout { return sonyflake(1409529600000) }

// SonyflakeV2 returns the default layout of github.com/sony/sonyflake/v2: the bits
// of [Sonyflake], counted from 2025-01-01.
func SonyflakeV2() snowflake.Layout { return sonyflake(1735689600000) }

func sonyflake(epoch snowflake.Epoch) snowflake.Layout {
	return in(10*time.Millisecond, workerLast(millis(39, 16, 8, epoch)))
}

// Redis returns the usual layout of ID services that run a script in Redis: 41 bits
// of milliseconds since [snowflake.UnixEpoch], 12 of worker and 10 of sequence.
func Redis() snowflake.Layout { return millis(41, 12, 10, snowflake.UnixEpoch) }

// Baidu returns the default layout of Baidu's uid-generator: 28 bits of seconds since 2016-05-20 in
// Beijing (2016-05-19T16:00:00Z), 22 of worker and 13 of sequence. It ran out of time on
// 2024-11-20: snowflake.New refuses it, but Decode still reads old IDs.
func Baidu() snowflake.Layout { return in(time.Second, millis(28, 22, 13, 1463673600000)) }

// Mastodon returns the layout of Mastodon's IDs: 47 bits of milliseconds since
// [snowflake.UnixEpoch], and 16 that look random: a hash plus a row number.
func Mastodon() snowflake.Layout { return millis(47, 0, 16, snowflake.UnixEpoch) }

// Hazelcast returns the default layout of Hazelcast's FlakeIdGenerator: 41 bits of milliseconds
// since 2018-01-01, 6 of sequence and, in the lowest place, 16 of node (the worker here).
func Hazelcast() snowflake.Layout { return workerLast(millis(41, 16, 6, 1514764800000)) }

// ShardingSphere returns the layout of Apache ShardingSphere's IDs on a machine
// whose zone is UTC: the bits of [Bwmarrin], counted from 2016-11-01. Its epoch is
// midnight in the zone of the machine: see [ShardingSphereCST].
func ShardingSphere() snowflake.Layout { return millis(41, 10, 12, 1477958400000) }

// ShardingSphereCST returns the layout of Apache ShardingSphere's IDs on a machine
// whose zone is China's, UTC+8.
func ShardingSphereCST() snowflake.Layout { return millis(41, 10, 12, 1477929600000) }

// PgEdge returns the layout of pgEdge's snowflake sequences for PostgreSQL: the bits
// of [Bwmarrin], counted from 2023-01-01. Before version 1.2 the node (the worker here) had the
// lowest bits: the name of that layout is pgedge-node-last.
func PgEdge() snowflake.Layout { return millis(41, 10, 12, 1672531200000) }

// Yitter returns the default layout of yitter/idgenerator: 51 bits of milliseconds
// since 2020-02-19T18:20:02Z, 6 of worker and 6 of sequence. In C# it counts from
// 2020-02-20T02:20:02.020Z: the name of that layout is yitter-csharp.
func Yitter() snowflake.Layout { return millis(51, 6, 6, 1582136402000) }

// CosID returns the layout of CosId's MillisecondSnowflakeId: the bits of
// [Bwmarrin], counted from 2019-12-25 in Beijing (2019-12-24T16:00:00Z).
func CosID() snowflake.Layout { return millis(41, 10, 12, 1577203200000) }

// CosIDSecond returns the layout of CosId's SecondSnowflakeId: 31 bits of seconds
// since the epoch of [CosID], 10 of worker and 22 of sequence.
func CosIDSecond() snowflake.Layout { return in(time.Second, millis(31, 10, 22, 1577203200000)) }

// Godruoyi returns the default layout of godruoyi/go-snowflake: the bits of
// [Bwmarrin], counted from 2008-11-10T23:00:00Z.
func Godruoyi() snowflake.Layout { return millis(41, 10, 12, 1226358000000) }

// TSID returns the default layout of tsid-creator and hypersistence-tsid: 41 bits of
// milliseconds since 2020-01-01, 10 of node (the worker here) and 12 of a counter
// (the sequence here), which starts at a random number in each millisecond. TSIDs
// have 42 bits of time; the highest is the sign bit here.
func TSID() snowflake.Layout { return millis(41, 10, 12, 1577836800000) }

// CockroachDB returns the layout of CockroachDB's unique_rowid(): 48 bits of 10 µs
// since 2015-01-01, and 15 of node (the worker here).
func CockroachDB() snowflake.Layout { return in(10*time.Microsecond, millis(48, 15, 0, 1420070400000)) }

// TiDB returns the layout of the timestamps (TSO) of TiDB and TiKV: 45 bits of
// milliseconds since [snowflake.UnixEpoch], and 18 of sequence.
func TiDB() snowflake.Layout { return millis(45, 0, 18, snowflake.UnixEpoch) }

// ATProto returns the layout of the AT Protocol's TIDs, which Bluesky uses: 53 bits of microseconds
// since [snowflake.UnixEpoch], and 10 that are random (the worker here).
func ATProto() snowflake.Layout { return in(time.Microsecond, millis(53, 10, 0, snowflake.UnixEpoch)) }

// millis returns a layout that counts milliseconds.
func millis(timeBits, workerBits, sequenceBits uint8, epoch snowflake.Epoch) snowflake.Layout {
	return snowflake.Layout{Epoch: epoch, Unit: time.Millisecond, TimeBits: timeBits, WorkerBits: workerBits, SequenceBits: sequenceBits}
}

// timestamps returns the layout of Unix times, which have no other field.
func timestamps(unit time.Duration, bits uint8) snowflake.Layout {
	return in(unit, millis(bits, 0, 0, snowflake.UnixEpoch))
}

// datacenters divides the 10 bits of the worker into 5 of datacenter and 5 of worker.
func datacenters(l snowflake.Layout) snowflake.Layout {
	l.DatacenterBits, l.WorkerBits = 5, 5
	return l
}

func in(unit time.Duration, l snowflake.Layout) snowflake.Layout {
	l.Unit = unit
	return l
}

func workerLast(l snowflake.Layout) snowflake.Layout {
	l.WorkerLast = true
	return l
}
