//go:build unix

package database

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// result has the measurements of one table in one round.
type result struct {
	insert, flush   time.Duration
	cpu             time.Duration // of the server, for insert
	log             int64         // bytes, of insert and flush
	singles         time.Duration // for one row in each transaction
	sizes           map[string]int64
	byKey, byColumn time.Duration // the median of a range query, 0 if there is no index for it
}

// measure fills a new table and queries its intervals.
func (s *server) measure(t testing.TB, k table, rows, singles, queries int) (r result) {
	t.Helper()
	all := makeRows(t, k.key, rows+singles, rows)
	s.create(t, k)
	s.run(t, s.flush...)
	before := ask[int64](t, s.DB, s.log)
	r.insert, r.cpu = s.insert(t, k.key, all[:rows], *batchFlag)
	begun := time.Now()
	s.run(t, s.flush...)
	r.flush = time.Since(begun)
	r.log = ask[int64](t, s.DB, s.log) - before
	r.singles, _ = s.insert(t, k.key, all[rows:], 1)
	if n := ask[int](t, s.DB, `SELECT count(*) FROM orders`); n != len(all) {
		t.Fatalf("%s: %d rows were inserted, and %d are there", k.name, len(all), n)
	}
	s.run(t, s.settle...)
	r.sizes = s.measureSizes(t)
	spans := intervals(all, queries)
	if k.between != nil {
		r.byKey = s.query(t, "id", spans, k.between)
	}
	if k.index {
		r.byColumn = s.query(t, "created_at", spans, func(_ testing.TB, from, to time.Time) (lo, hi any) { return from, to })
	}
	return r
}

// insert lets the clients insert rows, size in each statement, which is a transaction. It returns
// the duration and the server's CPU time.
func (s *server) insert(t testing.TB, k key, rows []row, size int) (took, cpu time.Duration) {
	t.Helper()
	require.Zero(t, len(rows)%size, "%d rows cannot be inserted %d at a time", len(rows), size)
	stmts := make([]*sql.Stmt, clients)
	for i := range stmts {
		conn, err := s.Conn(background)
		require.NoError(t, err)
		defer conn.Close()
		if stmts[i], err = conn.PrepareContext(background, s.statement(k, size)); err != nil {
			t.Fatal(err)
		}
		defer stmts[i].Close() // the next table has other column types, so the statement cannot be reused
	}
	var next atomic.Int64
	errs := make([]error, len(stmts))
	var all sync.WaitGroup
	used, begun := s.process.CPU(), time.Now()
	for i := range stmts {
		all.Go(func() {
			for errs[i] == nil {
				end := int(next.Add(int64(size)))
				if end > len(rows) {
					return
				}
				_, errs[i] = stmts[i].Exec(arguments(k, rows[end-size:end])...)
			}
		})
	}
	all.Wait()
	took, cpu = time.Since(begun), s.process.CPU()-used
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("%s: %v", k.name, err)
	}
	return took, cpu
}

// statement inserts size rows.
func (s *server) statement(k key, size int) string {
	columns := []string{"id", "created_at", "customer", "amount", "payload"}
	if k.ids == nil {
		columns = columns[1:]
	}
	var values []string
	for i := range size {
		var holders []string
		for j := range columns {
			holders = append(holders, s.holder(i*len(columns)+j+1))
		}
		values = append(values, "("+strings.Join(holders, ",")+")")
	}
	return fmt.Sprintf("INSERT INTO orders (%s) VALUES %s", strings.Join(columns, ","), strings.Join(values, ","))
}

var payload = strings.Repeat("0123456789", 10)

func arguments(k key, rows []row) []any {
	args := make([]any, 0, 5*len(rows))
	for _, r := range rows {
		if k.ids != nil {
			args = append(args, r.id)
		}
		args = append(args, r.at, r.customer, r.amount, payload)
	}
	return args
}

// query selects the rows of each interval, by a column, and returns the median of the durations. It
// fails if the number of rows is wrong.
func (s *server) query(t testing.TB, column string, spans []interval, between func(t testing.TB, from, to time.Time) (lo, hi any)) time.Duration {
	t.Helper()
	stmt, err := s.Prepare(fmt.Sprintf(`SELECT count(*), sum(amount) FROM orders WHERE %[1]s >= %[2]s AND %[1]s < %[3]s`,
		column, s.holder(1), s.holder(2)))
	require.NoError(t, err)
	defer stmt.Close()
	var times []time.Duration
	for _, v := range spans {
		lo, hi := between(t, v.from, v.to)
		var count, sum int64
		begun := time.Now()
		require.NoError(t, stmt.QueryRow(lo, hi).Scan(&count, &sum))
		times = append(times, time.Since(begun))
		require.Equal(t, v.count, count, "by %s, from %v to %v: %d rows with a sum of %d, want %d with %d", column, v.from,
			v.to, count, sum, v.count, v.sum)
		require.Equal(t, v.sum, sum, "by %s, from %v to %v: %d rows with a sum of %d, want %d with %d", column, v.from,
			v.to, count, sum, v.count, v.sum)
	}
	slices.Sort(times)
	return times[len(times)/2]
}
