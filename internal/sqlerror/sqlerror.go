// Package sqlerror recognizes errors of databases without their drivers.
package sqlerror

import (
	"slices"
	"strings"
)

// Has reports whether err, or an error that it wraps, has one of the codes: the SQLSTATE of
// PostgreSQL's drivers, which is a method of theirs, or the number of an error of MySQL, with which
// the texts of github.com/go-sql-driver/mysql begin, as in "Error 1146 (42S02): ...".
func Has(err error, codes ...string) bool {
	if err == nil {
		return false
	}
	if text, ok := strings.CutPrefix(err.Error(), "Error "); ok {
		if number, _, _ := strings.Cut(text, " "); slices.Contains(codes, number) {
			return true
		}
	}
	if e, ok := err.(interface{ SQLState() string }); ok && slices.Contains(codes, e.SQLState()) {
		return true
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return Has(e.Unwrap(), codes...)
	case interface{ Unwrap() []error }:
		return slices.ContainsFunc(e.Unwrap(), func(err error) bool { return Has(err, codes...) })
	}
	return false
}
