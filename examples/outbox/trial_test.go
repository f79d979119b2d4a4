//go:build unix

package main

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/internal/depth"
	"github.com/seed-5394e6b1/snowflake/internal/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

// In the trial, writers and the poller are processes. Each stops at the points of its work, as with kill -STOP, for
// up to ten windows. The writers' clocks step both ways, and their renewals are lost.

const (
	trialWindow  = time.Second / 2
	trialWriters = 8
)

// points are where a process stops. NextID is between "after Hold" and "before INSERT", and done is after "after COMMIT".
var points = []string{
	"writer before Hold", "writer after Hold", "writer before INSERT", "writer after INSERT", "writer before SELECT", "writer before COMMIT", "writer after COMMIT",
	"poller before propose", "poller after propose", "poller before list", "poller after list", "poller before publish", "poller after publish",
	"poller before UPDATE", "poller after UPDATE", "poller before SELECT", "poller after SELECT",
}

func TestNoRowIsMissedWhateverStops(t *testing.T) {
	t.Parallel()
	long := depth.Of(0, 90*time.Second)
	for _, run := range []struct {
		fence, hold bool
		during      time.Duration
	}{
		{true, true, depth.Of(1500*time.Millisecond, long)},
		{true, false, depth.Of(0, 20*time.Second)},
		{false, true, depth.Of(0, 40*time.Second)},
		{false, false, depth.Of(0, 20*time.Second)},
	} {
		if run.during == 0 {
			continue
		}
		t.Run(fmt.Sprintf("fence=%t/Hold=%t", run.fence, run.hold), func(t *testing.T) {
			t.Parallel()
			shows := func(r result) error {
				switch {
				case !run.fence && r.missed == 0:
					return errors.New("no row is missed without the fence")
				case run.during != long:
					return nil
				case r.late == 0:
					return errors.New("the fence has stopped nothing")
				}
				for _, point := range points {
					if r.at[point] == 0 {
						return fmt.Errorf("nothing stopped %v", point)
					}
				}
				return nil
			}
			const most = 4 // trials: on a busy machine, less happens in the same time
			for n := 1; ; n++ {
				r := trial(t, postgres(t), run.during, fmt.Sprint("OUTBOX_FENCE=", run.fence), fmt.Sprint("OUTBOX_HOLD=", run.hold))
				t.Logf("%d rows, %d missed, %d stopped by the fence, %d stops\n%v", r.rows, r.missed, r.late, r.stops(), r.at)
				if run.fence {
					assert.Zerof(t, r.missed, "of %d rows are missed", r.rows)
				}
				if err := shows(r); err == nil {
					return
				} else if n == most {
					t.Fatal(err)
				}
			}
		})
	}
}

type result struct {
	rows, missed, late int
	at                 map[string]int // how often a process stopped at a point
}

func (r result) stops() (n int) {
	for _, k := range r.at {
		n += k
	}
	return n
}

// trial lets eight writers and a poller work, and counts the rows that the poller has not read.
func trial(t *testing.T, dsn string, during time.Duration, env ...string) result {
	o := &outbox{DB: servertest.Open(t, "pgx", dsn), dialect: sqllease.PostgreSQL}
	o.createTables()
	r := result{at: map[string]int{}}
	var mu sync.Mutex
	var ended atomic.Bool
	var watches sync.WaitGroup
	start := func(kind string, n int) *servertest.Child {
		c := servertest.StartChild(t, append(env, childEnv+"="+kind, "OUTBOX_DSN="+dsn, fmt.Sprint("OUTBOX_N=", n))...)
		watches.Go(func() {
			for line := range c.Lines {
				point, stops := strings.CutPrefix(line, "at ")
				mu.Lock()
				switch {
				case stops:
					r.at[strings.TrimSpace(point)]++
				case line == "late\n":
					r.late++
				case strings.HasPrefix(line, "panic"), strings.HasPrefix(line, "fatal"):
					t.Error(line)
				}
				mu.Unlock()
				if stops {
					watches.Go(func() { pause(t, c, strings.TrimSpace(point), &ended) })
				}
			}
		})
		return c
	}
	poller := start("poller", 0)
	writers := make([]*servertest.Child, trialWriters)
	for n := range writers {
		writers[n] = start("writer", n)
	}
	time.Sleep(during)
	servertest.Await(t, func() error {
		if len(o.ids(`SELECT id FROM outbox LIMIT 1`)) == 0 {
			return errors.New("no row was written")
		}
		return nil
	})
	ended.Store(true)
	end := func(c *servertest.Child) {
		require.NoError(t, c.Tell("end"))
	}
	for _, w := range writers {
		end(w)
	}
	for _, w := range writers {
		w.Wait()
		if !w.State().Success() {
			t.Fatal(w.State())
		}
	}
	there := o.ids(`SELECT id FROM outbox ORDER BY id`)
	o.awaitMark(there[len(there)-1])
	end(poller) // it reads once more
	poller.Wait()
	watches.Wait()
	read, _ := poller.IDs()
	require.True(t, slices.IsSorted(read), "the poller has read rows twice, or in another order")
	assert.Len(t, slices.Compact(slices.Clone(read)), len(read), "the poller has read rows twice, or in another order")
	missed := map[snowflake.ID]bool{}
	for _, id := range there {
		missed[id] = true
	}
	for _, id := range read {
		if !missed[id] {
			t.Error("the poller has read a row that is not there:", id)
		}
		delete(missed, id)
	}
	r.rows, r.missed = len(there), len(missed)
	for _, id := range slices.Sorted(maps.Keys(missed)) {
		t.Log("missed:", snowflake.Decode(id))
	}
	return r
}

// pause stops a child that waits at a point, and lets it go on.
func pause(t *testing.T, c *servertest.Child, point string, ended *atomic.Bool) {
	most := []time.Duration{0, trialWindow / 10, trialWindow, 10 * trialWindow}[rand.N(4)]
	if (point == "writer after SELECT" || point == "writer before COMMIT" || strings.HasPrefix(point, "poller")) && rand.N(8) > 0 {
		most = min(most, trialWindow/10) // the poller waits for the writer's lock; if it mostly stood still, it would miss nothing
	}
	_ = c.Process().Signal(syscall.SIGSTOP)
	for end := time.Now().Add(most/2 + rand.N(most/2+1)); time.Now().Before(end) && !ended.Load(); {
		time.Sleep(trialWindow / 100)
	}
	_ = c.Process().Signal(syscall.SIGCONT)
	assert.NoError(t, c.Tell("go"))
}

// child is a writer or the poller.
type child struct {
	outbox
	kind        string
	n           int
	fence, hold bool
	leases      *sqllease.Store
	ended       atomic.Bool
	going       chan struct{}
}

func newChild() *child {
	config, err := pgx.ParseConfig(os.Getenv("OUTBOX_DSN"))
	check(err)
	c := &child{kind: os.Getenv(childEnv), fence: os.Getenv("OUTBOX_FENCE") == "true", hold: os.Getenv("OUTBOX_HOLD") == "true", going: make(chan struct{})}
	c.n, err = strconv.Atoi(os.Getenv("OUTBOX_N"))
	check(err)
	c.outbox.DB, c.dialect = sql.OpenDB(connector{stdlib.GetConnector(*config), c}), sqllease.PostgreSQL
	c.leases, err = sqllease.New(stdlib.OpenDB(*config), sqllease.PostgreSQL, nil)
	check(err)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if in.Text() == "end" {
				c.ended.Store(true)
			} else {
				c.going <- struct{}{}
			}
		}
		os.Exit(1) // the test has ended
	}()
	return c
}

// at lets the test stop the process here, now and then.
func (c *child) at(point string) {
	one := 25 // of so many times
	if c.kind == "poller" {
		one = 6
	}
	if !c.ended.Load() && rand.N(one) == 0 {
		fmt.Fprintf(os.Stderr, "at %s %s\n", c.kind, point)
		<-c.going
	}
}

func (c *child) writeRows() {
	var off atomic.Int64
	go func() { // the clock steps
		for base := time.Duration(c.n)*time.Second/7 - slowest; ; time.Sleep(rand.N(400 * time.Millisecond)) {
			by := 20 * time.Millisecond
			if rand.N(4) == 0 {
				by = 500 * time.Millisecond
			}
			off.Store(int64(base + rand.N(2*by) - by))
		}
	}()
	var l *lease.Lease
	err := errLost
	for err != nil {
		l, err = lease.Acquire(context.Background(), &lossy{Store: c.leases, ended: &c.ended}, &lease.Options{
			Owner: fmt.Sprint("writer-", c.n), NewStore: true, Window: trialWindow, FloorEvery: trialWindow / 10, Logger: slog.New(slog.DiscardHandler),
			Clock: snowflake.ClockFunc(func() time.Time { return time.Now().Add(time.Duration(off.Load())) }),
		})
	}
	g, err := snowflake.NewLeased(l, nil)
	check(err)
	for !c.ended.Load() {
		c.at("before Hold")
		done := func() {}
		if c.hold {
			done = l.Hold()
		}
		c.at("after Hold")
		err := c.insert(g, c.n, func(snowflake.ID) { time.Sleep(rand.N(trialWindow / 4)) })
		done()
		if errors.Is(err, errLate) {
			fmt.Fprintln(os.Stderr, "late")
		} else if err != nil { // the clock went back, or the window has ended
			time.Sleep(trialWindow / 100)
		}
	}
	_ = l.Release(context.Background()) // it may be lost already
	os.Exit(0)
}

func (c *child) readRows() {
	var lag time.Duration
	c.store = &looks{Store: c.leases, c: c}
	next := c.watermark(&lag)
	for last, ended := snowflake.ID(0), false; !ended; time.Sleep(trialWindow / 20) {
		ended = c.ended.Load()
		ids := next(last)
		check(servertest.WriteIDs(ids...))
		if len(ids) > 0 {
			last = ids[len(ids)-1]
		}
	}
	os.Exit(0)
}

// looks is the poller's store, with points.
type looks struct {
	*sqllease.Store
	c         *child
	published time.Time
}

func (s *looks) List(ctx context.Context, prefix string) ([]lease.Entry, error) {
	s.c.at("before list")
	defer s.c.at("after list")
	return s.Store.List(ctx, prefix)
}

func (s *looks) Put(ctx context.Context, key, old string, value []byte) (lease.Entry, error) {
	var m struct{ Published time.Time }
	if key != "watermark" || json.Unmarshal(value, &m) != nil {
		return s.Store.Put(ctx, key, old, value)
	}
	what := "propose"
	if m.Published.After(s.published) {
		what, s.published = "publish", m.Published
	}
	s.c.at("before " + what)
	defer s.c.at("after " + what)
	return s.Store.Put(ctx, key, old, value)
}

// lossy is a writer's store. It loses saves and answers and, for two windows now and then, everything.
type lossy struct {
	*sqllease.Store
	ended *atomic.Bool
	mu    sync.Mutex
	until time.Time // it is away
}

var errLost = errors.New("lost")

// loses reports whether one of n requests is lost.
func (s *lossy) loses(n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rand.N(200) == 0 {
		s.until = time.Now().Add(2 * trialWindow)
	}
	return !s.ended.Load() && (time.Now().Before(s.until) || rand.N(n) == 0)
}

func (s *lossy) Get(ctx context.Context, key string) (lease.Entry, error) {
	if s.loses(50) {
		return lease.Entry{}, errLost
	}
	return s.Store.Get(ctx, key)
}

func (s *lossy) Put(ctx context.Context, key, old string, value []byte) (lease.Entry, error) {
	if s.loses(10) {
		return lease.Entry{}, errLost
	}
	e, err := s.Store.Put(ctx, key, old, value)
	if err == nil && s.loses(10) {
		return lease.Entry{}, errLost
	}
	return e, err
}

// connector opens connections whose statements have points. Without the fence, the writer reads no mark.
type connector struct {
	driver.Connector
	c *child
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return pointed{conn.(*stdlib.Conn), c.c}, nil
}

type pointed struct {
	*stdlib.Conn
	c *child
}

func (p pointed) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	verb, _, _ := strings.Cut(query, " ")
	p.c.at("before " + verb)
	defer p.c.at("after " + verb)
	return p.Conn.ExecContext(ctx, query, args)
}

func (p pointed) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	p.c.at("before SELECT")
	defer p.c.at("after SELECT")
	if !p.c.fence && strings.HasSuffix(query, "FOR SHARE") {
		query = `SELECT CAST(0 AS BIGINT)`
	}
	return p.Conn.QueryContext(ctx, query, args)
}

func (p pointed) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	tx, err := p.Conn.BeginTx(ctx, o)
	return pointedTx{tx, p.c}, err
}

type pointedTx struct {
	driver.Tx
	c *child
}

func (t pointedTx) Commit() error {
	t.c.at("before COMMIT")
	defer t.c.at("after COMMIT")
	return t.Tx.Commit()
}
