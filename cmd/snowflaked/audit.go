package main

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflaked/internal/stores"
	"github.com/seed-5394e6b1/snowflake/internal/cli/input"
	"github.com/seed-5394e6b1/snowflake/internal/cli/strangers"
	"github.com/seed-5394e6b1/snowflake/lease"
)

const aboutAudit = `snowflaked audit finds strangers: IDs that no process with a lease can have issued. They come from a program
with a worker ID of its own, an old deployment, or a copied machine. The times of a worker ID's holders do
not overlap, so an ID outside of all of them shows such a program, even if no ID has occurred twice yet.

It reads IDs from files or standard input, as "snowflake audit" does, or with --query from a database. Give
it only IDs that were issued under this store. It reports how many strangers there are, when they were
issued, and who had the worker ID before and after. Some IDs are not judged, and are counted separately: IDs
older than the history or than the first lease, IDs that a holder with a local copy has not reported yet, and
IDs of worker IDs that are kept out of the leases (--worker).

HAZARD: if the store was restored from a backup, or lost writes in a failover, it does not know who issued
IDs in the time that it lost. Skip them with --since.

With --query it reads the rows in the order of their IDs, in batches, so that no statement takes long. The
query must return IDs in one column of 64-bit numbers that has an index. The report names the last ID that
was read: --from continues after it. It does not see rows that were committed later and have a lower ID, so
read the whole table from time to time.

  snowflaked audit --store redis://db --database postgres://app@db/orders --query 'SELECT id FROM orders' --since 2026-06-01

With --follow it continues with new rows until it is interrupted. It needs the fence of package follow, which
the table's writers check, and the primary, because it raises the fence. A row below the fence is not
read: let Fence.Trigger refuse it, or also read the whole table each night.

  snowflaked audit --store redis://db --database postgres://app@db/orders --query 'SELECT id FROM orders' --follow orders_fence

With --metrics-file the counts are metrics, too: alert on snowflake_audit_strangers > 0, and if
snowflake_audit_completed_timestamp_seconds is over a day old or, with --follow, over ten minutes. With
--follow they are written after each span of rows, and count from its start.

The exit status is 1 if there are strangers or nothing to audit, or if the audit was not completed.

usage:
  snowflaked audit [--store URL] [--json] [FILE...]
  snowflaked audit [--store URL] [--json] --database URL --query SQL [--from ID] [--follow FENCE]
`

// auditFlags are the flags of the command audit.
type auditFlags struct {
	store, database, query, from string
	follow, metrics              string
	every                        time.Duration
	batch, listed                int
	json                         bool
	input                        input.Options
	strangers                    func() (strangers.Options, error)
}

// auditReport is what the command prints as JSON.
type auditReport struct {
	Layout string       `json:"layout"`
	UpTo   snowflake.ID `json:"upTo,omitzero"` // the last ID that --query has read
	*strangers.Report
}

func auditIDs(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) error {
	var f auditFlags
	fs := newFlags()
	store := storeFlag(fs, getenv)
	fs.StringVar(&f.database, "database", "",
		"`URL` of the database of --query: postgres://HOST/DATABASE, mysql://HOST/DATABASE or sqlite:FILE.\n"+
			"Give a URL with a password in the environment")
	fs.StringVar(&f.query, "query", "", "`SQL` whose one column has the IDs, such as SELECT id FROM orders")
	fs.StringVar(&f.from, "from", "", "continue after this `ID`, with --query")
	fs.StringVar(&f.follow, "follow", "", "continue with new rows: the `NAME` of the fence that their writers check")
	fs.DurationVar(&f.every, "every", 5*time.Second, "how often to look for new rows, with --follow")
	fs.IntVar(&f.batch, "batch", 100_000, "how many rows to read in a statement")
	fs.IntVar(&f.listed, "count", 20, "how many of each kind to list")
	fs.StringVar(&f.input.Column, "column", "", "`NAME|N` of the column in CSV or a table: N counts from 1, if the columns have no names")
	fs.StringVar(&f.input.Separator, "separator", "",
		"the `CHARACTER` between columns, or tab. Empty: the one that occurs most in the first line")
	fs.StringVar(&f.input.Field, "field", "", "the `NAME` of the field in JSON objects, one a line or in an array")
	fs.StringVar(&f.metrics, "metrics-file", "",
		"`FILE` to which the counts are written as metrics, at the end of the audit or, with --follow, of each\n"+
			"span: for the textfile collector of Prometheus' node_exporter. Its name ends in .prom")
	fs.BoolVar(&f.json, "json", false, "print JSON, for programs")
	f.strangers = strangers.Flags(fs)
	if err := parse(fs, aboutAudit, args, getenv, stdout); err != nil {
		return err
	}
	f.store = *store
	after, o, err := f.check(fs.NArg())
	if err != nil {
		return err
	}
	opening, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s, closeStore, err := openURL(opening, f.store)
	if err != nil {
		return err
	}
	defer closeStore()
	a, err := strangers.New(func() (*lease.History, error) {
		// IDs that were read are judged even after a signal.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTime)
		defer cancel()
		return lease.ReadHistory(ctx, s)
	}, o)
	if err != nil {
		return err
	}
	shown := auditReport{Layout: a.Layout().String()}
	var ended error
	if f.query != "" {
		shown.UpTo = max(after, a.First()-1)
		ended = f.auditTable(ctx, s, a, &shown.UpTo, stderr)
	} else {
		ended = eachID(fs.Args(), f.input, a)
	}
	if shown.Report, err = a.Report(); err != nil {
		return errors.Join(ended, err)
	}
	if ended == nil {
		ended = f.writeMetrics(shown.Report)
	}
	return errors.Join(ended, f.write(stdout, shown))
}

// writeMetrics replaces the file of --metrics-file, if it is set. It does so atomically, so that
// the collector never reads an incomplete file.
func (f *auditFlags) writeMetrics(r *strangers.Report) error {
	if f.metrics == "" {
		return nil
	}
	registry := prometheus.NewRegistry()
	for _, m := range []struct {
		name, help string
		value      int64
	}{
		{"ids", "IDs that the last audit compared with the leases.", int64(r.IDs)},
		{"held_ids", "Of these, the IDs issued by a holder of their worker ID.", int64(r.Held)},
		{"strangers", "Of these, the IDs issued without a lease, and IDs of another layout.", int64(r.Wrong())},
		{"completed_timestamp_seconds", "When the last audit was completed, in seconds since 1970.", time.Now().Unix()},
	} {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "snowflake_audit_" + m.name, Help: m.help})
		g.Set(float64(m.value))
		registry.MustRegister(g)
	}
	return prometheus.WriteToTextfile(f.metrics, registry)
}

// readTime bounds the reading of the store's whole history.
const readTime = 5 * time.Minute

// check returns an error if the flags contradict each other.
func (f *auditFlags) check(files int) (after snowflake.ID, o strangers.Options, err error) {
	switch {
	case (f.query == "") != (f.database == ""):
		return 0, o, refused("--query and --database belong together: one of them is missing")
	case f.query != "" && files > 0:
		return 0, o, refused("name either files or --query, not both")
	case f.query == "" && f.from != "":
		return 0, o, refused("--from needs --query")
	case f.query == "" && f.follow != "":
		return 0, o, refused("--follow needs --query")
	}
	err = errors.Join(
		atLeast("every", f.every, 100*time.Millisecond), atLeast("batch", f.batch, 1), atLeast("count", f.listed, 1))
	if err != nil {
		return 0, o, err
	}
	if f.from != "" {
		if after, err = snowflake.ParseID(f.from); err != nil {
			return 0, o, refused("--from: %w", err)
		}
	}
	if o, err = f.strangers(); err != nil {
		return 0, o, refused("--since: %w", err)
	}
	return after, o, nil
}

// write writes the report, and returns an error if there are strangers, or nothing to audit.
func (f *auditFlags) write(out io.Writer, shown auditReport) (err error) {
	if f.json {
		err = json.NewEncoder(out).Encode(shown)
	} else {
		shown.Write(out, f.listed)
		if shown.UpTo > 0 {
			_, err = fmt.Fprintf(out, "\nread up to %v\n", shown.UpTo)
		}
	}
	switch {
	case err != nil:
		return err
	case shown.Wrong() > 0:
		return fmt.Errorf("%d IDs were issued without a lease", shown.Wrong())
	case shown.IDs == 0 && f.query == "":
		return errors.New("there is nothing to audit")
	}
	return nil
}

// eachID adds the IDs of files to a. A line without an ID is an error, but the lines after it are
// read.
func eachID(names []string, o input.Options, a *strangers.Audit) error {
	if len(names) == 0 {
		names = []string{"-"}
	}
	var bad error
	ids := input.IDs{
		Add: func(id snowflake.ID, _ int) error { return a.Add(id) },
		Skip: func(why string, line int) {
			if bad == nil {
				bad = fmt.Errorf("line %d: %s", line, why)
			}
		},
	}
	for _, name := range names {
		if err := readFile(name, o, &ids); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return errors.Join(ids.Finish(), bad)
}

func readFile(name string, o input.Options, ids *input.IDs) error {
	in := os.Stdin
	if name != "-" {
		file, err := os.Open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	return ids.Read(in, o)
}

// sayEvery is how often the command reports its progress.
const sayEvery = 30 * time.Second

// auditTable adds the IDs of --query above after to a, and sets after to the last one.
func (f *auditFlags) auditTable(ctx context.Context, s lease.Store, a *strangers.Audit, after *snowflake.ID, stderr io.Writer) error {
	db, err := stores.OpenDB(f.database)
	if err != nil {
		return refused("--database: %w", err)
	}
	defer db.Close()
	if f.follow != "" {
		err = f.followTable(ctx, s, db, a, after, stderr)
	} else {
		err = f.readTable(ctx, db, a, after, math.MaxInt64, stderr)
	}
	if err != nil {
		return fmt.Errorf("%w; continue with --from %v", err, *after)
	}
	return nil
}

// readTable adds the IDs of --query above after, and up to upTo, to a, and sets after to the last
// one.
func (f *auditFlags) readTable(
	ctx context.Context, db *sql.DB, a *strangers.Audit, after *snowflake.ID, upTo snowflake.ID, stderr io.Writer,
) error {
	said, n := time.Now(), 0
	for {
		read, err := f.readBatch(ctx, db, a, after, upTo)
		n += read
		if err != nil || read < f.batch {
			return err
		}
		if time.Since(said) > sayEvery {
			said = time.Now()
			fmt.Fprintf(stderr, "snowflaked audit: %d IDs, up to %v; strangers: %d\n", n, *after, a.Strangers())
		}
	}
}

// readBatch is readTable for at most f.batch IDs. It returns how many it read.
func (f *auditFlags) readBatch(
	ctx context.Context, db *sql.DB, a *strangers.Audit, after *snowflake.ID, upTo snowflake.ID,
) (n int, err error) {
	rows, err := db.QueryContext(ctx, f.statement(*after))
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return 0, err
	}
	if is := strings.ToUpper(types[0].DatabaseTypeName()); strings.Contains(is, "CHAR") || strings.Contains(is, "TEXT") {
		return 0, fmt.Errorf("the query's column has the type %s, but IDs must be numbers: "+
			"MySQL compares texts with numbers as if they were rounded", is)
	}
	for from := *after; rows.Next(); {
		var id int64
		if err := rows.Scan(&id); err != nil {
			return n, err
		}
		if snowflake.ID(id) <= from || snowflake.ID(id) < *after {
			return n, fmt.Errorf("the database gives %d after %v: the query's column has no numbers", id, *after)
		}
		if snowflake.ID(id) > upTo {
			break
		}
		if err := a.Add(snowflake.ID(id)); err != nil {
			return n, err
		}
		*after = snowflake.ID(id)
		n++
	}
	return n, rows.Err()
}

// statement returns the statement for the rows after an ID. The databases merge the query into it,
// and so use the index.
func (f *auditFlags) statement(after snowflake.ID) string {
	return fmt.Sprintf("WITH snowflake_audit (id) AS (%s\n) SELECT id FROM snowflake_audit WHERE id > %d ORDER BY id LIMIT %d",
		strings.TrimRight(f.query, "; \t\r\n"), after, f.batch)
}
