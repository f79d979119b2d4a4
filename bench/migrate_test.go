package bench

import (
	"slices"
	"testing"
	"time"

	bwmarrin "github.com/bwmarrin/snowflake"
	godruoyi "github.com/godruoyi/go-snowflake"
	google "github.com/google/uuid"
	sonyflake1 "github.com/sony/sonyflake"
	sonyflake2 "github.com/sony/sonyflake/v2"

	"github.com/seed-5394e6b1/snowflake"
)

// oldLibrary is a library from which docs/migrate.md describes the change.
type oldLibrary struct {
	name   string
	layout snowflake.Layout
	open   func(t *testing.T, worker int) func() snowflake.ID
}

var oldLibraries = []oldLibrary{
	{"bwmarrin", snowflake.BwmarrinLayout(), func(t *testing.T, worker int) func() snowflake.ID {
		node, err := bwmarrin.NewNode(int64(worker))
		if err != nil {
			t.Fatal(err)
		}
		return func() snowflake.ID { return snowflake.ID(node.Generate()) }
	}},
	{"sonyflake-v1", snowflake.SonyflakeLayout(), func(t *testing.T, worker int) func() snowflake.ID {
		sf, err := sonyflake1.New(sonyflake1.Settings{MachineID: func() (uint16, error) { return uint16(worker), nil }})
		if err != nil {
			t.Fatal(err)
		}
		return func() snowflake.ID {
			id, err := sf.NextID()
			if err != nil {
				t.Fatal(err)
			}
			return snowflake.ID(id)
		}
	}},
	{"sonyflake-v2", snowflake.SonyflakeV2Layout(), func(t *testing.T, worker int) func() snowflake.ID {
		sf, err := sonyflake2.New(sonyflake2.Settings{MachineID: func() (int, error) { return worker, nil }})
		if err != nil {
			t.Fatal(err)
		}
		return func() snowflake.ID {
			id, err := sf.NextID()
			if err != nil {
				t.Fatal(err)
			}
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

// TestMigrateRolling replaces the processes of a fleet one after the other, as
// docs/migrate.md says: each keeps its worker ID, and begins after the greatest ID
// that its predecessor issued. No ID comes twice, and a worker's IDs increase.
func TestMigrateRolling(t *testing.T) {
	const workers, n = 3, 400
	for _, old := range oldLibraries {
		t.Run(old.name, func(t *testing.T) {
			fleet := workers
			if old.name == "godruoyi" {
				fleet = 1 // the library has one generator in a process
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
				if err := old.layout.Follows(old.layout, last[w]); err != nil {
					t.Fatal(err)
				}
				g, err := snowflake.New(w+1, &snowflake.Options{Layout: old.layout, After: last[w]})
				if err != nil {
					t.Fatal(err)
				}
				next[w] = func() snowflake.ID {
					id, err := g.NextID()
					if err != nil {
						t.Fatal(err)
					}
					return id
				}
				issue() // by old and new processes, side by side
			}
		})
	}
}

// TestMigrateToAnotherLayout moves from each library to the default layout with an
// epoch that is early enough, and shows that the default epoch is not, except for
// sonyflake v2.
func TestMigrateToAnotherLayout(t *testing.T) {
	for _, old := range oldLibraries {
		t.Run(old.name, func(t *testing.T) {
			next := old.open(t, 1)
			last := next()
			for range 1000 {
				last = max(last, next())
			}
			naive, err := snowflake.New(677, nil)
			if err != nil {
				t.Fatal(err)
			}
			id, err := naive.NextID()
			if err != nil {
				t.Fatal(err)
			}
			l := snowflake.DefaultLayout()
			follows := l.Follows(old.layout, last) == nil
			if follows != (id > last) || follows != (old.name == "sonyflake-v2") {
				t.Fatalf("New(677, nil) begins with %d, after %d; the layout follows: %v", id, last, follows)
			}
			if _, err := snowflake.New(677, &snowflake.Options{After: last}); follows != (err == nil) {
				t.Fatalf("New with After: %v", err)
			}
			for l.Follows(old.layout, last) != nil {
				l.Epoch -= snowflake.Epoch((24 * time.Hour).Milliseconds())
			}
			g, err := snowflake.New(677, &snowflake.Options{Layout: l, After: last})
			if err != nil {
				t.Fatal(err)
			}
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

// Baidu's library is Java, so the test makes its IDs from its layout. They have used
// all 63 bits, so no layout follows, but new IDs can stay below the old IDs.
func TestMigrateFromBaidu(t *testing.T) {
	baidu := snowflake.BaiduLayout()
	first, err := baidu.Encode(snowflake.Parts{Time: time.Date(2018, 3, 1, 0, 0, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	last, err := baidu.Encode(snowflake.Parts{Time: baidu.Expires().Add(-time.Second), Worker: 1<<22 - 1, Sequence: 1<<13 - 1})
	if err != nil {
		t.Fatal(err)
	}
	l := snowflake.DefaultLayout()
	if l.Follows(baidu, last) == nil {
		t.Fatal("the default layout follows what has no greater ID")
	}
	until := l.Decode(first).Time // what "snowflake decode FIRST" says
	lo, hi, err := l.Range(l.Epoch.Time(), until.Add(-time.Millisecond))
	if err != nil || lo > hi || hi > first {
		t.Errorf("IDs up to %v reach %d, and the old ones begin with %d: %v", until, hi, first, err)
	}
	if until.Year() < 2036 {
		t.Errorf("they meet in %v", until)
	}
}

// An auto-increment has a few billions at most, and every layout's IDs are greater.
func TestMigrateFromAutoIncrementIssuesGreaterIDs(t *testing.T) {
	const last = 5_000_000_000
	for _, l := range []snowflake.Layout{snowflake.DefaultLayout(), snowflake.JSSafeLayout()} {
		g, err := snowflake.New(1, &snowflake.Options{Layout: l, After: last})
		if err != nil {
			t.Fatal(err)
		}
		if id, err := g.NextID(); err != nil || id <= last {
			t.Errorf("%d: %v", id, err)
		}
	}
}

// A UUID of version 7 has a time, and the row gets an ID at that time. So the order
// of the rows stays the same, to the millisecond.
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
	if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 3000 {
		t.Error("IDs are not in order, or come twice")
	}
}
