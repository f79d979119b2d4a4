// The outbox program reads new rows by ID, and misses none. Eight writers with clocks that differ by
// up to a second insert rows in transactions of different lengths. Two pollers read them: one asks
// for the rows with id > last, as everybody does, and loses rows; the other reads up to
// lease.Watermark.
//
// A row of the table outbox_mark is the fence. A writer's last statement before it commits locks the
// row for sharing, and compares its ID with it. The poller raises the row before it reads up to there. So the
// database stops a writer that slept through its window, however long.
//
// The database has to be empty: the program makes the tables outbox, outbox_mark and
// snowflake_leases, and leaves them there.
//
//	outbox -postgres postgres://user:password@host/database
//	outbox -mysql user:password@tcp(host)/database
package main

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"log"
	"log/slog"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	_ "github.com/go-sql-driver/mysql"
	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/lease"
	"github.com/seed-5394e6b1/snowflake/lease/sqllease"
)

// outbox is the table and its readers and writers.
type outbox struct {
	*sql.DB
	dialect   sqllease.Dialect
	store     lease.Store
	window    time.Duration // of the writers' leases
	floor     time.Duration // lease.Options.FloorEvery
	work      time.Duration // how long a transaction takes at most
	committed atomic.Int64  // rows
	fenced    atomic.Int64  // transactions that came too late, and were rolled back
}

func main() {
	postgres := flag.String("postgres", "", "the URL of a PostgreSQL database")
	mysql := flag.String("mysql", "", "the DSN of a MySQL or MariaDB database")
	during := flag.Duration("for", 10*time.Second, "for how long rows are written")
	floor := flag.Duration("floor", 100*time.Millisecond, "how often a lease is renewed while the watermark is read; 0: three times in its window of 3s")
	work := flag.Duration("work", time.Second, "how long a transaction takes at most")
	flag.Parse()
	if (*postgres == "") == (*mysql == "") {
		fmt.Fprintln(flag.CommandLine.Output(), "outbox needs an empty database: give either -postgres or -mysql")
		flag.Usage()
		os.Exit(2)
	}
	driver, dsn, dialect := "pgx", *postgres, sqllease.PostgreSQL
	if *mysql != "" {
		driver, dsn, dialect = "mysql", *mysql, sqllease.MySQL
	}
	db, err := sql.Open(driver, dsn)
	check(err)
	defer db.Close()
	store, err := sqllease.New(db, dialect, nil)
	check(err)
	o := &outbox{DB: db, dialect: dialect, store: store, window: 3 * time.Second, floor: *floor, work: *work}
	o.createTables()

	var writers, pollers sync.WaitGroup
	ended := make(chan struct{})
	for n := range 8 {
		writers.Go(func() { o.write(context.Background(), n, *during) })
	}
	var naive, whole int
	var lag time.Duration
	pollers.Go(func() { naive = o.poll(ended, o.all) })
	pollers.Go(func() { whole = o.poll(ended, o.watermark(&lag)) })
	writers.Wait()
	for _, last := range o.ids(`SELECT id FROM outbox ORDER BY id DESC LIMIT 1`) {
		o.awaitMark(last)
	}
	close(ended)
	pollers.Wait()
	n := int(o.committed.Load())
	fmt.Printf("rows committed:      %d, and %d stopped by the fence\n", n, o.fenced.Load())
	fmt.Printf("id > last:           %d read, %d lost\n", naive, n-naive)
	fmt.Printf("up to the watermark: %d read, %d lost; it was at most %v behind\n", whole, n-whole, lag.Round(10*time.Millisecond))
	fmt.Printf("of that:             the slowest clock %v, the longest transaction %v\n", slowest, *work)
}

const slowest = time.Second / 2

func (o *outbox) createTables() {
	o.exec(`CREATE TABLE outbox (id BIGINT PRIMARY KEY, writer INTEGER NOT NULL)`)
	o.exec(`CREATE TABLE outbox_mark (id BIGINT NOT NULL)`)
	o.exec(`INSERT INTO outbox_mark VALUES (0)`)
}

// awaitMark waits until the watermark has passed a row.
func (o *outbox) awaitMark(id snowflake.ID) {
	for len(o.ids(`SELECT id FROM outbox_mark WHERE id >= ?`, id)) == 0 {
		time.Sleep(50 * time.Millisecond)
	}
}

// write inserts rows for a while, with IDs of a clock that is off by up to half a second.
func (o *outbox) write(ctx context.Context, n int, during time.Duration) {
	off := time.Duration(n)*time.Second/7 - slowest
	starting, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	l, err := lease.Acquire(starting, o.store, &lease.Options{
		Owner: fmt.Sprint("writer-", n), NewStore: true, Window: o.window, FloorEvery: o.floor, Logger: slog.New(slog.DiscardHandler),
		Clock: snowflake.ClockFunc(func() time.Time { return time.Now().Add(off) }),
	})
	check(err)
	defer l.Release(context.Background())
	g, err := snowflake.NewLeased(l, nil)
	check(err)
	ctx, cancel = context.WithTimeout(ctx, during)
	defer cancel()
	for ctx.Err() == nil {
		work := func(snowflake.ID) { time.Sleep(rand.N(o.work)) }
		done := l.Hold() // before the first ID
		if n == 7 {      // this writer shows what the fence is for: it has no Hold, and sleeps until the watermark has passed its row
			done()
			work = o.awaitMark
		}
		err := o.insert(g, n, work)
		done() // after the commit
		switch {
		case errors.Is(err, errLate):
			o.fenced.Add(1)
		case errors.Is(err, snowflake.ErrLeaseExpired): // the store is away, or was; the lease recovers when it is back
			log.Printf("writer %d tries again: %v", n, err)
			time.Sleep(100 * time.Millisecond)
		case err != nil:
			log.Fatal(err)
		default:
			o.committed.Add(1)
		}
	}
}

var errLate = errors.New("the watermark has passed the row")

// insert is a writer's transaction, which works after it has inserted its row.
func (o *outbox) insert(g *snowflake.Generator, writer int, work func(snowflake.ID)) error {
	tx, err := o.Begin()
	if err != nil {
		return err
	}
	defer tx.Rollback()
	id, err := g.NextID()
	if err != nil {
		return err
	}
	if _, err := tx.Exec(o.text(`INSERT INTO outbox VALUES (?, ?)`), id, writer); err != nil {
		return err
	}
	work(id)
	var mark snowflake.ID
	lock := `SELECT id FROM outbox_mark FOR SHARE`
	if o.dialect == sqllease.MySQL {
		lock = `SELECT id FROM outbox_mark LOCK IN SHARE MODE`
	}
	if err := tx.QueryRow(lock).Scan(&mark); err != nil {
		return err
	}
	if id <= mark {
		return errLate // roll back, and try again with a new ID
	}
	return tx.Commit()
}

// poll reads the rows that next returns, until ended is closed, and then once more. It returns how many.
func (o *outbox) poll(ended <-chan struct{}, next func(last snowflake.ID) []snowflake.ID) (n int) {
	last := snowflake.ID(0)
	for again := true; again; {
		select {
		case <-ended:
			again = false
		case <-time.After(100 * time.Millisecond):
		}
		for _, id := range next(last) {
			last = id
			n++
		}
	}
	return n
}

// all is the mistake.
func (o *outbox) all(last snowflake.ID) []snowflake.ID {
	return o.ids(`SELECT id FROM outbox WHERE id > ? ORDER BY id`, last)
}

// watermark returns a function that reads up to the watermark. lag gets how far it is behind at most.
func (o *outbox) watermark(lag *time.Duration) func(last snowflake.ID) []snowflake.ID {
	begun, reader := time.Now(), lease.NewWatermarkReader(o.store)
	return func(last snowflake.ID) []snowflake.ID {
		m, err := reader.Read(context.Background())
		if errors.Is(err, lease.ErrWiped) {
			return nil // no writer has made the store yet
		}
		check(err)
		if m.HeldBy != nil {
			log.Printf("the watermark stands still: %s: %v", m.Why, m.HeldBy)
		}
		mark := m.ID
		if time.Since(begun) > 3*time.Second {
			*lag = max(*lag, time.Since(snowflake.Decode(mark+1).Time))
		}
		o.exec(o.text(`UPDATE outbox_mark SET id = ? WHERE id < ?`), mark, mark) // after this, nothing up to mark commits
		return o.ids(`SELECT id FROM outbox WHERE id > ? AND id <= ? ORDER BY id`, last, mark)
	}
}

func (o *outbox) ids(query string, args ...any) (ids []snowflake.ID) {
	rows, err := o.Query(o.text(query), args...)
	check(err)
	defer rows.Close()
	for rows.Next() {
		var id snowflake.ID
		check(rows.Scan(&id))
		ids = append(ids, id)
	}
	check(rows.Err())
	return ids
}

func (o *outbox) exec(query string, args ...any) {
	_, err := o.Exec(query, args...)
	check(err)
}

// text writes the parameters as the database wants them.
func (o *outbox) text(query string) string {
	for n := 1; o.dialect == sqllease.PostgreSQL && strings.Contains(query, "?"); n++ {
		query = strings.Replace(query, "?", fmt.Sprint("$", n), 1)
	}
	return query
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
