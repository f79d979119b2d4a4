package sqllease

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Nodes gives out worker IDs by the scheme of Baidu's uid-generator: each start
// of a process inserts a row, and the row's number, which the database counts up,
// is its worker ID, used once.
//
//	nodes, err := sqllease.NewNodes(db, sqllease.MySQL, nil)
//	...
//	worker, err := nodes.Assign(ctx, sqllease.Node{Host: host, Port: port, Type: sqllease.Container}, layout)
//	...
//	gen, err := snowflake.New(worker, &snowflake.Options{Layout: layout})
//
// There is no lease and nothing to renew: a process that was paused still has its
// worker ID to itself, and one that starts again gets another. The database is
// needed at the start only.
//
// The price is that every start uses one up, a crash loop included. Numbers begin
// at 1 (worker 0 is never given out), so that 10 bits last for 1,023 starts in
// all. Take a layout with many worker bits; 22 last for 4,194,303.
//
// HAZARD: a number must never come twice. It may if rows are deleted and the
// server is MySQL 5.7 or older or MariaDB before 10.2.4, whose InnoDB forgets the
// count when it restarts and goes on from the largest number left, or if a
// table of SQLite that Create has not made lacks AUTOINCREMENT; if the
// table is truncated or dropped, or its count is set back; if the database is
// restored from a backup, or fails over to a replica that lacked the last rows.
// Keep the rows; after such a loss set the count above all that was given out.
// The hazards of commits that are not durable, in the package's documentation,
// are those of Nodes too.
type Nodes struct{ table }

// Node describes a process, for people. The database does not look at it.
type Node struct {
	Host string // up to 64 characters fit Baidu's own table, 255 that of Create
	Port string // or a container's ID, or whatever else tells processes of a host apart
	Type NodeType

	// LaunchDate is the day of the start, in its own location. Zero: today.
	LaunchDate time.Time
}

// NodeType says what a process runs on, in Baidu's numbers.
type NodeType int

const (
	Container NodeType = 1 // such as Docker's
	Actual    NodeType = 2 // a machine, physical or virtual
)

// NewNodes returns the nodes of a table of db. It does not yet talk to the
// database. Errors are those of New.
//
// The user of db needs the right to INSERT (PostgreSQL: also to SELECT ID); for
// Create also to SELECT and to create a table, where it is not there yet.
func NewNodes(db *sql.DB, dialect Dialect, opts *Options) (*Nodes, error) {
	t, err := newTable(db, dialect, opts, "WORKER_NODE")
	if err != nil {
		return nil, err
	}
	return &Nodes{t}, nil
}

const nodeColumns = `HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED`

// Create creates the table if it is not there, with the columns of
// Baidu's. One that was made for uid-generator serves as it is. Any number of
// processes may do so at once.
func (n *Nodes) Create(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	id, kind := `BIGINT AUTO_INCREMENT PRIMARY KEY`, ` ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`
	switch n.dialect {
	case PostgreSQL:
		id, kind = `bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY`, ``
	case SQLite:
		id, kind = `INTEGER PRIMARY KEY AUTOINCREMENT`, ``
	}
	return n.create(ctx, `(ID `+id+`, HOST_NAME VARCHAR(255) NOT NULL, PORT VARCHAR(64) NOT NULL, TYPE INT NOT NULL,
		LAUNCH_DATE DATE NOT NULL, MODIFIED TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP,
		CREATED TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP)`+kind, `ID, `+nodeColumns)
}

// Assign returns a worker ID for a generator of layout, which was never returned
// before and never will be again. A zero layout is snowflake.DefaultLayout().
//
// When the number does not fit the layout's worker bits it returns an error that
// matches [snowflake.ErrWorkerRange] and has both; all further numbers will be
// too large as well. After any error a number may have been used up. Other errors
// match [snowflake.ErrInvalidLayout], [ErrNoTable] or the context's error, or are
// the driver's.
func (n *Nodes) Assign(ctx context.Context, node Node, layout snowflake.Layout) (worker int, err error) {
	if layout == (snowflake.Layout{}) {
		layout = snowflake.DefaultLayout()
	}
	if err := layout.Validate(); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	var id int64
	err = n.retry(ctx, func() error {
		id, err = n.insert(ctx, node)
		return err
	})
	if err != nil {
		return 0, err
	}
	if last := 1<<layout.WorkerBits - 1; id > int64(last) {
		e := &snowflake.FieldRangeError{Field: "worker", Value: int(min(id, math.MaxInt)), Max: last}
		return 0, fmt.Errorf("sqllease: table %s has no worker ID left: %w", n.name, e)
	}
	return int(id), nil
}

// insert returns the number of a row that is committed. The transaction is there
// for MySQL, which may have autocommit off.
func (n *Nodes) insert(ctx context.Context, node Node) (id int64, err error) {
	if node.LaunchDate.IsZero() {
		node.LaunchDate = time.Now()
	}
	query := `INSERT INTO ` + n.quoted + ` (` + nodeColumns + `) VALUES (`
	args := []any{node.Host, node.Port, int64(node.Type), node.LaunchDate.Format(time.DateOnly)}
	const now = `, CURRENT_TIMESTAMP, CURRENT_TIMESTAMP)`
	tx, err := n.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	switch n.dialect {
	case PostgreSQL:
		err = tx.QueryRowContext(ctx, query+`$1, $2, $3, $4`+now+` RETURNING ID`, args...).Scan(&id)
	case MySQL:
		var res sql.Result
		if res, err = tx.ExecContext(ctx, query+`?, ?, ?, ?`+now, args...); err == nil {
			id, err = res.LastInsertId()
		}
	default: // the last ID would be that of the row, whatever the column has
		err = tx.QueryRowContext(ctx, query+`?, ?, ?, ?`+now+` RETURNING ID`, args...).Scan(&id)
	}
	if err == nil && id <= 0 {
		err = fmt.Errorf("the row's ID is %d: the database does not count it up", id)
	}
	if err != nil {
		return 0, err
	}
	return id, tx.Commit()
}
