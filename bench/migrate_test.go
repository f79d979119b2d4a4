package bench

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	bwmarrin "github.com/bwmarrin/snowflake"
	godruoyi "github.com/godruoyi/go-snowflake"
	google "github.com/google/uuid"
	sonyflake1 "github.com/sony/sonyflake"
	sonyflake2 "github.com/sony/sonyflake/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/workerid"
)

// oldLibrary is a library whose replacement docs/migrate.md describes.
type oldLibrary struct {
	name   string
	layout snowflake.Layout
	open   func(t *testing.T, worker int) func() snowflake.ID
}

var oldLibraries = []oldLibrary{
	{"bwmarrin", layouts.Bwmarrin(), func(t *testing.T, worker int) func() snowflake.ID {
		node := servertest.Must(bwmarrin.NewNode(int64(worker)))(t)
		return func() snowflake.ID { return snowflake.ID(node.Generate()) }
	}},
	{"sonyflake-v1", layouts.Sonyflake(), func(t *testing.T, worker int) func() snowflake.ID {
		sf := servertest.Must(sonyflake1.New(sonyflake1.Settings{MachineID: func() (uint16, error) { return uint16(worker), nil }}))(t)
		return func() snowflake.ID {
			id := servertest.Must(sf.NextID())(t)
			return snowflake.ID(id)
		}
	}},
	{"sonyflake-v2", layouts.SonyflakeV2(), func(t *testing.T, worker int) func() snowflake.ID {
		sf := servertest.Must(sonyflake2.New(sonyflake2.Settings{MachineID: func() (int, error) { return worker, nil }}))(t)
		return func() snowflake.ID {
			id := servertest.Must(sf.NextID())(t)
			return snowflake.ID(id)
		}
	}},
	{"godruoyi", godruoyiLayout(), func(t *testing.T, worker int) func() snowflake.ID {
		godruoyi.SetMachineID(uint16(worker))
		return func() snowflake.ID { return snowflake.ID(godruoyi.ID()) }
	}},
}

func godruoyiLayout() snowflake.Layout {
	l := snowflake.DefaultLayout()
	l.Epoch = snowflake.EpochAt(time.Date(2008, 11, 10, 23, 0, 0, 0, time.UTC))
	return l
}

// TestMigrateRolling replaces the processes of a fleet one after another, as docs/migrate.md
// describes: each keeps its worker ID, and starts after the greatest ID of its predecessor. No ID
// repeats, and a worker's IDs increase.
func TestMigrateRolling(t *testing.T) {
	const workers, n = 3, 400
	for _, old := range oldLibraries {
		t.Run(old.name, func(t *testing.T) {
			fleet := workers
			if old.name == "godruoyi" {
				fleet = 1 // the library has one generator for each process
			}
			next := make([]func() snowflake.ID, fleet)
			for w := range next {
				next[w] = old.open(t, w+1)
			}
			seen := map[snowflake.ID]bool{}
			last := make([]snowflake.ID, fleet)
			issue := func() {
				for range n {
					for w := range next {
						id := next[w]()
						if seen[id] {
							t.Fatalf("%d was issued twice", id)
						}
						if id <= last[w] {
							t.Fatalf("%d after %d", id, last[w])
						}
						p := old.layout.Decode(id)
						if p.Worker != w+1 || time.Since(p.Time).Abs() > time.Minute {
							t.Fatalf("%d of worker %d is read as %v", id, w+1, p)
						}
						seen[id], last[w] = true, id
					}
				}
			}
			issue()
			for w := range next {
				require.NoError(t, old.layout.Follows(old.layout, last[w]))
				g := servertest.Must(snowflake.New(w+1, &snowflake.Options{Layout: old.layout, After: last[w]}))(t)
				next[w] = func() snowflake.ID {
					id := servertest.Must(g.NextID())(t)
					return id
				}
				issue() // by old and new processes
			}
		})
	}
}

// TestMigrateToAnotherLayout moves from each library to the default layout with an early enough
// epoch. The default epoch is early enough only for sonyflake v2.
func TestMigrateToAnotherLayout(t *testing.T) {
	for _, old := range oldLibraries {
		t.Run(old.name, func(t *testing.T) {
			next := old.open(t, 1)
			last := next()
			for range 1000 {
				last = max(last, next())
			}
			naive := servertest.Must(snowflake.New(677, nil))(t)
			id := servertest.Must(naive.NextID())(t)
			l := snowflake.DefaultLayout()
			follows := l.Follows(old.layout, last) == nil
			require.Equal(t, (id > last), follows, "New(677, nil) begins with %d, after %d; the layout follows: %v", id, last, follows)
			require.Equal(t, (old.name == "sonyflake-v2"), follows,
				"New(677, nil) begins with %d, after %d; the layout follows: %v", id, last, follows)
			_, err := snowflake.New(677, &snowflake.Options{After: last})
			require.Equal(t, (err == nil), follows)
			for l.Follows(old.layout, last) != nil {
				l.Epoch -= snowflake.Epoch((24 * time.Hour).Milliseconds())
			}
			g := servertest.Must(snowflake.New(677, &snowflake.Options{Layout: l, After: last}))(t)
			for range 1000 {
				id, err := g.NextID()
				if err != nil || id <= last {
					t.Fatalf("%d after %d: %v", id, last, err)
				}
				last = id
			}
		})
	}
}

// Baidu's library is written in Java, so the test makes its IDs from its layout. They use all 63
// bits, so no layout's IDs are greater, but new IDs can be less than the old IDs.
func TestMigrateFromBaidu(t *testing.T) {
	baidu := layouts.Baidu()
	first := servertest.Must(baidu.Encode(snowflake.Parts{Time: time.Date(2018, 3, 1, 0, 0, 0, 0, time.UTC)}))(t)
	last := servertest.Must(baidu.Encode(snowflake.Parts{Time: baidu.Expires().Add(-time.Second), Worker: 1<<22 - 1, Sequence: 1<<13 - 1}))(t)
	l := snowflake.DefaultLayout()
	require.Error(t, l.Follows(baidu, last), "the default layout follows what has no greater ID")
	until := l.Decode(first).Time // the time that "snowflake decode FIRST" prints
	lo, hi, err := l.Range(l.Epoch.Time(), until.Add(-time.Millisecond))
	require.NoError(t, err, "IDs up to %v reach %d, and the old ones begin with %d: %v", until, hi, first, err)
	require.LessOrEqual(t, lo, hi, "IDs up to %v reach %d, and the old ones begin with %d: %v", until, hi, first, err)
	assert.LessOrEqual(t, hi, first, "IDs up to %v reach %d, and the old ones begin with %d: %v", until, hi, first, err)
	assert.GreaterOrEqual(t, until.Year(), 2036, "they meet in %v", until)
}

// A row gets an ID at the time of its UUIDv7, so the order of the rows stays the same to the
// millisecond.
func TestMigrateFromUUIDv7KeepsOrder(t *testing.T) {
	l := snowflake.DefaultLayout()
	var ids []snowflake.ID
	perTick := map[time.Time]int{}
	for range 3000 {
		u, err := google.NewV7()
		if err != nil {
			t.Fatal(err)
		}
		sec, nsec := u.Time().UnixTime()
		at := time.Unix(sec, nsec).Truncate(time.Millisecond)
		id, err := l.Encode(snowflake.Parts{Time: at, Worker: 1023, Sequence: perTick[at]})
		if err != nil {
			t.Fatal(err)
		}
		perTick[at]++
		ids = append(ids, id)
	}
	require.True(t, slices.IsSorted(ids), "IDs are not in order, or come twice")
	assert.Len(t, slices.Compact(ids), 3000, "IDs are not in order, or come twice")
}

// parseOldBase32 parses texts of bwmarrin's Base32.
func parseOldBase32(text string) (snowflake.ID, error) {
	const zBase32, digits = "ybndrfg8ejkmcpqxot1uwisza345h769", "0123456789abcdefghijklmnopqrstuv"
	v, err := strconv.ParseInt(strings.Map(func(r rune) rune {
		if i := strings.IndexRune(zBase32, r); i >= 0 {
			return rune(digits[i])
		}
		return '?' // which ParseInt refuses
	}, text), 32, 64)
	return snowflake.ID(v), err
}

// Each row of the table in docs/migrate.md reads texts of bwmarrin's library.
func TestMigrateTextsOfBwmarrin(t *testing.T) {
	layout := layouts.Bwmarrin()
	if _, err := bwmarrin.NewNode(1); err != nil { // it sets variables that Time, Node and Step need
		t.Fatal(err)
	}
	ids := []snowflake.ID{0, 1, 31, 32, 57, 58, math.MaxInt64}
	for rng := rand.New(rand.NewPCG(1, 2)); len(ids) < 1000; {
		ids = append(ids, snowflake.ID(rng.Int64()>>rng.IntN(63)))
	}
	for _, id := range ids {
		old := bwmarrin.ID(id)
		reads := func(form string, parse func(string) (snowflake.ID, error), text string) {
			if got, err := parse(text); err != nil || got != id {
				t.Errorf("%s %q is %d, not %d: %v", form, text, got, id, err)
			}
		}
		asInt := func(base int) func(string) (snowflake.ID, error) {
			return func(text string) (snowflake.ID, error) {
				v, err := strconv.ParseInt(text, base, 64)
				return snowflake.ID(v), err
			}
		}
		reads("decimal", snowflake.ParseID, old.String())
		reads("base 58", snowflake.ParseBase58, old.Base58())
		reads("base 32", parseOldBase32, old.Base32())
		reads("base 2", asInt(2), old.Base2())
		reads("base 36", asInt(36), old.Base36())
		reads("bytes", snowflake.ParseID, string(old.Bytes()))
		reads("base 64", func(text string) (snowflake.ID, error) {
			b, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return 0, err
			}
			return snowflake.ParseID(string(b))
		}, old.Base64())
		reads("JSON", func(text string) (got snowflake.ID, err error) {
			return got, json.Unmarshal([]byte(text), &got)
		}, `"`+old.String()+`"`)
		if b := old.IntBytes(); binary.BigEndian.Uint64(b[:]) != uint64(id) {
			t.Errorf("%d as bytes: %v", id, b)
		}
		p := layout.Decode(id)
		if p.Time.UnixMilli() != old.Time() || int64(p.Worker) != old.Node() || int64(p.Sequence) != old.Step() {
			t.Errorf("%v has the fields %d, %d, %d", p, old.Time(), old.Node(), old.Step())
		}
		if old.Base58() != id.Base58() {
			t.Errorf("base 58 of %d: %s, not %s", id, id.Base58(), old.Base58())
		}
		if got, err := snowflake.ParseBase32(old.Base32()); err == nil {
			t.Errorf("base 32 %s is read as %d", old.Base32(), got)
		}
	}
	for _, text := range []string{"", "Y", "l", "-y", "+y", "é", "999999999999999"} {
		id, err := parseOldBase32(text)
		assert.Error(t, err, "%q is read as %d", text, id)
	}
}

// Sonyflake divides the time since 1970 and StartTime by its unit before it subtracts them, so its
// ticks do not start at StartTime.
func TestMigrateSonyflakeStartTime(t *testing.T) {
	startTime := time.Date(2020, 2, 3, 4, 5, 6, 789_123_456, time.UTC)
	layout := layouts.SonyflakeV2()
	layout.Epoch = snowflake.EpochAt(startTime.Truncate(10 * time.Millisecond))
	v1, err1 := sonyflake1.New(sonyflake1.Settings{StartTime: startTime, MachineID: func() (uint16, error) { return 9, nil }})
	v2, err2 := sonyflake2.New(sonyflake2.Settings{StartTime: startTime, MachineID: func() (int, error) { return 9, nil }})
	require.NoError(t, errors.Join(err1, err2))
	for at := startTime; at.Sub(startTime) < 40*time.Millisecond; at = at.Add(300 * time.Microsecond) {
		id := servertest.Must(layout.Encode(snowflake.Parts{Time: at.Truncate(10 * time.Millisecond), Worker: 9, Sequence: 5}))(t)
		id1, err1 := sonyflake1.Compose(v1, at, 5, 9)
		id2, err2 := v2.Compose(at, 5, 9)
		require.NoError(t, errors.Join(err1, err2))
		require.Equal(t, []uint64{uint64(id), uint64(id)}, []uint64{id1, uint64(id2)}, at)
	}
	id1, err1 := v1.NextID()
	id2, err2 := v2.NextID()
	require.NoError(t, errors.Join(err1, err2))
	g := servertest.Must(snowflake.New(9, &snowflake.Options{Layout: layout, After: snowflake.ID(max(id1, uint64(id2)))}))(t)
	id := servertest.Must(g.NextID())(t)
	assert.Less(t, layout.Decode(id).Time.Sub(layout.Decode(snowflake.ID(id2)).Time), time.Minute)
}

// On the day of the migration a program keeps the machine ID that sonyflake chose.
func TestMigrateSonyflakeMachineID(t *testing.T) {
	machine, err := workerid.SonyflakeMachineID()
	v1, err1 := sonyflake1.New(sonyflake1.Settings{})
	v2, err2 := sonyflake2.New(sonyflake2.Settings{})
	if err != nil {
		assert.Error(t, err1)
		assert.Error(t, err2)
		return
	}
	require.NoError(t, errors.Join(err1, err2))
	id1, err1 := v1.NextID()
	id2, err2 := v2.NextID()
	require.NoError(t, errors.Join(err1, err2))
	assert.Equal(t, machine, layouts.Sonyflake().Decode(snowflake.ID(id1)).Worker)
	assert.Equal(t, machine, layouts.SonyflakeV2().Decode(snowflake.ID(id2)).Worker)
}
