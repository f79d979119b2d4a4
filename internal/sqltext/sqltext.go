// Package sqltext writes SQL that decodes IDs in a database, as a Layout does in Go.
package sqltext

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/seed-5394e6b1/snowflake"
)

// Engine is a database.
type Engine string

const (
	PostgreSQL Engine = "postgres"
	MySQL      Engine = "mysql" // and MariaDB
	SQLite     Engine = "sqlite"
	ClickHouse Engine = "clickhouse"
	DuckDB     Engine = "duckdb"
	SQLServer  Engine = "sqlserver"
	Oracle     Engine = "oracle"
	BigQuery   Engine = "bigquery"
	Snowflake  Engine = "snowflake"
)

// Engines returns all databases.
func Engines() []Engine {
	return []Engine{PostgreSQL, MySQL, SQLite, DuckDB, ClickHouse, SQLServer, Oracle, BigQuery, Snowflake}
}

// ErrUnit is returned if SQL's times cannot count the layout's ticks exactly.
var ErrUnit = errors.New("the tick must be a number of microseconds that divides a day, or must divide a microsecond")

// Function is an expression with a name and one parameter.
type Function struct {
	Name      string
	Parameter string // "id" or "t"
	Kind      Kind   // the type of the result
	Body      string // an expression of the engine's, with the parameter in it
	About     string
}

// Kind is the type of a result.
type Kind uint8

const (
	Integer Kind = iota
	Time
	Bool
)

// Functions returns the functions for a layout. time, worker and so on return the
// fields of an ID, or NULL if the number is not an ID. valid tells whether a number
// is an ID. first returns the first ID that is not stamped before a time.
func Functions(e Engine, l snowflake.Layout) ([]Function, error) {
	if err := l.Validate(); err != nil {
		return nil, err
	}
	const day = 24 * time.Hour
	micro := l.Unit%time.Microsecond == 0 && day%l.Unit == 0
	if !micro && time.Microsecond%l.Unit != 0 {
		return nil, fmt.Errorf("unit %v: %w", l.Unit, ErrUnit)
	}
	w := writer{engines[e], l}
	fs := []Function{
		{"valid", "id", Bool, w.value(w.valid()), "whether a number is an ID of the layout"},
		{"time", "id", Time, w.ifValid(w.timeOf()), "when an ID was stamped, in UTC"},
	}
	shift := 0
	field := func(name string, bits uint8) {
		if bits > 0 {
			fs = append(fs, Function{name, "id", Integer, w.ifValid(w.field(shift, bits)), "the " + name + " of an ID"})
			shift += int(bits)
		}
	}
	if l.WorkerLast {
		field("worker", l.WorkerBits)
		field("sequence", l.SequenceBits)
	} else {
		field("sequence", l.SequenceBits)
		field("worker", l.WorkerBits)
	}
	field("datacenter", l.DatacenterBits)
	field("clockseq", l.ClockSeqBits)
	return append(fs, Function{"first", "t", Integer, w.first(), "the first ID that is not stamped before a time in UTC"}), nil
}

// writer writes expressions of an engine.
type writer struct {
	engine
	l snowflake.Layout
}

func (w writer) shift() int {
	return int(w.l.ClockSeqBits) + int(w.l.DatacenterBits) + int(w.l.WorkerBits) + int(w.l.SequenceBits)
}

// largest returns the greatest ID.
func (w writer) largest() int64 { return ones(w.shift() + int(w.l.TimeBits)) }

func ones(bits int) int64 { return math.MaxInt64 &^ (-1 << bits) }

func (w writer) valid() string { return fmt.Sprintf("id BETWEEN 0 AND %d", w.largest()) }

// value returns a condition as a value.
func (w writer) value(condition string) string {
	if w.boolean == "" {
		return condition
	}
	return fill(w.boolean, "{x}", condition)
}

func (w writer) ifValid(expression string) string {
	return fmt.Sprintf("CASE WHEN %s THEN %s END", w.valid(), expression)
}

// of puts an operand and a number into one of the engine's operators.
func of(operator, x string, n int64) string {
	power := uint64(1) << (n & 63) // only shifts use it
	return fill(operator, "{x}", x, "{n}", fmt.Sprint(n), "{p}", fmt.Sprint(power))
}

func (w writer) divideBy(x string, y int64) string {
	if y == 1 {
		return x
	}
	return of(w.divide, x, y)
}

func times(x string, y int64) string {
	if y == 1 {
		return x
	}
	return fmt.Sprintf("(%s * %d)", x, y)
}

func (w writer) field(shift int, bits uint8) string {
	x := "id"
	if shift > 0 {
		x = of(w.right, "id", int64(shift))
	}
	return of(w.and, x, ones(int(bits)))
}

// timeOf returns the time of a valid ID. It adds whole days first, and then the rest of a day,
// because some engines have fractions of a second in floating point, which is exact for a day, but
// not for a thousand years.
func (w writer) timeOf() string {
	tick := "id"
	if w.shift() > 0 {
		tick = of(w.right, "id", int64(w.shift()))
	}
	perDay := int64(24 * time.Hour / w.l.Unit)
	rest := of(w.rest, tick, perDay) // ticks since midnight
	micros := times(rest, int64(w.l.Unit/time.Microsecond))
	if w.l.Unit < time.Microsecond {
		micros = w.divideBy(rest, int64(time.Microsecond/w.l.Unit))
	}
	return w.withEpoch(w.time, "{days}", w.divideBy(tick, perDay), "{micros}", micros)
}

// withEpoch fills in a text of the engine's that has the epoch.
func (w writer) withEpoch(text string, more ...string) string {
	const day = int64(24 * time.Hour / time.Microsecond)
	epoch := w.l.Epoch.Time()
	rest := (epoch.UnixMicro()%day + day) % day
	return fill(text, append(more,
		"{epoch}", epoch.Format("2006-01-02 15:04:05.000"),
		"{epochMicros}", fmt.Sprint(epoch.UnixMicro()),
		"{epochDay}", fmt.Sprint((epoch.UnixMicro()-rest)/day),
		"{epochRest}", fmt.Sprint(rest))...)
}

// first returns the first ID not before t. If t is before the epoch, that is 0. If t
// is past the layout's end, it is a number greater than all IDs or, if there is no
// such number, the greatest ID.
func (w writer) first() string {
	micros := w.withEpoch(w.sinceEpoch)
	unit := int64(w.l.Unit / time.Microsecond)
	tick := w.divideBy(fmt.Sprintf("(%s + %d)", micros, unit-1), unit)
	late, limit := tick, ones(int(w.l.TimeBits)) // late > limit is past the last tick
	if w.l.Unit < time.Microsecond {
		// Compare microseconds: an integer may be too small for the ticks.
		perMicro := int64(time.Microsecond / w.l.Unit)
		tick, late, limit = times(micros, perMicro), micros, limit/perMicro
	}
	end := w.largest()
	if end < math.MaxInt64 {
		end++
	}
	last := strings.ReplaceAll(cmp.Or(w.signed, "{n}"), "{n}", fmt.Sprint(end))
	return fmt.Sprintf("CASE WHEN %s <= 0 THEN 0 WHEN %s > %d THEN %s ELSE %s END", micros, late, limit, last,
		of(w.left, tick, int64(w.shift())))
}

// Script returns statements to paste into a migration. Each ends with a semicolon at the end of its
// last line. For SQLite, which has no CREATE FUNCTION, they are expressions in comments.
func Script(e Engine, l snowflake.Layout, prefix string) (string, error) {
	fs, err := Functions(e, l)
	if err = cmp.Or(checkName("prefix", prefix), err); err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "-- IDs of %v\n", l)
	for _, f := range fs {
		fmt.Fprintf(&b, "\n-- %s%s(%s): %s\n", prefix, f.Name, f.Parameter, f.About)
		types, parameter := engines[e].types, engines[e].id
		if f.Parameter == "t" {
			parameter = types[Time]
		}
		b.WriteString(fill(engines[e].create, "{name}", prefix+f.Name, "{parameter}", f.Parameter, "{type}", parameter,
			"{result}", types[f.Kind], "{body}", f.Body))
	}
	body := func(name string) string {
		return fs[slices.IndexFunc(fs, func(f Function) bool { return f.Name == name })].Body
	}
	b.WriteString("\n" + fill(engines[e].usage, "{prefix}", prefix, "{time}", body("time"), "{valid}", body("valid")))
	return b.String(), nil
}
