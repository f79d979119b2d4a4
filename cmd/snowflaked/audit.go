package main

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"

	"github.com/seed-5394e6b1/snowflake"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflake/commands"
	"github.com/seed-5394e6b1/snowflake/cmd/snowflaked/internal/stores"
	"github.com/seed-5394e6b1/snowflake/internal/audit"
	"github.com/seed-5394e6b1/snowflake/internal/audit/leases"
	"github.com/seed-5394e6b1/snowflake/internal/command"
	"github.com/seed-5394e6b1/snowflake/internal/input"
	"github.com/seed-5394e6b1/snowflake/internal/texts"
	"github.com/seed-5394e6b1/snowflake/lease"
)

// auditFlags are the flags of the command audit.
type auditFlags struct {
	store, database, query, from string
	fence, metrics, since        string
	every                        time.Duration
	batch                        int
	list                         audit.Options
	leases                       leases.Options
}

func (p *program) auditCommand() *cobra.Command {
	c := &cobra.Command{
		Use:               "audit [FILE...]",
		Short:             "Find IDs that were issued without a lease, and duplicates, gaps and more",
		ValidArgsFunction: commands.Files,
	}
	f := new(auditFlags)
	p.storeFlag(&f.store, c)
	p.jsonFlag(c)
	fs := c.Flags()
	fs.IntSliceVar(&f.leases.KeptOut, "worker", nil,
		"worker `IDs` that are kept out of the leases, such as a database function's: counted, but not judged")
	fs.IntSliceVar(&f.leases.Datacenters, "datacenter", nil,
		"`NUMBERS` of the datacenters whose leases are in the store, if the layout has datacenters")
	fs.StringVar(&f.since, "since", "", "skip IDs before this `TIME`, such as 2026-06-01, when the store was made or restored")
	f.list.Flags(fs)
	fs.StringVar(&f.query, "query", "", "`SQL` whose one column has the IDs, such as SELECT id FROM orders")
	fs.StringVar(&f.database, "database", "",
		"`URL` of the database of --query: postgres://HOST/DATABASE, mysql://HOST/DATABASE or sqlite:FILE.\n"+
			"Give a URL with a password in SNOWFLAKED_DATABASE")
	fs.StringVar(&f.from, "from", "", "continue after this `ID`, with --query")
	fs.IntVar(&f.batch, "batch", 100_000, "how many rows to read in a statement")
	fs.StringVar(&f.fence, "follow", "", "continue with new rows: the `NAME` of the fence that their writers check")
	fs.DurationVar(&f.every, "every", 5*time.Second, "how often to look for new rows, with --follow")
	fs.StringVar(&f.metrics, "metrics-file", "",
		"`FILE` to which the counts are written as metrics, at the end of the audit or, with --follow, of each\n"+
			"span: for the textfile collector of Prometheus' node_exporter. Its name ends in .prom")
	c.RunE = func(c *cobra.Command, args []string) error { return p.audit(c.Context(), f, args) }
	return c
}

// audit reads the IDs of a list or a table, and writes the report, even if some could not be read.
func (p *program) audit(ctx context.Context, f *auditFlags, args []string) error {
	after, err := f.check(len(args))
	if err != nil {
		return err
	}
	if err := mustExist(f.store); err != nil {
		return err
	}
	opening, opened := p.within(ctx, askTime, f.store)
	s, closeStore, err := openURL(opening, f.store)
	opened()
	if err != nil {
		return err
	}
	defer closeStore()
	c, err := leases.New(func() (*lease.History, error) {
		// IDs that were read are judged even after a signal.
		ctx, cancel := p.within(context.WithoutCancel(ctx), readTime, f.store)
		defer cancel()
		h, err := lease.ReadHistory(ctx, s)
		return h, withRemedy(err)
	}, f.leases)
	if err != nil {
		return err
	}
	var r *audit.Report
	var ended error
	if f.query == "" {
		a := audit.New(c.Layout(), p.Now(), f.list)
		a.Also = c.Add
		r, err = a.Read(p.Streams, args)
	} else {
		t := &tableAudit{auditFlags: f, program: p, found: c, after: max(after, c.First()-1)}
		ended = t.run(ctx, s)
		r = audit.NewReport(c.Layout(), 0)
		r.UpTo = t.after
	}
	if err != nil {
		return err
	}
	compared, err := c.Report()
	if err != nil {
		return errors.Join(ended, err)
	}
	if r.Leases = compared; f.query != "" {
		r.IDs = compared.IDs
	}
	if ended == nil && r.Unread == 0 {
		ended = f.writeMetrics(compared)
	}
	answer := r.Print(p.Streams, f.list.Listed, f.query == "")
	return cmp.Or(ended, answer)
}

// writeMetrics replaces the file of --metrics-file, if it is set. It does so atomically, so that
// the collector never reads an incomplete file.
func (f *auditFlags) writeMetrics(r *leases.Report) error {
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
func (f *auditFlags) check(files int) (after snowflake.ID, err error) {
	switch {
	case (f.query == "") != (f.database == ""):
		return 0, command.Refused("--query and --database belong together: one of them is missing")
	case f.query != "" && files > 0:
		return 0, command.Refused("name either files or --query, not both")
	case f.query != "" && (f.list.Ordered || f.list.Input != (input.Options{})):
		return 0, command.Refused("--column, --separator, --field and --order are for files, not for --query")
	case f.query == "" && f.from != "":
		return 0, command.Refused("--from needs --query")
	case f.query == "" && f.fence != "":
		return 0, command.Refused("--follow needs --query")
	case f.metrics != "" && filepath.Ext(f.metrics) != ".prom":
		return 0, command.Refused("--metrics-file %q does not end in .prom, so the collector would not read it", f.metrics)
	}
	err = errors.Join(
		command.AtLeast("every", f.every, 100*time.Millisecond), command.AtLeast("batch", f.batch, 1), f.list.Check())
	if err != nil {
		return 0, err
	}
	if f.from != "" {
		if after, err = snowflake.ParseID(f.from); err != nil {
			return 0, command.Refused("--from: %w", err)
		}
	}
	if f.since != "" {
		if f.leases.Since, err = texts.Time(f.since); err != nil {
			return 0, command.Refused("--since: %w", err)
		}
	}
	return after, nil
}

// sayEvery is the interval at which the command reports its progress.
const sayEvery = 30 * time.Second

// tableAudit reads the IDs of --query.
type tableAudit struct {
	*auditFlags
	*program
	db    *sql.DB
	found *leases.Comparison
	after snowflake.ID // the last ID that was read
}

// run reads the IDs above after, and those of new rows if the fence of --follow is set.
func (t *tableAudit) run(ctx context.Context, s lease.Store) (err error) {
	if t.db, err = stores.OpenDB(t.database); err != nil {
		return command.Refused("--database: %w", err)
	}
	defer t.db.Close()
	if t.fence != "" {
		err = t.follow(ctx, s)
	} else if err = t.reach(ctx); err == nil {
		err = t.read(ctx, math.MaxInt64)
	}
	if err != nil {
		return fmt.Errorf("%w; continue with --from %v", err, t.after)
	}
	return nil
}

// reach returns an error if the database does not answer.
func (t *tableAudit) reach(ctx context.Context) error {
	ctx, end := t.within(ctx, askTime, t.database)
	defer end()
	return t.db.PingContext(ctx)
}

// read reads the IDs above after, and up to upTo.
func (t *tableAudit) read(ctx context.Context, upTo snowflake.ID) error {
	said, n := time.Now(), 0
	for {
		read, err := t.readBatch(ctx, upTo)
		n += read
		if err != nil || read < t.batch {
			return err
		}
		if time.Since(said) > sayEvery {
			said = time.Now()
			t.Note("%d IDs, up to %v; strangers: %d", n, t.after, t.found.Strangers())
		}
	}
}

// readBatch is read for at most t.batch IDs. It returns how many it read.
func (t *tableAudit) readBatch(ctx context.Context, upTo snowflake.ID) (n int, err error) {
	rows, err := t.db.QueryContext(ctx, t.statement(t.after))
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
	for from := t.after; rows.Next(); n++ {
		var id snowflake.ID
		if err := rows.Scan((*int64)(&id)); err != nil {
			return n, err
		}
		if id <= from || id < t.after {
			return n, fmt.Errorf("the database gives %d after %v: the query's column has no numbers", id, t.after)
		}
		if id > upTo {
			break
		}
		if err := t.found.Add(id); err != nil {
			return n, err
		}
		t.after = id
	}
	return n, rows.Err()
}

// statement returns the statement for the rows after an ID. The databases merge the query into it,
// and so use the index.
func (f *auditFlags) statement(after snowflake.ID) string {
	return fmt.Sprintf("WITH snowflake_audit (id) AS (%s\n) SELECT id FROM snowflake_audit WHERE id > %d ORDER BY id LIMIT %d",
		strings.TrimRight(f.query, "; \t\r\n"), after, f.batch)
}
