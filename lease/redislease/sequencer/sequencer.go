// Package sequencer issues IDs with the time and sequence of a Redis server. Each call is a round
// trip. There is no worker ID and no lease.
//
//	client := redis.NewClient(&redis.Options{Addr: "redis:6379", ContextTimeoutEnabled: true})
//	seq, err := sequencer.New(client, &sequencer.Options{Shard: 0}) // the Redis server's number
//	...
//	id, err := seq.NextIDContext(ctx)
//	n, err := seq.Fill(ctx, ids)
//
// Prefer a lease of package redislease. Use the Sequencer for many short-lived processes, if the
// IDs of all clients must be in one order, or to continue after existing IDs of [layouts.Redis].
//
//	                    lease                             Sequencer
//	an ID costs         some 50 ns                        a round trip, or with Fill a share of one
//	Redis is asked      every ten seconds per process     for each call
//	Redis is away       IDs continue for 20 to 30 s          no IDs
//	IDs a second        4,096,000 for each of 1,024       1,024,000 in all, from one server
//	layout              any                               layouts.Redis, until 2039
//	order               within a process                  all IDs of one server
//
// The server must be Redis 5 or later, or Valkey: the script reads the server's clock before it
// writes, which earlier versions refuse. The key is snowflake:sequence:SHARD. If the server loses
// writes, in a crash or a failover, IDs do not repeat as long as one clock is right: see
// [Sequencer].
package sequencer

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/layouts"
	"github.com/seed-5394e6b1/snowflake/lease/driver"
	"github.com/seed-5394e6b1/snowflake/lease/redislease/internal/conn"
)

// MaxAhead is the maximum by which a Sequencer's IDs may be ahead of Redis' clock.
const MaxAhead = time.Second

// Options holds the settings of [New]. Nil and the zero value mean the defaults.
type Options struct {
	// Prefix is the prefix of the key's name, Prefix+"sequence:"+Shard. The default is
	// "snowflake:".
	Prefix string

	// Shard is the number of the Redis server, 0 to 4095. It is the worker ID in the IDs.
	//
	// HAZARD: IDs repeat if two servers have the same shard, unless they share the key (by
	// replication, or as a cluster). They also repeat if two prefixes have the same shard.
	Shard int

	// After is an ID below all new IDs. To continue after existing IDs, pass SELECT
	// coalesce(max(id), 0). The default is 0, no limit.
	After snowflake.ID
}

// Sequencer issues IDs of [layouts.Redis] without a lease. Any number of Sequencers, in any number
// of processes, may share a key. All methods may be called by any number of goroutines.
//
// All IDs of a key are different. A call that begins after another call of the same Sequencer has
// returned gets greater IDs. While Redis keeps the key, this is also true for different Sequencers.
//
// If Redis' clock goes back, IDs continue from the last ID, which is in the key, up to MaxAhead
// ahead of the clock. If the key is lost, or is stale because it was last written before a restart
// or a failover, the script makes a new one. (It also does so when a server gets its first
// replica.) The new key starts MaxAhead after the later of Redis' and the client's clock, and so
// after all IDs that may have been issued. If the client's clock is a second or more ahead of
// Redis' clock, one of the two is wrong, and the call fails. So IDs may repeat only:
//
//   - If the key is lost or stale, both clocks read earlier than Redis' clock did at the last ID,
//     and no client that got an ID since then has called first.
//   - While two servers accept writes for one key, and for a second afterwards. This happens if a
//     failover leaves the old master running for some clients. Give the new master another shard,
//     or stop the old master with min-replicas-to-write.
//   - Within a second after an older copy of the key, written by the same master, has replaced it.
//     RESTORE does this; so does a cluster if a slot moves to another master, loses writes in a
//     failover there, and moves back.
type Sequencer struct {
	key   conn.Key
	shard int
	now   func() time.Time // the client's clock

	next atomic.Int64 // the position after the last ID
}

//go:embed sequence.lua
var sequenceSource string

var sequenceScript = redis.NewScript(sequenceSource)

// maxWait is a call's longest wait for Redis' clock. It is WAIT in the script.
const maxWait = time.Second

// The bits of layouts.Redis:
const (
	sequenceBits = 10
	shardBits    = 12
)

// New returns a Sequencer. It does not connect to Redis. client must be a *redis.Client (also from
// NewFailoverClient) or a *redis.ClusterClient with ContextTimeoutEnabled. The caller must close
// it.
//
// If the shard is out of range, the error is a [*snowflake.FieldRangeError]. It matches
// [snowflake.ErrInvalidID] if After is invalid, and [driver.ErrInvalidOptions] if the client is.
func New(client redis.UniversalClient, opts *Options) (*Sequencer, error) {
	o := *cmp.Or(opts, new(Options))
	name := cmp.Or(o.Prefix, conn.DefaultPrefix) + "sequence:" + strconv.Itoa(o.Shard)
	key := conn.Key{Package: "sequencer", Name: name, Client: client}
	if err := key.Check(); err != nil {
		return nil, err
	}
	layout := layouts.Redis()
	if _, err := layout.Encode(snowflake.Parts{Time: layout.Epoch.Time(), Worker: o.Shard}); err != nil {
		return nil, fmt.Errorf("sequencer: shard: %w", err)
	}
	if err := layout.Check(o.After); err != nil {
		return nil, fmt.Errorf("sequencer: After: %w", err)
	}
	s := &Sequencer{key: key, shard: o.Shard, now: time.Now}
	if o.After > 0 {
		s.next.Store(positionAfter(o.After, o.Shard))
	}
	return s, nil
}

// NextIDContext returns a new ID, with one round trip.
//
// If the IDs are MaxAhead ahead of Redis' clock, it waits for up to a second. If the wait would be
// longer, because the clock was set back further, it returns a [*snowflake.ClockBackwardError] at
// once. If it would exceed ctx's deadline, NextIDContext returns an error that matches
// [context.DeadlineExceeded] at once. Other errors match [snowflake.ErrTimeExhausted],
// [snowflake.ErrBeforeEpoch] or [driver.ErrBadRecord] (the key is not a Sequencer's), or are the
// client's.
func (s *Sequencer) NextIDContext(ctx context.Context) (snowflake.ID, error) {
	first, _, err := s.take(ctx, 1)
	if err != nil {
		return 0, err
	}
	return s.id(first), nil
}

// Fill fills dst with increasing new IDs, up to 1,024,000 with one round trip. It waits like
// NextIDContext. If it returns an error, dst[:n] holds new IDs, which the caller may use. If dst is
// empty, it returns 0 and ctx's error.
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

// take takes count IDs, at most n, from the position first on.
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
			_, err = layouts.Redis().Encode(snowflake.Parts{Time: time.UnixMilli(a)})
		case status == "behind":
			err = fmt.Errorf("the key is lost or stale, and Redis' clock is behind this process' clock: %w",
				backward(clock.Round(0), time.UnixMilli(a)))
		case status == "wait":
			err = wait(ctx, time.UnixMilli(a).Add(-MaxAhead), time.UnixMilli(b))
		default:
			err = fmt.Errorf("%w: it is not a run_id and master_replid, milliseconds and a sequence", driver.ErrBadRecord)
		}
		if err != nil {
			return 0, 0, s.key.Wrap(err)
		}
	}
}

// run runs the script, and returns its reply.
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
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// note ensures that later IDs are at or after the position next.
func (s *Sequencer) note(next int64) {
	for old := s.next.Load(); old < next; old = s.next.Load() {
		if s.next.CompareAndSwap(old, next) {
			return
		}
	}
}

// id returns the ID at a position, which is the number of IDs that the shard could have issued
// earlier since 1970.
func (s *Sequencer) id(position int64) snowflake.ID {
	tick, sequence := position>>sequenceBits, position&(1<<sequenceBits-1)
	return snowflake.ID(tick<<(shardBits+sequenceBits) | int64(s.shard)<<sequenceBits | sequence)
}

// positionAfter returns the first position with an ID greater than after.
func positionAfter(after snowflake.ID, shard int) int64 {
	p := layouts.Redis().Decode(after)
	first := p.Time.UnixMilli() << sequenceBits
	switch {
	case p.Worker < shard:
		return first
	case p.Worker > shard:
		return first + 1<<sequenceBits
	}
	return first + int64(p.Sequence) + 1
}
