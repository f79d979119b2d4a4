//go:build unix

package database

import (
	"encoding/binary"
	"math/rand/v2"
	"sort"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
)

// first is the time of the first row. The rows are spread evenly over a day.
var first = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// key is a kind of primary key.
type key struct {
	name     string
	postgres string // the column's type, "" if the server does not have it
	mariadb  string

	// ids returns a function that makes the ID of a row. It is nil if the server generates the IDs.
	ids func(t testing.TB) func(row int, at time.Time) any

	// between returns lo and hi for which from <= time < to if and only if lo <= id < hi. It is nil
	// if IDs have no time.
	between func(t testing.TB, from, to time.Time) (lo, hi any)
}

var (
	auto      = key{"auto-increment", "bigint GENERATED ALWAYS AS IDENTITY", "BIGINT AUTO_INCREMENT", nil, nil}
	flake     = key{"snowflake", "bigint", "BIGINT", snowflakes, snowflakesBetween}
	uuid4     = key{"UUIDv4", "uuid", "UUID", uuid4s, nil}
	uuid7     = key{"UUIDv7", "uuid", "UUID", uuid7s, uuid7sBetween}
	uuid7Bare = key{"UUIDv7 as BINARY(16)", "", "BINARY(16)", bare(uuid7s), bareBetween}
)

// table is a table to measure, with a kind of key, and with or without an index on created_at.
type table struct {
	key
	index bool
}

// tables returns all tables. There are tables without an index on created_at for keys that can
// replace it.
var tables = []table{
	{auto, true}, {flake, true}, {uuid4, true}, {uuid7, true}, {uuid7Bare, true}, {flake, false}, {uuid7, false},
}

// snowflakes makes IDs with a generator for each client, whose clock reads the row's time.
func snowflakes(t testing.TB) func(int, time.Time) any {
	now := first
	gens := make([]*snowflake.Generator, clients)
	for worker := range gens {
		gen, err := snowflake.New(worker, &snowflake.Options{Clock: snowflake.ClockFunc(func() time.Time { return now })})
		require.NoError(t, err)
		gens[worker] = gen
	}
	return func(row int, at time.Time) any {
		now = at
		id, err := gens[row / *batchFlag % len(gens)].NextID()
		require.NoError(t, err)
		return int64(id)
	}
}

func snowflakesBetween(t testing.TB, from, to time.Time) (lo, hi any) {
	l, h, err := snowflake.DefaultLayout().Range(from, to)
	require.NoError(t, err)
	return int64(l), int64(h)
}

func uuid4s(testing.TB) func(int, time.Time) any {
	return func(int, time.Time) any { return uuid.New() }
}

// uuid7s makes UUIDs of version 7 for given times, which uuid.NewV7 cannot.
func uuid7s(testing.TB) func(int, time.Time) any {
	return func(_ int, at time.Time) any { return stamp(uuid.New(), at) }
}

// stamp makes u a UUID of version 7 for a time, to the millisecond, and keeps its other bits.
func stamp(u uuid.UUID, at time.Time) uuid.UUID {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(at.UnixMilli())<<16)
	copy(u[:6], b[:6])
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	return u
}

func uuid7sBetween(_ testing.TB, from, to time.Time) (lo, hi any) {
	return stamp(uuid.UUID{}, from), stamp(uuid.UUID{}, to)
}

// bare converts UUIDs to their 16 bytes.
func bare(ids func(testing.TB) func(int, time.Time) any) func(testing.TB) func(int, time.Time) any {
	return func(t testing.TB) func(int, time.Time) any {
		next := ids(t)
		return func(row int, at time.Time) any { return bytesOf(next(row, at)) }
	}
}

func bareBetween(t testing.TB, from, to time.Time) (lo, hi any) {
	lo, hi = uuid7sBetween(t, from, to)
	return bytesOf(lo), bytesOf(hi)
}

func bytesOf(u any) []byte {
	b := u.(uuid.UUID)
	return b[:]
}

// row is a row of orders. All have the same payload.
type row struct {
	id               any
	at               time.Time
	customer, amount int32
}

// makeRows makes n rows, perDay of them in one day. They are always the same, except for their IDs.
func makeRows(t testing.TB, k key, n, perDay int) []row {
	next := func(int, time.Time) any { return nil }
	if k.ids != nil {
		next = k.ids(t)
	}
	random := rand.New(rand.NewPCG(1, 2))
	rows := make([]row, n)
	for i := range rows {
		at := first.Add(time.Duration(i) * (day / time.Duration(perDay))).Truncate(time.Millisecond)
		rows[i] = row{next(i, at), at, random.Int32N(100_000), random.Int32N(100_000)}
	}
	return rows
}

// interval is a span of time, with the expected result of a query for it.
type interval struct {
	from, to   time.Time
	count, sum int64
}

// intervals returns n spans of 1% of a day, always the same.
func intervals(rows []row, n int) []interval {
	random := rand.New(rand.NewPCG(3, 4))
	all := make([]interval, n)
	for i := range all {
		from := first.Add(time.Duration(random.Int64N(int64(day / 100 * 99)))).Truncate(time.Millisecond)
		v := interval{from: from, to: from.Add(day / 100)}
		begin := sort.Search(len(rows), func(i int) bool { return !rows[i].at.Before(v.from) })
		for _, r := range rows[begin:] {
			if !r.at.Before(v.to) {
				break
			}
			v.count++
			v.sum += int64(r.amount)
		}
		all[i] = v
	}
	return all
}
