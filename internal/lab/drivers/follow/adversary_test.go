//go:build unix

package follow_test

import (
	"bufio"
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
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

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/follow"
	"github.com/seed-5394e6b1/snowflake/internal/lab/depth"
	"github.com/seed-5394e6b1/snowflake/internal/lab/servertest"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

// In the trial, writers and readers are processes. Each stops at the points of its work, as with
// kill -STOP, for up to ten windows and, with -during, now and then for longer than 30 s. Writers
// and a reader are killed, several in a row. The writers' clocks step both ways, and their renewals
// are lost. One reader reads a replica, which is paused now and then.

const (
	childEnv     = "FOLLOW_CHILD"
	trialWindow  = time.Second / 2
	trialWriters = 8
	slowest      = time.Second / 2
)

// points are the points at which a process stops, except those of the reader's raise, which depend
// on the database.
var points = []string{
	"writer before Hold", "writer before BEGIN", "writer after Hold", "writer after NextID", "writer before INSERT", "writer after INSERT", "writer before check", "writer after check",
	"writer before COMMIT", "writer after COMMIT", "writer after PREPARE", "reader before raise", "reader after raise", "reader before fence", "reader after fence",
	"reader before count", "reader after count", "reader before BEGIN", "reader before propose", "reader after propose", "reader before list", "reader after list", "reader before publish",
	"reader after publish", "reader before INSERT", "reader after INSERT", "reader before COMMIT", "reader after COMMIT",
}

var raisePoints = []string{"reader before turn", "reader after turn", "reader before mark", "reader after mark",
	"reader before holders", "reader after holders"}

type run struct {
	dialect     string
	fence, hold bool
	during      time.Duration
}

// during is the duration of a trial. If it is set, the trial must also stop processes at each
// point, a thousand times in total, and show that rows are missed without the fence.
var during = flag.Duration("during", 0, "how long a trial of the adversary lasts, such as 150s")

func TestNoRowIsMissedWhateverStops(t *testing.T) {
	short := depth.Of(3*time.Second, 20*time.Second)
	for _, r := range []run{
		{"PostgreSQL", true, true, max(short, *during)},
		{"MariaDB", true, true, max(short, *during)},
		{"PostgreSQL", true, false, *during / 2},
		{"PostgreSQL", false, true, *during / 2},
		{"MariaDB", true, false, *during / 2},
		{"MariaDB", false, true, *during / 2},
	} {
		if r.during == 0 {
			continue
		}
		t.Run(fmt.Sprintf("%s/fence=%t/Hold=%t", r.dialect, r.fence, r.hold), func(t *testing.T) {
			if *during == 0 { // otherwise each has the machine for itself
				depth.Parallel(t)
			}
			for n := 1; ; n++ {
				got := r.trial(t)
				t.Logf("%d rows, %d stops, %d kills, %d stopped by the fence; missed by Next %d, by Read %d, by id > last %d, by rereading 30 s %d\n%v",
					got.rows, got.stops(), got.kills, got.late, got.missed["next"], got.missed["read"], got.missed["id > last"], got.missed["reread"], got.at)
				if r.fence {
					require.Zero(t, got.missed["next"], "rows are missed")
					require.Zero(t, got.missed["read"], "rows are missed")
				}
				err := r.shows(got)
				if err == nil {
					return
				}
				require.Less(t, n, 4, "on a busy machine, less happens in the same time; but after %d trials: %v", n, err)
			}
		})
	}
}

// shows returns an error if the trial was too weak.
func (r run) shows(got result) error {
	switch {
	case got.missed["id > last"] == 0:
		return errors.New("id > last has missed nothing")
	case !r.fence && got.missed["next"]+got.missed["read"] == 0:
		return errors.New("no row is missed without the fence")
	case r.fence && *during > 0 && got.late == 0:
		return errors.New("the fence has stopped nothing")
	case r.fence && r.hold && *during > 0:
		want := points
		if r.dialect == "PostgreSQL" {
			want = append(raisePoints, points...)
		}
		for _, point := range want {
			if got.at[point] == 0 {
				return fmt.Errorf("nothing stopped %v", point)
			}
		}
		if got.stops() < 1000 {
			return fmt.Errorf("there were only %d stops", got.stops())
		}
	}
	return nil
}

type result struct {
	rows, late, kills int
	missed            map[string]int // by which reader
	at                map[string]int // how often a process stopped at a point
}

func (r result) stops() (n int) {
	for _, k := range r.at {
		n += k
	}
	return n
}

// trial runs eight writers and two readers, and counts the rows that each reader has not read.
func (r run) trial(t *testing.T) result {
	db := dialects[r.dialect](t)
	prepare(t, db)
	db.exec(t, `CREATE TABLE delivered (id BIGINT PRIMARY KEY)`)
	db.exec(t, `CREATE TABLE cursors (name VARCHAR(10) PRIMARY KEY, id BIGINT NOT NULL)`)
	db.exec(t, `INSERT INTO cursors VALUES ('next', 0), ('read', 0)`)
	env := []string{"FOLLOW_DRIVER=" + db.driver, "FOLLOW_DSN=" + db.dsn, fmt.Sprint("FOLLOW_FENCE=", r.fence),
		fmt.Sprint("FOLLOW_HOLD=", r.hold)}
	ctx, stop := context.WithCancel(t.Context())
	var background sync.WaitGroup
	defer background.Wait()
	defer stop()
	replica := replicaOf(t, db)
	env = append(env, "FOLLOW_REPLICA="+replica.dsn)
	replica.catchUp(t, db)
	background.Go(func() { replica.pauseNowAndThen(t, ctx) })
	naive := map[string]*naive{"id > last": {}, "reread": {reread: true}}
	for _, n := range naive {
		background.Go(func() { n.poll(t, ctx, db) })
	}

	got := result{at: map[string]int{}, missed: map[string]int{}}
	var mu sync.Mutex
	var ended atomic.Bool
	var watches sync.WaitGroup
	ready := map[*servertest.Child]bool{} // they have inserted or read a row
	start := func(kind string, n int) *servertest.Child {
		c := servertest.StartChild(t, append(env, childEnv+"="+kind, fmt.Sprint("FOLLOW_N=", n))...)
		watches.Go(func() {
			for line := range c.Lines {
				line = strings.TrimSpace(line)
				point, stops := strings.CutPrefix(line, "at ")
				mu.Lock()
				switch {
				case stops:
					got.at[point]++
				case line == "late":
					got.late++
				case line == "ready":
					ready[c] = true
				case strings.HasPrefix(line, "panic"), strings.HasPrefix(line, "fatal"):
					t.Error(line)
				}
				mu.Unlock()
				if stops {
					watches.Go(func() { pause(c, point, &ended) })
				}
			}
		})
		return c
	}
	readers := map[string]*servertest.Child{"next": start("next", 0), "read": start("read", 0)}
	writers := make([]*servertest.Child, trialWriters)
	for n := range writers {
		writers[n] = start("writer", n)
	}
	isReady := func(c *servertest.Child) bool {
		mu.Lock()
		defer mu.Unlock()
		return ready[c]
	}
	for begun := time.Now(); time.Since(begun) < r.during; time.Sleep(rand.N(trialWindow)) {
		if rand.N(6) > 0 {
			continue
		}
		for range 1 + rand.N(3) { // in a row
			if n := rand.N(trialWriters); isReady(writers[n]) {
				got.kills++
				writers[n].Kill()
				writers[n] = start("writer", n)
			}
		}
		if isReady(readers["next"]) && rand.N(2) == 0 {
			got.kills++
			readers["next"].Kill()
			readers["next"] = start("next", 0)
		}
	}
	servertest.Await(t, func() error {
		if len(ids(t, db, follow.Span{UpTo: math.MaxInt64})) == 0 {
			return errors.New("no rows were written")
		}
		return nil
	})
	ended.Store(true)
	for _, w := range writers {
		require.NoError(t, w.Tell("end"))
	}
	for _, w := range writers {
		w.Wait()
		require.True(t, w.State().Success(), "%v", w.State())
	}
	there := ids(t, db, follow.Span{UpTo: math.MaxInt64})
	last := there[len(there)-1]
	servertest.Await(t, func() error {
		var n int
		if err := db.QueryRow(fmt.Sprintf(`SELECT COUNT(*) FROM cursors WHERE id < %d`, last)).Scan(&n); err != nil || n == 0 {
			return err
		}
		return fmt.Errorf("%d readers have not reached the last row", n)
	})
	time.Sleep(200 * time.Millisecond) // for the naive readers
	stop()
	background.Wait()
	for _, reader := range readers {
		_ = reader.Tell("end")
		reader.Wait()
	}
	watches.Wait()
	var delivered []snowflake.ID
	rows := servertest.Must(db.Query(`SELECT id FROM delivered ORDER BY id`))(t)
	defer rows.Close()
	for rows.Next() {
		var id snowflake.ID
		require.NoError(t, rows.Scan(&id))
		delivered = append(delivered, id)
	}
	read, _ := readers["read"].IDs()
	require.True(t, slices.IsSorted(read), "rows were read in another order")
	require.Len(t, slices.Compact(slices.Clone(read)), len(read), "rows were read twice")
	got.rows = len(there)
	for name, has := range map[string][]snowflake.ID{
		"next":      delivered,
		"read":      read,
		"id > last": naive["id > last"].sent,
		"reread":    naive["reread"].sent,
	} {
		missed := map[snowflake.ID]bool{}
		for _, id := range there {
			missed[id] = true
		}
		for _, id := range has {
			assert.Contains(t, missed, id, "%s has read a row that is not there, or twice", name)
			delete(missed, id)
		}
		got.missed[name] = len(missed)
		if r.fence && (name == "next" || name == "read") {
			for _, id := range slices.Sorted(maps.Keys(missed)) {
				t.Log("missed by", name, snowflake.Decode(id))
			}
		}
	}
	return got
}

// pause stops a child at a point for a time.
func pause(c *servertest.Child, point string, ended *atomic.Bool) {
	most := []time.Duration{0, trialWindow / 10, trialWindow, 10 * trialWindow}[rand.N(4)]
	if (point == "writer after check" || point == "writer before COMMIT" || point == "writer after PREPARE" ||
		strings.HasPrefix(point, "reader")) && rand.N(8) > 0 {
		// The reader waits for the writer. If it waited most of the time, it could not miss rows.
		most = min(most, trialWindow/10)
	}
	if *during > 0 && strings.HasPrefix(point, "writer") && rand.N(60) == 0 {
		most = 80 * time.Second // 40 s at least
	}
	_ = c.Process().Signal(syscall.SIGSTOP)
	for end := time.Now().Add(most/2 + rand.N(most/2+1)); time.Now().Before(end) && !ended.Load(); {
		time.Sleep(trialWindow / 100)
	}
	_ = c.Process().Signal(syscall.SIGCONT)
	_ = c.Tell("go") // fails if the child was killed
}

// naive polls without a fence: it reads the rows with id > last or, if reread is set, those of the
// last 30 s that it has not sent.
type naive struct {
	reread bool
	sent   []snowflake.ID
}

func (n *naive) poll(t testing.TB, ctx context.Context, db database) {
	sent, last := map[snowflake.ID]bool{}, snowflake.ID(0)
	for ctx.Err() == nil {
		after := last
		if n.reread {
			after, _, _ = snowflake.DefaultLayout().Range(time.Now().Add(-30*time.Second), time.Now())
		}
		for _, id := range ids(t, db, follow.Span{After: after, UpTo: math.MaxInt64}) {
			if !sent[id] {
				n.sent = append(n.sent, id)
			}
			last, sent[id] = id, true
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// agent is a writer or a reader.
type agent struct {
	kind        string // writer or reader
	n           int
	fence, hold bool
	dialect     follow.Dialect
	db, replica *sql.DB
	f           *follow.Fence
	leases      *sqllease.Store
	ended       atomic.Bool
	going       chan struct{}
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// child is a process of the trial.
func child(kind string) {
	c := &agent{kind: "reader", fence: os.Getenv("FOLLOW_FENCE") == "true", hold: os.Getenv("FOLLOW_HOLD") == "true",
		dialect: follow.PostgreSQL, going: make(chan struct{})}
	if kind == "writer" {
		c.kind = kind
	}
	driverName, dsn := os.Getenv("FOLLOW_DRIVER"), os.Getenv("FOLLOW_DSN")
	leases, lease := sqllease.PostgreSQL, dsn
	if driverName == "mysql" {
		c.dialect, leases = follow.MySQL, sqllease.MySQL
		dsn += "?interpolateParams=true"
	}
	var err error
	c.n, err = strconv.Atoi(os.Getenv("FOLLOW_N"))
	check(err)
	ours, err := sql.Open(driverName, lease)
	check(err)
	c.db = sql.OpenDB(connector{ours.Driver(), dsn, c.at, !c.fence})
	c.replica = sql.OpenDB(connector{ours.Driver(), os.Getenv("FOLLOW_REPLICA"), c.at, false})
	for _, db := range []*sql.DB{ours, c.db, c.replica} { // a connection costs PostgreSQL a process
		db.SetMaxIdleConns(10)
	}
	c.leases, err = sqllease.New(ours, leases, nil)
	check(err)
	c.f, err = follow.NewFence(c.dialect, "outbox_fence")
	check(err)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			if in.Text() == "end" {
				if c.kind == "reader" {
					os.Exit(0)
				}
				c.ended.Store(true)
			} else {
				c.going <- struct{}{}
			}
		}
		os.Exit(1) // the test has ended
	}()
	switch kind {
	case "writer":
		c.write()
	case "next":
		c.next()
	case "read":
		c.read()
	}
}

// at lets the test stop the process here sometimes.
func (c *agent) at(point string) {
	one := 20 // of so many times
	switch {
	// Readers reach this point more often.
	case strings.HasSuffix(point, "fence"), strings.HasSuffix(point, "SELECT"), strings.HasSuffix(point, "list"):
		one = 60
	case c.kind == "reader", strings.HasSuffix(point, "PREPARE"):
		one = 6
	}
	if !c.ended.Load() && rand.N(one) == 0 {
		fmt.Fprintf(os.Stderr, "at %s %s\n", c.kind, point)
		<-c.going
	}
}

func (c *agent) write() {
	ctx := context.Background()
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
		l, err = lease.Acquire(ctx, &lossy{Store: c.leases, ended: &c.ended}, &lease.Options{
			Owner: fmt.Sprint("writer-", c.n), NewStore: true, Window: trialWindow, FloorEvery: trialWindow / 10, Logger: quiet,
			Clock: snowflake.ClockFunc(func() time.Time { return time.Now().Add(time.Duration(off.Load())) }),
		})
	}
	g, err := snowflake.NewLeased(l, nil)
	check(err)
	c.commitPrepared()
	w := follow.NewWriter(c.db, c.f, l, g)
	for n := 0; !c.ended.Load(); n++ {
		if n == 1 {
			fmt.Fprintln(os.Stderr, "ready")
		}
		c.at("before Hold")
		var err error
		o := &sql.TxOptions{Isolation: []sql.IsolationLevel{sql.LevelDefault, sql.LevelReadCommitted,
			sql.LevelRepeatableRead, sql.LevelSerializable}[n%4]}
		switch {
		case c.n >= 6:
			err = c.insertPrepared(l, g, n)
		case c.hold && c.n%2 == 0:
			w.TxOptions = o
			calls := 0
			err = w.Do(ctx, func(tx *follow.Tx) error {
				if calls++; calls > 1 {
					fmt.Fprintln(os.Stderr, "late")
				}
				c.at("after Hold")
				id, err := tx.NextID()
				return c.insert(tx.Tx, id, err)
			})
		default:
			err = c.insertByHand(l, g, o)
		}
		if errors.Is(err, follow.ErrLate) {
			fmt.Fprintln(os.Stderr, "late")
		} else if err != nil { // the clock went back, or the window has ended
			time.Sleep(trialWindow / 100)
		}
	}
	_ = l.Release(ctx) // fails if the lease was lost
	os.Exit(0)
}

type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// insert inserts a row, and then does some work.
func (c *agent) insert(tx execer, id snowflake.ID, err error) error {
	if err != nil {
		return err
	}
	c.at("after NextID")
	_, err = tx.ExecContext(context.Background(), insert(id))
	time.Sleep(rand.N(trialWindow / 4))
	return err
}

// holding opens a Hold, unless the trial is without Holds, or the process shows what the fence is
// for.
func (c *agent) holding(l *lease.Lease) (done func()) {
	if !c.hold || c.n == 5 {
		return func() {}
	}
	return l.Hold()
}

func (c *agent) insertByHand(l *lease.Lease, g *snowflake.Generator, o *sql.TxOptions) error {
	ctx := context.Background()
	defer c.holding(l)()
	c.at("after Hold")
	tx, err := c.db.BeginTx(ctx, o)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	id, err := g.NextID()
	if err := c.insert(tx, id, err); err != nil {
		return err
	}
	if err := c.f.Check(ctx, tx, id); err != nil {
		return err
	}
	return tx.Commit()
}

// insertPrepared commits in two phases: on MariaDB with XA at SERIALIZABLE.
func (c *agent) insertPrepared(l *lease.Lease, g *snowflake.Generator, n int) (err error) {
	ctx := context.Background()
	defer c.holding(l)()
	conn, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer func() {
		if err != nil {
			_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the server rolls back
		}
	}()
	name := fmt.Sprintf("%s%d-%d", c.prefix(), os.Getpid(), n)
	begin, prepare, commit := `BEGIN`, `PREPARE TRANSACTION 'x'`, `COMMIT PREPARED 'x'`
	if c.dialect == follow.MySQL {
		begin, prepare, commit = `SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; XA START 'x'`, `XA END 'x'; XA PREPARE 'x'`, `XA COMMIT 'x'`
	}
	run := func(statements string) {
		for s := range strings.SplitSeq(strings.ReplaceAll(statements, "'x'", "'"+name+"'"), "; ") {
			if err == nil {
				_, err = conn.ExecContext(ctx, s)
			}
		}
	}
	run(begin)
	id, failed := g.NextID()
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	if err = c.insert(conn, id, nil); err != nil {
		return err
	}
	if err = c.f.Check(ctx, conn, id); err != nil {
		return err
	}
	run(prepare)
	run(commit)
	return err
}

// prefix is the prefix of the names of this writer's prepared transactions.
func (c *agent) prefix() string {
	return fmt.Sprintf("%s-%d-", os.Getenv("FOLLOW_DSN")[strings.LastIndexAny(os.Getenv("FOLLOW_DSN"), "=/")+1:], c.n)
}

// commitPrepared commits the transactions that a killed process of this writer had prepared.
func (c *agent) commitPrepared() {
	query, commit := `SELECT gid FROM pg_prepared_xacts`, `COMMIT PREPARED '%s'`
	if c.dialect == follow.MySQL {
		query, commit = `XA RECOVER`, `XA COMMIT '%s'`
	}
	rows, err := c.db.Query(query)
	check(err)
	defer rows.Close()
	for rows.Next() {
		var name string
		to := []any{&name}
		if c.dialect == follow.MySQL {
			to = []any{new(int), new(int), new(int), &name}
		}
		check(rows.Scan(to...))
		if strings.HasPrefix(name, c.prefix()) {
			time.Sleep(rand.N(trialWindow))
			_, err := c.db.Exec(fmt.Sprintf(commit, name))
			if err != nil {
				// The server has not detected yet that the process has ended.
				fmt.Fprintln(os.Stderr, err)
			}
		}
	}
}

func (c *agent) options() *follow.Options {
	return &follow.Options{Every: trialWindow / 20, Table: "outbox", Rows: 20, Logger: quiet}
}

// next reads spans, and stores the rows and the cursor in one transaction.
func (c *agent) next() {
	ctx := context.Background()
	for {
		var cursor snowflake.ID
		check(c.db.QueryRow(`SELECT id FROM cursors WHERE name = 'next'`).Scan(&cursor))
		r := follow.NewReader(&looks{Store: c.leases, c: c}, c.db, c.f, cursor, c.options())
		for err := error(nil); err == nil; {
			s, failed := r.Next(ctx)
			check(failed)
			err = c.keep(s)
			fmt.Fprintln(os.Stderr, "ready")
		}
	}
}

func (c *agent) keep(s follow.Span) error {
	tx, err := c.db.BeginTx(context.Background(), &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if _, err := tx.Exec(fmt.Sprintf(`INSERT INTO delivered SELECT id FROM outbox WHERE id > %d AND id <= %d`, s.After, s.UpTo)); err != nil {
		check(err) // the row exists
	}
	if _, err := tx.Exec(fmt.Sprintf(`UPDATE cursors SET id = %d WHERE name = 'next'`, s.UpTo)); err != nil {
		return err
	}
	return tx.Commit()
}

// read reads from the replica.
func (c *agent) read() {
	ctx, o := context.Background(), c.options()
	o.Replica = c.replica
	r := follow.NewReader(&looks{Store: c.leases, c: c}, c.db, c.f, 0, o)
	for {
		var upTo snowflake.ID
		check(r.Read(ctx, func(tx *sql.Tx, s follow.Span) error {
			rows, err := tx.Query(fmt.Sprintf(`SELECT id FROM outbox WHERE id > %d AND id <= %d ORDER BY id`, s.After, s.UpTo))
			check(err)
			defer rows.Close()
			for rows.Next() {
				var id snowflake.ID
				check(rows.Scan(&id))
				check(servertest.WriteIDs(id))
			}
			upTo = s.UpTo
			return rows.Err()
		}))
		_, err := c.db.Exec(fmt.Sprintf(`UPDATE cursors SET id = %d WHERE name = 'read'`, upTo))
		check(err)
	}
}

// looks is a reader's store, with points.
type looks struct {
	*sqllease.Store
	c         *agent
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

// lossy is a writer's store. It loses saves and replies and, sometimes for two windows, all
// requests.
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
