package bench

// To add a peer, "go get" it in this module, and add a function that makes its IDs (an issue): to
// ample, if a core cannot reach its ceiling or its user can choose the bits, and to saturated, with
// the ceiling, if a core reaches it. A call for many IDs goes into BenchmarkBurst, its generators
// into BenchmarkMemory, its text forms into text_test.go. Names of benchmarks are key=value between
// slashes, and must not end in a hyphen and digits.

import (
	"testing"
	"time"

	guaik "github.com/GUAIK-ORG/go-snowflake/snowflake"
	bwmarrin "github.com/bwmarrin/snowflake"
	godruoyi "github.com/godruoyi/go-snowflake"
	gofrs "github.com/gofrs/uuid/v5"
	google "github.com/google/uuid"
	"github.com/muyo/sno"
	"github.com/oklog/ulid/v2"
	"github.com/rs/xid"
	"github.com/segmentio/ksuid"
	sonyflake1 "github.com/sony/sonyflake"
	sonyflake2 "github.com/sony/sonyflake/v2"
	"github.com/yitter/idgenerator-go/idgen"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/layouts"
)

// ours is the name of this library.
const ours = "ours"

// lib is a generator in one configuration.
type lib struct {
	name string
	open func(testing.TB) issue // a new generator
	bits int                    // of the sequence, in a tick

	// ceiling is the maximum number of IDs a second with these bits, if the benchmark uses it.
	ceiling float64
}

// issue makes n IDs, with one call for each ID. The loop is in the function, so that no call is
// through a variable.
type issue func(n int) error

// Snowflake libraries with configurable bits are measured with these: 2,097,152 IDs a millisecond,
// more than a core can make.
const (
	ampleWorkerBits   = 1
	ampleSequenceBits = 21
)

func ampleLayout() snowflake.Layout {
	return snowflake.Layout{Epoch: snowflake.DefaultEpoch, Unit: time.Millisecond,
		TimeBits: 41, WorkerBits: ampleWorkerBits, SequenceBits: ampleSequenceBits}
}

// ample has the libraries in configurations that a core cannot exhaust (except sno).
var ample = []lib{
	{name: ours, open: openOurs(&snowflake.Options{Layout: ampleLayout()})},
	{name: "bwmarrin", open: openBwmarrin(ampleWorkerBits, ampleSequenceBits)},
	{name: "sonyflake-v2", open: openSonyflake2(sonyflake2.Settings{
		BitsMachineID: ampleWorkerBits, BitsSequence: ampleSequenceBits, TimeUnit: time.Millisecond})},
	{name: "yitter", open: openYitter(ampleWorkerBits, ampleSequenceBits)},
	{name: "sno", open: openSno}, // its layout is fixed: 65,536 in 4 ms, 61 ns an ID
	{name: "xid", open: func(testing.TB) issue {
		return func(n int) error {
			for range n {
				xid.New()
			}
			return nil
		}
	}},
	{name: "ulid", open: func(testing.TB) issue {
		return func(n int) error {
			for range n {
				ulid.Make()
			}
			return nil
		}
	}},
	{name: "google-uuid-v7", open: func(testing.TB) issue {
		google.DisableRandPool()
		return googleV7
	}},
	{name: "google-uuid-v7-pool", open: func(testing.TB) issue {
		google.EnableRandPool()
		return googleV7
	}},
	{name: "gofrs-uuid-v7", open: func(testing.TB) issue {
		return func(n int) error {
			for range n {
				if _, err := gofrs.NewV7(); err != nil {
					return err
				}
			}
			return nil
		}
	}},
	{name: "ksuid", open: func(testing.TB) issue {
		ksuid.SetRand(nil)
		return issueKSUID
	}},
	{name: "ksuid-fast", open: func(testing.TB) issue {
		ksuid.SetRand(ksuid.FastRander)
		return issueKSUID
	}},
}

// saturated has the libraries in configurations that a core can exhaust: with 12 bits a
// millisecond, if possible, and with their defaults.
var saturated = []lib{
	{ours, openOurs(nil), 12, 4_096_000},
	{"bwmarrin", openBwmarrin(10, 12), 12, 4_096_000},
	{"guaik", openGuaik, 12, 4_096_000},
	{"godruoyi", openGodruoyi, 12, 4_095_000},
	{"sonyflake-v2", openSonyflake2(sonyflake12), 12, 4_096_000},
	{"yitter", openYitter(10, 12), 12, 4_091_000},
	{ours, openOurs(&snowflake.Options{Layout: layouts.Sonyflake()}), 8, 25_600},
	{"sonyflake-v1", openSonyflake1, 8, 25_600},
	{"sonyflake-v2", openSonyflake2(sonyflake2.Settings{}), 8, 25_600},
	{"sno", openSno, 16, 16_384_000},
	{"yitter", openYitter(6, 6), 6, 59_000},
}

var sonyflake12 = sonyflake2.Settings{BitsMachineID: 10, BitsSequence: 12, TimeUnit: time.Millisecond}

// named returns the library with a name.
func named(libs []lib, name string) lib {
	for _, l := range libs {
		if l.name == name {
			return l
		}
	}
	panic("no library " + name)
}

// apart returns opts with a clock, so that each generator is separate.
func apart(opts *snowflake.Options) *snowflake.Options {
	var o snowflake.Options
	if opts != nil {
		o = *opts
	}
	if o.Clock == nil {
		o.Clock = snowflake.SystemClock()
	}
	return &o
}

func openOurs(opts *snowflake.Options) func(testing.TB) issue {
	return func(tb testing.TB) issue {
		return issueOurs(servertest.Must(snowflake.New(1, apart(opts)))(tb))
	}
}

func issueOurs(g *snowflake.Generator) issue {
	return func(n int) error {
		for range n {
			if _, err := g.NextID(); err != nil {
				return err
			}
		}
		return nil
	}
}

// newBwmarrin sets the bits for the whole process: they are package variables.
func newBwmarrin(tb testing.TB, node, step uint8) *bwmarrin.Node {
	bwmarrin.NodeBits, bwmarrin.StepBits = node, step
	return servertest.Must(bwmarrin.NewNode(1))(tb)
}

func openBwmarrin(node, step uint8) func(testing.TB) issue {
	return func(tb testing.TB) issue { return issueBwmarrin(newBwmarrin(tb, node, step)) }
}

func issueBwmarrin(node *bwmarrin.Node) issue {
	return func(n int) error {
		for range n {
			node.Generate()
		}
		return nil
	}
}

func newSonyflake1(tb testing.TB) *sonyflake1.Sonyflake {
	return servertest.Must(sonyflake1.New(sonyflake1.Settings{
		MachineID: func() (uint16, error) { return 1, nil }}))(tb)
}

func openSonyflake1(tb testing.TB) issue {
	s := newSonyflake1(tb)
	return func(n int) error {
		for range n {
			if _, err := s.NextID(); err != nil {
				return err
			}
		}
		return nil
	}
}

func newSonyflake2(tb testing.TB, settings sonyflake2.Settings) *sonyflake2.Sonyflake {
	settings.MachineID = func() (int, error) { return 1, nil }
	return servertest.Must(sonyflake2.New(settings))(tb)
}

func openSonyflake2(settings sonyflake2.Settings) func(testing.TB) issue {
	return func(tb testing.TB) issue { return issueSonyflake2(newSonyflake2(tb, settings)) }
}

func issueSonyflake2(s *sonyflake2.Sonyflake) issue {
	return func(n int) error {
		for range n {
			if _, err := s.NextID(); err != nil {
				return err
			}
		}
		return nil
	}
}

// newYitter makes the generator without the library's constructor, which sleeps.
func newYitter(worker, sequence byte) idgen.ISnowWorker {
	opts := idgen.NewIdGeneratorOptions(1)
	opts.WorkerIdBitLength, opts.SeqBitLength = worker, sequence
	return idgen.NewSnowWorkerM1(opts)
}

func openYitter(worker, sequence byte) func(testing.TB) issue {
	return func(testing.TB) issue { return issueYitter(newYitter(worker, sequence)) }
}

func issueYitter(w idgen.ISnowWorker) issue {
	return func(n int) error {
		for range n {
			w.NextId()
		}
		return nil
	}
}

func newSno(tb testing.TB) *sno.Generator {
	return servertest.Must(sno.NewGenerator(&sno.GeneratorSnapshot{Partition: sno.Partition{0, 1}}, nil))(tb)
}

func openSno(tb testing.TB) issue {
	g := newSno(tb)
	return func(n int) error {
		for range n {
			g.New(0)
		}
		return nil
	}
}

func newGuaik(tb testing.TB) *guaik.Snowflake {
	return servertest.Must(guaik.NewSnowflake(0, 1))(tb)
}

func openGuaik(tb testing.TB) issue {
	s := newGuaik(tb)
	return func(n int) error {
		for range n {
			s.NextVal()
		}
		return nil
	}
}

// openGodruoyi makes no generator: godruoyi has one for each process.
func openGodruoyi(testing.TB) issue {
	return func(n int) error {
		for range n {
			if _, err := godruoyi.NextID(); err != nil {
				return err
			}
		}
		return nil
	}
}

func issueKSUID(n int) error {
	for range n {
		if _, err := ksuid.NewRandom(); err != nil {
			return err
		}
	}
	return nil
}

func googleV7(n int) error {
	for range n {
		if _, err := google.NewV7(); err != nil {
			return err
		}
	}
	return nil
}
