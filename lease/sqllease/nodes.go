package sqllease

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Nodes assigns worker IDs as Baidu's uid-generator does: each start of a process inserts a row,
// and the number that the database gives the row is the worker ID, which is used once.
//
//	nodes, err := sqllease.NewNodes(db, sqllease.MySQL, nil)
//	...
//	node := sqllease.Node{Host: host, Port: port, Type: sqllease.Container}
//	worker, err := nodes.Assign(ctx, node, layout)
//	...
//	gen, err := snowflake.New(worker, &snowflake.Options{Layout: layout})
//
// There is no lease to renew. A process that was paused keeps its worker ID, and a process that
// restarts gets another one. The database is needed only at the start.
//
// Every start uses up a worker ID, even in a crash loop. Numbers begin at 1, so 10 bits last for
// 1,023 starts in all. Choose a layout with many worker bits; 22 last for 4,194,303 starts.
//
// HAZARD: if a number repeats, IDs may repeat. Numbers repeat if the table is truncated or dropped,
// if its counter is set back, if the database is restored from a backup, and if it fails over to a
// replica without the last rows. They may also repeat after rows were deleted: on MySQL 5.7 or
// older and MariaDB before 10.2.4, whose InnoDB loses the counter in a restart and continues from
// the largest number left, and in a SQLite table without AUTOINCREMENT, which Create does not make.
// Keep the rows; after such a loss set the counter above all assigned numbers. Numbers are also
// lost with commits that are not durable (see Hazards in the package's documentation).
type Nodes struct{ table }

// Node describes a process. The description is for people; Nodes does not use it.
type Node struct {
	Host string // at most 64 characters in Baidu's own table, 255 in a table that Create made
	Port string // a port, a container's ID, or another text that is unique on the host
	Type NodeType

	// LaunchDate is the day of the start, in its own location. The default is today.
	LaunchDate time.Time
}

// NodeType is the kind of a process's host. The values are Baidu's.
type NodeType int

const (
	Container NodeType = 1 // such as Docker's
	Actual    NodeType = 2 // a machine, physical or virtual
)

// NewNodes returns the nodes of a table of db. It does not connect to the database. It returns the
// errors of New.
//
// The user of db needs the right to INSERT and, on PostgreSQL, to SELECT the ID. Create also needs
// the right to SELECT and, if the table does not exist, to create a table.
func NewNodes(db *sql.DB, dialect Dialect, opts *Options) (*Nodes, error) {
	t, err := newTable(db, dialect, opts, "WORKER_NODE")
	if err != nil {
		return nil, err
	}
	return &Nodes{t}, nil
}

const nodeColumns = `HOST_NAME, PORT, TYPE, LAUNCH_DATE, MODIFIED, CREATED`

// Create creates the table, with the columns of Baidu's table, if it does not exist. A table of
// uid-generator needs no change. Processes may call Create concurrently.
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

// Assign returns a worker ID that no other call has returned or will return, for a generator of
// layout. A zero layout means snowflake.DefaultLayout().
//
// If the number does not fit the layout's worker bits, the error matches
// [snowflake.ErrWorkerRange]; all later numbers are too large as well. Other errors match
// [snowflake.ErrInvalidLayout], [ErrNoTable] or the context's error, or are the driver's. After any
// error, a number may have been used up.
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

// insert returns the number of a new, committed row. It uses a transaction in case autocommit is
// off on MySQL.
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
	default: // without RETURNING the last ID would be the rowid, even if the column ID is another one
		err = tx.QueryRowContext(ctx, query+`?, ?, ?, ?`+now+` RETURNING ID`, args...).Scan(&id)
	}
	if err == nil && id <= 0 {
		err = fmt.Errorf("the row's ID is %d: the database does not increment it", id)
	}
	if err != nil {
		return 0, err
	}
	return id, tx.Commit()
}
