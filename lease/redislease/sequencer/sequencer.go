// Package sequencer issues IDs that a Redis server counts: milliseconds and sequence
// are Redis' own, and each call is a round trip. There is no worker ID and no lease.
//
//	client := redis.NewClient(&redis.Options{Addr: "redis:6379", ContextTimeoutEnabled: true})
//	seq, err := sequencer.New(client, &sequencer.Options{Shard: 0}) // the Redis server's number
//	...
//	id, err := seq.NextID(ctx)
//	n, err := seq.Fill(ctx, ids)
//
// Prefer a lease, of package redislease: its IDs cost tens of nanoseconds each, and
// Redis is asked once a second. Take the Sequencer for many short-lived processes, if
// the IDs of all clients must be in one order, or to go on with IDs of the
// [snowflake.RedisLayout].
//
// The server is Redis 5 or later, or Valkey: the script reads the server's clock before
// it writes, which earlier ones refuse. What it loses, by a crash or a failover, costs
// no duplicates while a clock is right; see [Sequencer].
package sequencer

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/internal/conn"
)

// MaxAhead is how far a Sequencer's IDs may run ahead of Redis' clock.
const MaxAhead = time.Second

// Options are the settings of New. The zero value, and nil,
// consist entirely of defaults.
type Options struct {
	// Prefix begins the name of the key, Prefix+"sequence:"+Shard.
	// Empty: "snowflake:".
	Prefix string

	// Shard is the number of the Redis server, 0 to 4095: the worker bits of the
	// IDs.
	//
	// HAZARD: two servers that do not have the same key (by replication, or as
	// a cluster) must have different shards, and so must two prefixes.
	Shard int

	// After makes all IDs greater than this one: pass SELECT max(id) to go on
	// above the IDs of before. 0: no limit.
	After snowflake.ID
}

// Sequencer issues IDs of [snowflake.RedisLayout] without any lease: milliseconds
// and sequence are Redis' own, taken by one script. Any number of Sequencers, in
// any number of processes, may share a key. All methods may be called by any
// number of goroutines.
//
// All IDs of a key are different. A call that begins after another of the same
// Sequencer has returned gets larger IDs, and so, while Redis keeps its key, does
// one of another Sequencer.
//
// Redis' clock may go back: the key has the last ID, and IDs go on from there, up
// to MaxAhead ahead of the clock. A key that is lost, or is stale because it was
// last written before a restart or a failover, is made anew behind all that may
// have been issued: MaxAhead after Redis' clock and the client's. (So it is, too,
// when a server gets its first replica.) A client whose clock is a second or more
// ahead of Redis' refuses to make it: one of the two is wrong. So IDs may repeat
// only
//
//   - when the key is lost or stale, and both clocks read earlier than Redis'
//     did at the last ID, and no client that got an ID since then has come back
//     with it first;
//   - while two servers accept writes for one key, as in a failover that leaves
//     the old master running for clients that still reach it, and for a second
//     after. Give the new master another shard, or let min-replicas-to-write stop
//     the old one;
//   - within a second after an older copy of the key, which the same master wrote,
//     was put in its place: by RESTORE, or in a cluster by a slot that went to
//     another master, lost writes in a failover there, and came back.
type Sequencer struct {
	key   conn.Key
	shard int
	now   func() time.Time // the client's clock

	next atomic.Int64 // the position behind the last ID
}

//go:embed sequence.lua
var sequenceSource string

var sequenceScript = redis.NewScript(sequenceSource)

// maxWait is how long a call waits for Redis' clock: WAIT of the script.
const maxWait = time.Second

// Of snowflake.RedisLayout.
const (
	sequenceBits = 10
	shardBits    = 12
)

// New returns a Sequencer. It does not ask Redis yet. The client is the caller's: a
// *redis.Client (of NewFailoverClient, too) or a *redis.ClusterClient, whose
// ContextTimeoutEnabled must be true. Any other client is refused.
//
// It returns a [*snowflake.FieldRangeError] for a shard that does not fit, and
// errors that match [snowflake.ErrInvalidID] for After or
// [lease.ErrInvalidOptions] for the client.
func New(client redis.UniversalClient, opts *Options) (*Sequencer, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	if o.Prefix == "" {
		o.Prefix = conn.DefaultPrefix
	}
	key := conn.Key{Package: "sequencer", Name: o.Prefix + "sequence:" + strconv.Itoa(o.Shard), Client: client}
	if err := key.Check(); err != nil {
		return nil, err
	}
	layout := snowflake.RedisLayout()
	if _, err := layout.Encode(snowflake.Parts{Time: layout.Epoch.Time(), Worker: o.Shard}); err != nil {
		return nil, fmt.Errorf("sequencer: shard: %w", err)
	}
	if err := layout.Check(o.After); err != nil {
		return nil, fmt.Errorf("sequencer: After: %w", err)
	}
	s := &Sequencer{
		key:   key,
		shard: o.Shard,
		now:   time.Now,
	}
	if o.After > 0 {
		s.next.Store(behind(o.After, o.Shard))
	}
	return s, nil
}

// NextID returns a new ID, with one round trip.
//
// Where IDs have run MaxAhead ahead of Redis' clock, it waits for up to a second.
// Would that not do, because the clock was set back further, it returns a
// [*snowflake.ClockBackwardError] at once; and where ctx's deadline would come
// first, at once an error that matches [context.DeadlineExceeded]. Other errors
// match [snowflake.ErrTimeExhausted], [snowflake.ErrBeforeEpoch],
// [lease.ErrBadRecord] for a key that has something else, or are the client's.
func (s *Sequencer) NextID(ctx context.Context) (snowflake.ID, error) {
	first, _, err := s.take(ctx, 1)
	if err != nil {
		return 0, err
	}
	return s.id(first), nil
}

// Fill fills dst with new IDs, increasing: up to 1,024,000 with one round trip.
// It waits as NextID does. On error, dst[:n] holds new IDs, which are the
// caller's to use. An empty dst gives 0 and ctx's error.
func (s *Sequencer) Fill(ctx context.Context, dst []snowflake.ID) (n int, err error) {
	if len(dst) == 0 {
		return 0, ctx.Err()
	}
	for n < len(dst) {
		first, count, err := s.take(ctx, len(dst)-n)
		if err != nil {
			return n, err
		}
		for i := range count {
			dst[n+i] = s.id(first + int64(i))
		}
		n += count
	}
	return n, nil
}

// take takes up to n IDs, from a position on.
func (s *Sequencer) take(ctx context.Context, n int) (first int64, count int, err error) {
	for {
		clock := s.now()
		status, a, b, err := s.run(ctx, n, clock)
		switch {
		case err != nil:
		case status == "issued":
			s.note(a + b)
			return a, int(b), nil
		case status == "outside":
			_, err = snowflake.RedisLayout().Encode(snowflake.Parts{Time: time.UnixMilli(a)})
		case status == "behind":
			err = fmt.Errorf("the key is lost or stale, and Redis' clock is behind ours: %w", backward(clock.Round(0), time.UnixMilli(a)))
		case status == "wait":
			err = wait(ctx, time.UnixMilli(a).Add(-MaxAhead), time.UnixMilli(b))
		default:
			err = fmt.Errorf("%w: it is not a run_id and master_replid, milliseconds and a sequence", lease.ErrBadRecord)
		}
		if err != nil {
			return 0, 0, s.key.Wrap(err)
		}
	}
}

// run runs the script, and returns what it does.
func (s *Sequencer) run(ctx context.Context, n int, clock time.Time) (status string, a, b int64, err error) {
	reply, err := conn.Call(ctx, s.key, func() ([]string, error) {
		return sequenceScript.Run(ctx, s.key.Client, []string{s.key.Name}, n, s.next.Load(), clock.UnixMilli()).StringSlice()
	})
	if err != nil {
		return "", 0, 0, err
	}
	for i, number := range []*int64{&a, &b} {
		if i+1 < len(reply) {
			if *number, err = strconv.ParseInt(reply[i+1], 10, 64); err != nil {
				return "", 0, 0, err
			}
		}
	}
	return reply[0], a, b, nil
}

func backward(last, now time.Time) error {
	return &snowflake.ClockBackwardError{Backward: snowflake.Backward{Last: last, Now: now}}
}

// wait waits until Redis' clock, which reads now, has reached last.
func wait(ctx context.Context, last, now time.Time) error {
	d := last.Sub(now)
	if d > maxWait {
		return backward(last, now)
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		return fmt.Errorf("%w: it takes %v until Redis' clock reaches %v", context.DeadlineExceeded, d, last)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note makes the IDs to come lie behind those before position next.
func (s *Sequencer) note(next int64) {
	for old := s.next.Load(); old < next; old = s.next.Load() {
		if s.next.CompareAndSwap(old, next) {
			return
		}
	}
}

// A position counts the IDs of a shard: those of all milliseconds since 1970.

func (s *Sequencer) id(position int64) snowflake.ID {
	tick, sequence := position>>sequenceBits, position&(1<<sequenceBits-1)
	return snowflake.ID(tick<<(shardBits+sequenceBits) | int64(s.shard)<<sequenceBits | sequence)
}

// behind returns the first position whose ID is greater than after.
func behind(after snowflake.ID, shard int) int64 {
	p := snowflake.RedisLayout().Decode(after)
	first := p.Time.UnixMilli() << sequenceBits
	switch {
	case p.Worker < shard:
		return first
	case p.Worker > shard:
		return first + 1<<sequenceBits
	}
	return first + int64(p.Sequence) + 1
}
